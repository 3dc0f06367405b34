//! The first contact with a kernel, and every later one in which nothing is taken for granted: the kernel is read, and what
//! is there is adopted, mended, or replaced.
//!
//! ```text
//!   no table            ► an empty one, then the services in chunks
//!   ours, this layout   ► the difference, in one transaction
//!   anybody else's      ► ours beside it; then ours in its place, in one transaction; then the one beside goes
//! ```
//!
//! The table beside it is why nobody notices a take-over. A transaction is atomic for each lookup, not for each packet: a
//! packet that is on its way through the old table just then finds its maps empty, and would leave it untranslated, for good.
//! So it meets a second table with the same rules.

use kernel::nft::{Error, Kernel, Transaction};
use model::{ForwardingTable, ServicePortId};

use super::family::{Failure, FamilyState, all_ids};
use super::layout::{BESIDE, TABLE};
use super::observed::{Observed, Stranger};
use super::plan::Plan;
use super::{is_ours, kernel_family};
use crate::{Scope, Synced};

/// A cold start writes this many service ports in one transaction: the kernel and we need memory for one chunk only.
const CHUNK: usize = 1_000;

/// What becomes of that which is in the kernel and which nobody asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leftovers {
    /// It goes.
    Remove,
    /// It stays: somebody may ask for it of whom nothing is known yet.
    Keep,
}

impl Leftovers {
    pub(super) fn of(scope: Scope<'_>) -> Self {
        if matches!(scope, Scope::AllThatIsKnown) { Self::Keep } else { Self::Remove }
    }
}

impl FamilyState {
    /// Reads the kernel and brings it to `desired`.
    pub(super) fn sync_everything<K: Kernel>(
        &mut self,
        kernel: &mut K,
        desired: &ForwardingTable,
        leftovers: Leftovers,
        synced: &mut Synced,
    ) -> Result<(), Failure> {
        synced.was_full = true;
        let family = kernel_family(self.family);
        match kernel.list(family, TABLE)?.map(Observed::of_our_layout) {
            None => self.cold_start(kernel, desired, synced)?,
            Some(Ok(observed)) => match self.compare(&observed, desired, leftovers) {
                Some(transaction) => {
                    if leftovers == Leftovers::Remove {
                        synced.left_behind.extend(observed.left_behind(desired));
                    }
                    self.run(kernel, transaction, synced)?;
                }
                None => self.replace(kernel, desired, synced)?,
            },
            Some(Err(stranger)) if leftovers == Leftovers::Keep => {
                synced
                    .waits
                    .push(format!("table {family} {TABLE} {stranger} stays until all sources are read"));
                return Ok(());
            }
            Some(Err(stranger)) => {
                self.replace(kernel, desired, synced)?;
                synced.replaced.push(format!("table {family} {TABLE} {stranger}"));
            }
        }
        self.is_known = true;
        self.remove_beside(kernel, synced)
    }

    /// What would have to be written, given what the kernel holds.
    pub(super) fn difference<K: Kernel>(
        &mut self,
        kernel: &mut K,
        desired: &ForwardingTable,
    ) -> Result<Transaction, Error> {
        let listed = kernel.list(kernel_family(self.family), TABLE)?;
        let observed = listed.and_then(|listed| Observed::of_our_layout(listed).ok());
        let compared = observed.and_then(|observed| self.compare(&observed, desired, Leftovers::Remove));
        Ok(compared.unwrap_or_else(|| self.whole(desired)))
    }

    /// What is different; `None` where only another table helps.
    fn compare(
        &mut self,
        observed: &Observed,
        desired: &ForwardingTable,
        leftovers: Leftovers,
    ) -> Option<Transaction> {
        self.forget();
        observed.teach(desired, leftovers, &mut self.numbers);
        self.believe(desired);
        if !observed.has_hooks_of(&self.chains) {
            return None;
        }
        let mut plan = Plan::default();
        observed.compare_chains(&self.chains, leftovers, &mut plan);
        observed.compare_elements(&self.all_elements(), leftovers, &mut plan);
        let mut transaction = self.transaction();
        plan.write(&mut transaction, &mut self.doomed);
        Some(transaction)
    }

    /// Into no table at all: an empty one first, then the services in chunks, each of them whole.
    fn cold_start<K: Kernel>(
        &mut self,
        kernel: &mut K,
        desired: &ForwardingTable,
        synced: &mut Synced,
    ) -> Result<(), Failure> {
        let mut transaction = self.empty_table();
        transaction.extend(self.follow(desired, std::iter::empty()).operations);
        self.run(kernel, transaction, synced)?;
        let ids: Vec<ServicePortId> = all_ids(desired).collect();
        for chunk in ids.chunks(CHUNK) {
            let transaction = self.follow(desired, chunk.iter().cloned());
            self.run(kernel, transaction, synced)?;
        }
        Ok(())
    }

    /// In the place of a table that is not as ours are.
    fn replace<K: Kernel>(
        &mut self,
        kernel: &mut K,
        desired: &ForwardingTable,
        synced: &mut Synced,
    ) -> Result<(), Failure> {
        let ours = self.whole(desired);
        self.run(kernel, Transaction { table: BESIDE.into(), ..ours.clone() }, synced)?;
        self.run(kernel, ours, synced)
    }

    /// A table beside ours is there at the end of a replacement, and after a crash in the middle of one.
    fn remove_beside<K: Kernel>(&mut self, kernel: &mut K, synced: &mut Synced) -> Result<(), Failure> {
        let family = kernel_family(self.family);
        let mut transaction = Transaction::new(family, BESIDE);
        if kernel.tables(family)?.iter().any(|table| &*table.name == BESIDE && is_ours(table)) {
            transaction.destroy_table();
        }
        self.run(kernel, transaction, synced)
    }
}

impl std::fmt::Display for Stranger {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            Some(comment) => write!(f, "of another program or version (\"{comment}\")"),
            None => f.write_str("of another program"),
        }
    }
}
