//! The mode itself: both families, kept in step with the forwarding table.

use kernel::xtables::Xtables;
use model::ForwardingTable;

use super::Options;
use crate::chains::Families;
use crate::{Dataplane, Scope, SyncError, Synced};

/// The iptables mode, behind the doors of one program: the real one or the simulated twin.
#[derive(Clone, Debug)]
pub struct Iptables<X> {
    families: Families<X, Options>,
}

impl<X: Xtables> Iptables<X> {
    /// The mode behind these doors, one for each family that is served.
    pub fn new(doors: impl IntoIterator<Item = X>, options: Options) -> Self {
        Self { families: Families::new(doors, options) }
    }

    /// The doors.
    pub fn doors(&mut self) -> impl Iterator<Item = &mut X> {
        self.families.doors()
    }
}

impl<X: Xtables> Dataplane for Iptables<X> {
    fn sync(&mut self, desired: &ForwardingTable, scope: Scope<'_>) -> Result<Synced, SyncError> {
        let mut synced = Synced { was_full: !matches!(scope, Scope::Changed(_)), ..Synced::default() };
        self.families.sync(desired, scope, &mut synced)?;
        Ok(synced)
    }

    fn settle(&mut self) -> Result<Synced, SyncError> {
        self.families.settle()
    }

    fn differences(&mut self, desired: &ForwardingTable) -> Result<Vec<String>, SyncError> {
        self.families.differences(desired)
    }

    fn cleanup(&mut self) -> Result<(), SyncError> {
        self.families.cleanup()
    }

    fn is_flushed(&mut self) -> Result<bool, SyncError> {
        self.families.is_flushed()
    }
}
