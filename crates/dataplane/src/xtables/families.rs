//! Both families of one program, kept in step with the forwarding table.

use std::collections::BTreeSet;

use kernel::xtables::{ChainName, Error, Rule, Table, Xtables};
use model::ForwardingTable;

use super::family::FamilyState;
use super::script::Script;
use super::{Style, glance};
use crate::counted::Met;
use crate::{Scope, ServicePortIds, SyncError, Synced};

/// What a mode of rules is made of: how its rules look, and one door for each family.
#[derive(Clone, Debug)]
pub(crate) struct Families<X, S> {
    pub(crate) style: S,
    families: Vec<FamilyState<X>>,
}

impl<X: Xtables, S: Style> Families<X, S> {
    pub(crate) fn new(doors: impl IntoIterator<Item = X>, style: S) -> Self {
        let state = |door: X| {
            let family = door.family();
            FamilyState::new(door, family)
        };
        Self { style, families: doors.into_iter().map(state).collect() }
    }

    pub(crate) fn doors(&mut self) -> impl Iterator<Item = &mut X> {
        self.families.iter_mut().map(|state| &mut state.door)
    }

    /// What a rule of a fixed chain has counted in each family.
    pub(crate) fn packets(
        &mut self,
        table: Table,
        chain: &str,
        is_it: impl Fn(&Rule) -> bool,
        must_be_cheap: bool,
    ) -> Vec<Met> {
        let states = self.families.iter_mut();
        states.map(|state| state.packets((table, chain), &is_it, must_be_cheap)).collect()
    }

    /// Fixed chains that were written since somebody asked, in each family.
    pub(crate) fn take_rewritten(&mut self) -> Vec<BTreeSet<(Table, ChainName)>> {
        self.families.iter_mut().map(FamilyState::take_rewritten).collect()
    }

    /// Brings the kernel to `desired`, and says in `synced` what that took.
    pub(crate) fn sync(
        &mut self,
        desired: &ForwardingTable,
        scope: Scope<&ServicePortIds>,
        synced: &mut Synced,
    ) -> Result<(), SyncError> {
        let mut failed: Option<Error> = None;
        for state in &mut self.families {
            // There is one lock for both families: who holds it would let us wait as long again.
            if matches!(failed, Some(Error::Locked { .. })) {
                state.forget();
            } else if let Err(error) = state.sync(&self.style, desired, scope, synced) {
                failed = Some(error);
            }
        }
        failed.map_or(Ok(()), |error| Err(error.into()))
    }

    /// Deletes what nothing leads through any more.
    pub(crate) fn settle(&mut self) -> Result<Synced, SyncError> {
        let mut synced = Synced::default();
        let mut failed = None;
        for state in &mut self.families {
            if let Err(error) = state.settle(&self.style, &mut synced) {
                failed = Some(error);
            }
        }
        failed.map_or(Ok(synced), |error| Err(error.into()))
    }

    /// What a full sync would write, line by line.
    pub(crate) fn differences(&mut self, desired: &ForwardingTable) -> Result<Vec<String>, SyncError> {
        let mut found = Vec::new();
        for state in &mut self.families {
            let scripts = state.compare(&self.style, desired, true)?.scripts;
            state.forget();
            let texts = scripts.iter().map(Script::text);
            found.extend(texts.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>()));
        }
        Ok(found)
    }

    /// Removes all chains that are known, of whichever mode.
    #[cfg(feature = "sim")]
    pub(crate) fn cleanup(&mut self, known: &crate::upstream::KnownChains) -> Result<(), SyncError> {
        for state in &mut self.families {
            state.forget();
            crate::upstream::clear_all(known, &mut state.door)?;
        }
        Ok(())
    }

    /// A cheap look for a flush.
    pub(crate) fn is_flushed(&mut self) -> Result<bool, SyncError> {
        for state in &mut self.families {
            let service_ports = state.service_ports();
            if glance::is_flushed(&mut state.door, S::LANDMARKS, service_ports)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
