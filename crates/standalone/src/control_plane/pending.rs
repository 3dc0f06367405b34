//! What is still to be done. It outlives a call that failed, so the next one tries again.

use std::collections::BTreeSet;

use model::ServiceName;

use crate::objects::ObjectKey;

/// What is still to be done.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    /// Services whose wants are to be answered.
    pub(crate) addresses: BTreeSet<ServiceName>,
    /// Services that went without something the last time: they ask again whenever something changes.
    pub(crate) unsettled: BTreeSet<ServiceName>,
    /// Services that are served, but whose presence could not be written down yet.
    pub(crate) unrecorded: BTreeSet<ServiceName>,
    /// Services that left the manifests.
    pub(crate) gone: BTreeSet<ServiceName>,
    /// Services whose slices are to be made.
    pub(crate) endpoints: BTreeSet<ServiceName>,
    /// Objects to compare with what was last told.
    pub(crate) keys: BTreeSet<ObjectKey>,
}

impl Pending {
    /// A Service is there, or different.
    pub(crate) fn service_is_new(&mut self, name: &ServiceName) {
        self.gone.remove(name);
        self.addresses.insert(name.clone());
    }

    /// A Service is gone.
    pub(crate) fn service_is_gone(&mut self, name: &ServiceName) {
        self.addresses.remove(name);
        self.unsettled.remove(name);
        self.unrecorded.remove(name);
        self.gone.insert(name.clone());
    }

    /// Is there anything to write down, or to ask for again?
    pub(crate) fn needs_the_store(&self) -> bool {
        let sets = [&self.addresses, &self.unsettled, &self.unrecorded, &self.gone];
        sets.iter().any(|set| !set.is_empty())
    }
}
