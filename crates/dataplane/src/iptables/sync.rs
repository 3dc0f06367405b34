//! The mode itself: both families, kept in step with the forwarding table.

use kernel::xtables::{Table, Xtables};
use model::{Family, ForwardingTable};

use super::Options;
use super::family::FamilyState;
use super::names;
use crate::{Dataplane, Scope, SyncError, Synced};

/// The iptables mode, behind the doors of one program: the real one or the simulated twin.
#[derive(Debug)]
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
        let mut failed = None;
        for state in &mut self.families {
            if let Err(error) = state.sync(desired, scope, &mut synced) {
                failed = Some(error);
            }
        }
        failed.map_or(Ok(synced), |error| Err(error.into()))
    }

    /// Nothing waits: a packet keeps the rules with which it began.
    fn settle(&mut self) -> Result<Synced, SyncError> {
        Ok(Synced::default())
    }

    fn differences(&mut self, desired: &ForwardingTable) -> Result<Vec<String>, SyncError> {
        let mut found = Vec::new();
        for state in &mut self.families {
            let scripts = state.compare(desired, true)?;
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

    /// A flush takes the canary away with everything else, and asking for it is cheap.
    fn is_flushed(&mut self) -> Result<bool, SyncError> {
        for state in &mut self.families {
            let saved = state.door.save(Table::Mangle)?.unwrap_or_default();
            if !saved.contains(names::CANARY) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
