//! The mode itself: both families, kept in step with the forwarding table.

use kernel::xtables::{Error, Xtables};
use model::{Family, ForwardingTable};

use super::Options;
use super::family::FamilyState;
use super::glance;
use crate::{Dataplane, Scope, SyncError, Synced};

/// The iptables mode, behind the doors of one program: the real one or the simulated twin.
#[derive(Clone, Debug)]
pub struct Iptables<X> {
    families: Vec<FamilyState<X>>,
}

impl<X: Xtables> Iptables<X> {
    /// The mode behind these doors, one for each family that is served.
    pub fn new(doors: impl IntoIterator<Item = X>, options: Options) -> Self {
        let state = |door: X| {
            let family = match door.family() {
                kernel::xtables::Family::V4 => Family::V4,
                kernel::xtables::Family::V6 => Family::V6,
            };
            FamilyState::new(door, family, options)
        };
        Self { families: doors.into_iter().map(state).collect() }
    }

    /// The doors.
    pub fn doors(&mut self) -> impl Iterator<Item = &mut X> {
        self.families.iter_mut().map(|state| &mut state.door)
    }
}

impl<X: Xtables> Dataplane for Iptables<X> {
    fn sync(&mut self, desired: &ForwardingTable, scope: Scope<'_>) -> Result<Synced, SyncError> {
        let mut synced = Synced { was_full: !matches!(scope, Scope::Changed(_)), ..Synced::default() };
        let mut failed: Option<Error> = None;
        for state in &mut self.families {
            // There is one lock for both families: who holds it would let us wait as long again.
            if matches!(failed, Some(Error::Locked { .. })) {
                state.forget();
            } else if let Err(error) = state.sync(desired, scope, &mut synced) {
                failed = Some(error);
            }
        }
        failed.map_or(Ok(synced), |error| Err(error.into()))
    }

    fn settle(&mut self) -> Result<Synced, SyncError> {
        let mut synced = Synced::default();
        let mut failed = None;
        for state in &mut self.families {
            if let Err(error) = state.settle(&mut synced) {
                failed = Some(error);
            }
        }
        failed.map_or(Ok(synced), |error| Err(error.into()))
    }

    fn differences(&mut self, desired: &ForwardingTable) -> Result<Vec<String>, SyncError> {
        let mut found = Vec::new();
        for state in &mut self.families {
            let scripts = state.compare(desired, true)?.scripts;
            state.forget();
            let texts = scripts.iter().map(super::script::Script::text);
            found.extend(texts.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>()));
        }
        Ok(found)
    }

    fn cleanup(&mut self) -> Result<(), SyncError> {
        for state in &mut self.families {
            state.forget();
            crate::upstream::clear_all(&mut state.door)?;
        }
        Ok(())
    }

    fn is_flushed(&mut self) -> Result<bool, SyncError> {
        for state in &mut self.families {
            let service_ports = state.service_ports();
            if glance::is_flushed(&mut state.door, service_ports)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
