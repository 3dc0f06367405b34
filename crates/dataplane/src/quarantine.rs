//! Service ports that the kernel refused. Each stays as it was, so that it does not hold back the others.
//!
//! In: a service port that was refused, how it was before, and the reason. Out: what is written in its place: the service port as it was
//! before, or nothing. It is tried again when it changes, and with every full sync.
//!
//! Absent on purpose: whose element, rule or server was refused. Each mode knows that.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::{ForwardingTable, Frontend, ServicePort, ServicePortId};

/// Maximum number of service ports that are quarantined in one sync, in modes where each costs a full read: this many are no accident.
pub(crate) const QUARANTINED_MAX: usize = 100;

/// What is written instead of a service port, and why.
#[derive(Clone, Debug)]
struct Instead {
    port: Option<Arc<ServicePort>>,
    reason: String,
}

/// All that are quarantined.
#[derive(Clone, Debug, Default)]
pub(crate) struct Quarantine {
    ports: BTreeMap<ServicePortId, Instead>,
}

impl Quarantine {
    pub(crate) fn is_full(&self) -> bool {
        self.ports.len() >= QUARANTINED_MAX
    }

    pub(crate) fn contains(&self, id: &ServicePortId) -> bool {
        self.ports.contains_key(id)
    }

    /// It is to be tried again.
    pub(crate) fn release(&mut self, id: &ServicePortId) {
        self.ports.remove(id);
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = &ServicePortId> {
        self.ports.keys()
    }

    /// Each with the kernel's reason.
    pub(crate) fn reasons(&self) -> impl Iterator<Item = (ServicePortId, String)> {
        self.ports.iter().map(|(id, instead)| (id.clone(), instead.reason.clone()))
    }

    /// Keeps a service port as it was, without frontends that are another's by now. One that is refused as it was, too, goes; false where
    /// that was so already.
    pub(crate) fn add(
        &mut self,
        desired: &ForwardingTable,
        id: &ServicePortId,
        before: Option<&ServicePort>,
        reason: String,
    ) -> bool {
        if let Some(instead) = self.ports.get_mut(id) {
            return instead.port.take().is_some();
        }
        let port = before.map(|before| {
            let is_free = |frontend| desired.route(frontend).is_none_or(|(holder, _)| holder.id() == id);
            let mut port = before.clone();
            port.routes = before.routes.iter().filter(|route| is_free(&route.frontend)).cloned().collect();
            Arc::new(port)
        });
        self.ports.insert(id.clone(), Instead { port, reason });
        true
    }

    /// What is to be written for a service port.
    pub(crate) fn wanted(&self, desired: &ForwardingTable, id: &ServicePortId) -> Option<Arc<ServicePort>> {
        match self.ports.get(id) {
            Some(instead) => instead.port.clone(),
            None => desired.port(id).cloned(),
        }
    }
}

/// How service ports were when the kernel last took them, as far as that is known.
#[derive(Clone, Debug, Default)]
pub(crate) struct Accepted {
    /// As they are written now, whether or not the kernel has taken it yet.
    now: BTreeMap<ServicePortId, Arc<ServicePort>>,
    /// Those of which the kernel has not taken the newest yet, as they were before.
    before: BTreeMap<ServicePortId, Option<Arc<ServicePort>>>,
}

impl Accepted {
    /// It is written so, or is not there.
    pub(crate) fn write(&mut self, id: &ServicePortId, port: Option<Arc<ServicePort>>) {
        let before = match port {
            Some(port) => self.now.insert(id.clone(), port),
            None => self.now.remove(id),
        };
        self.before.entry(id.clone()).or_insert(before);
    }

    /// What is in the kernel is not known any more.
    pub(crate) fn forget(&mut self) {
        for (id, port) in std::mem::take(&mut self.now) {
            self.before.entry(id).or_insert(Some(port));
        }
    }

    /// The kernel has taken all that was written.
    pub(crate) fn accept(&mut self) {
        self.before.clear();
    }

    /// As it is written now.
    pub(crate) fn now(&self, id: &ServicePortId) -> Option<&Arc<ServicePort>> {
        self.now.get(id)
    }

    /// All that are written now, in the order of their ids.
    pub(crate) fn all_now(&self) -> impl Iterator<Item = (&ServicePortId, &Arc<ServicePort>)> {
        self.now.iter()
    }

    pub(crate) fn before(&self, id: &ServicePortId) -> Option<&ServicePort> {
        self.before.get(id)?.as_deref()
    }
}

/// Service ports that were refused before it was known how they were: what a previous process left for them stays.
#[derive(Clone, Debug, Default)]
pub(crate) struct UnknownPrior {
    ids: BTreeSet<ServicePortId>,
    /// The kernel was once as this process wrote it.
    was_known: bool,
    /// What the first look at the kernel showed.
    has_found_rules: Option<bool>,
}

impl UnknownPrior {
    /// Whether rules of service ports are in the kernel. Only the first look counts: later ones see our own.
    pub(crate) fn look(&mut self, has_rules: bool) {
        self.has_found_rules.get_or_insert(has_rules);
    }

    /// A service port is quarantined.
    pub(crate) fn quarantined(&mut self, id: &ServicePortId) {
        if !self.was_known {
            self.ids.insert(id.clone());
        }
    }

    /// The kernel is as this process wrote it.
    pub(crate) fn known(&mut self) {
        self.was_known = true;
    }

    /// Those that are quarantined no more are written.
    pub(crate) fn only(&mut self, quarantine: &Quarantine) {
        self.ids.retain(|id| quarantine.contains(id));
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = &ServicePortId> {
        self.ids.iter()
    }

    /// Whether a previous process may have left rules for one of them.
    pub(crate) fn keeps_rules(&self) -> bool {
        self.has_found_rules == Some(true) && !self.ids.is_empty()
    }

    /// Why these frontends of a previous process stay that no service port asks for, in a sentence; `None` where none does.
    pub(crate) fn why_kept<'a>(
        &self,
        quarantine: &Quarantine,
        kept: impl Iterator<Item = &'a Frontend>,
    ) -> Option<String> {
        let (id, reason) = quarantine.reasons().find(|(id, _)| self.ids.contains(id))?;
        let kept = first_of(kept)?;
        let refused = first_of([&id].into_iter().chain(self.ids.iter().filter(|other| **other != id)))?;
        Some(format!(
            "frontends of a previous process that no Service asks for stay ({kept}): the kernel refuses {refused}, and it is not known \
             which rules were there for it before; they go one full sync after it is taken. Of {id} is said: {reason}"
        ))
    }
}

/// The first by name, and how many more there are.
fn first_of<T: ToString>(mut all: impl Iterator<Item = T>) -> Option<String> {
    let first = all.next()?.to_string();
    match all.count() {
        0 => Some(first),
        more => Some(format!("{first} and {more} more")),
    }
}

/// The frontends of these service ports.
pub(crate) fn frontends<'a>(
    desired: &ForwardingTable,
    ids: impl Iterator<Item = &'a ServicePortId>,
) -> BTreeSet<Frontend> {
    let ports = ids.filter_map(|id| desired.port(id));
    ports.flat_map(|port| port.routes.iter().map(|route| route.frontend)).collect()
}
