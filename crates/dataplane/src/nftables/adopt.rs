//! The first contact with a kernel, and every later one in which nothing is taken for granted: the kernel is read, and what
//! is there is adopted, mended, or replaced.
//!
//! ```text
//!   no table            ► an empty one, then the services in chunks, and last its doors, the base chains
//!   ours, this layout   ► the difference, in one transaction
//!   anybody else's      ► ours beside it; its doors closed; ours in its place, in one transaction; the one beside goes
//! ```
//!
//! The table beside it is why nobody notices a take-over. A transaction is atomic for each lookup, not for each packet: a
//! packet that is on its way through the old table just then finds its maps empty, and would leave it untranslated, for good.
//! So it meets a second table with the same rules.

use std::collections::BTreeSet;

use kernel::nft::family_name;
use kernel::nft::{Error, Kernel, Listed, Name, Operation, Transaction};
use model::{ForwardingTable, Frontend, ServicePortId};

use super::desired::{Desired, all_ids};
use super::family::{Failure, FamilyState};
use super::is_ours;
use super::layout::{BESIDE, MARK_OF_OURS, TABLE, table_comment};
use super::numbers::Numbers;
use super::observed::{Observed, Stranger};
use crate::Synced;

/// A cold start writes this many service ports in one transaction: the kernel and we need memory for one chunk only.
const CHUNK: usize = 1_000;

/// The leftovers that stay.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    pub(super) all: bool,
    /// Those of these frontends. They are of service ports that the kernel refused before we knew how they were.
    pub(super) of: BTreeSet<Frontend>,
}

impl Kept {
    pub(super) fn is_any(&self) -> bool {
        self.all || !self.of.is_empty()
    }

    pub(super) fn has(&self, frontend: &Frontend) -> bool {
        self.all || self.of.contains(frontend)
    }
}

impl FamilyState {
    /// Reads the kernel and brings it to `desired`.
    pub(super) fn sync_everything<K: Kernel>(
        &mut self,
        kernel: &mut K,
        desired: &ForwardingTable,
        synced: &mut Synced,
    ) -> Result<(), Failure> {
        synced.was_full = true;
        let family = self.family;
        match kernel.list(family, TABLE)?.map(Observed::of_our_layout) {
            None => self.cold_start(kernel, desired, synced)?,
            Some(Ok(observed)) => match self.compare(&observed, desired) {
                Some(transaction) => {
                    let found = if self.keeps_leftovers { &mut synced.kept } else { &mut synced.left_behind };
                    found.extend(observed.left_behind(desired));
                    self.run(kernel, transaction, synced)?;
                }
                None => self.replace(kernel, desired, &observed.doors(), synced)?,
            },
            Some(Err(stranger)) if self.keeps_leftovers => {
                synced.waits.push(format!(
                    "table {} {TABLE} {stranger} stays until all sources are read",
                    family_name(family)
                ));
                return Ok(());
            }
            Some(Err(stranger)) => {
                self.replace(kernel, desired, &stranger.doors, synced)?;
                synced.replaced.push(format!("table {} {TABLE} {stranger}", family_name(family)));
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
        let listed = kernel.list(self.family, TABLE)?;
        let observed = listed.and_then(|listed| Observed::of_our_layout(listed).ok());
        let compared = observed.and_then(|observed| self.compare(&observed, desired));
        Ok(compared.unwrap_or_else(|| self.whole(desired)))
    }

    /// What is different; `None` where only another table helps.
    fn compare(&mut self, observed: &Observed, desired: &ForwardingTable) -> Option<Transaction> {
        self.forget();
        let kept = Kept { all: self.keeps_leftovers, of: self.frontends_of_unknown_prior(desired) };
        self.has_leftovers = kept.is_any();
        let mut numbers = Numbers::default();
        observed.adopt_ids(desired, &kept, &mut numbers);
        let accepted = std::mem::take(&mut self.desired.accepted);
        self.desired = Desired::of(&self.inputs(desired), numbers, accepted);
        if !observed.has_hooks_of(self.desired.chains()) {
            return None;
        }
        let plan = observed.plan_to(&self.desired, &kept);
        let mut transaction = self.transaction();
        transaction.extend(observed.missing_sets().map(|set| Operation::AddSet(set.definition())));
        plan.write(&mut transaction, &mut self.pending);
        Some(transaction)
    }

    /// Into no table at all: sets, chains and services first, in chunks, and last the base chains, by which packets come in.
    /// Until then nothing of it is in force, and whoever stops half-way leaves what was: nothing.
    fn cold_start<K: Kernel>(
        &mut self,
        kernel: &mut K,
        desired: &ForwardingTable,
        synced: &mut Synced,
    ) -> Result<(), Failure> {
        let mut transaction = self.empty_table();
        transaction.extend(self.apply(desired, std::iter::empty()).operations);
        self.run_without_doors(kernel, transaction, synced)?;
        let ids: Vec<ServicePortId> = all_ids(desired).collect();
        for chunk in ids.chunks(CHUNK) {
            let transaction = self.apply(desired, chunk.iter().cloned());
            self.run_without_doors(kernel, transaction, synced)?;
        }
        let mut doors = self.transaction();
        for (chain, rules) in self.desired.chains().values().filter(|(chain, _)| chain.base.is_some()) {
            doors.push(Operation::AddChain(chain.clone()));
            doors.extend(rules.iter().cloned().map(Operation::AddRule));
        }
        self.run(kernel, doors, synced)
    }

    fn run_without_doors<K: Kernel>(
        &mut self,
        kernel: &mut K,
        mut transaction: Transaction,
        synced: &mut Synced,
    ) -> Result<(), Failure> {
        let is_door =
            |name: &Name| self.desired.chains().get(name).is_some_and(|(chain, _)| chain.base.is_some());
        transaction.operations.retain(|operation| match operation {
            Operation::AddChain(chain) => chain.base.is_none(),
            Operation::AddRule(rule) => !is_door(&rule.chain),
            Operation::FlushChain(name) => !is_door(name),
            _ => true,
        });
        self.run(kernel, transaction, synced)
    }

    /// In the place of a table that is not as ours are, and that packets enter by these chains.
    fn replace<K: Kernel>(
        &mut self,
        kernel: &mut K,
        desired: &ForwardingTable,
        doors: &[Name],
        synced: &mut Synced,
    ) -> Result<(), Failure> {
        let ours = self.whole(desired);
        let tables = kernel.tables(self.family)?;
        // Somebody may have a table of that name; then it is one transaction alone.
        if tables.iter().all(|table| &*table.name != BESIDE || is_ours(table)) {
            self.run(kernel, Transaction { table: BESIDE.into(), ..ours.clone() }, synced)?;
            self.run(kernel, close(doors, self.transaction()), synced)?;
        }
        self.run(kernel, ours, synced)
    }

    /// A table beside ours is there at the end of a replacement, and after a crash in the middle of one.
    fn remove_beside<K: Kernel>(&mut self, kernel: &mut K, synced: &mut Synced) -> Result<(), Failure> {
        let family = self.family;
        let is_there = kernel.tables(family)?.iter().any(|table| &*table.name == BESIDE && is_ours(table));
        for step in if is_there { removal(kernel, family, BESIDE)? } else { Vec::new() } {
            self.run(kernel, step, synced)?;
        }
        Ok(())
    }
}

/// The removal of a table, in two transactions. In one, a packet on its way could find its frontend gone and the refusal of
/// undefined ports still there; so no packet enters any more when the table goes.
pub(super) fn removal<K: Kernel>(
    kernel: &mut K,
    family: kernel::nft::Family,
    table: &str,
) -> Result<Vec<Transaction>, Error> {
    let doors = kernel.list(family, table)?.map(|listed| doors(&listed)).unwrap_or_default();
    let mut gone = Transaction::new(family, table);
    gone.destroy_table();
    Ok(vec![close(&doors, Transaction::new(family, table)), gone])
}

/// The chains by which packets enter a table.
pub(super) fn doors(listed: &Listed) -> Vec<Name> {
    listed.chains.values().filter(|chain| chain.base.is_some()).map(|chain| chain.name.clone()).collect()
}

fn close(doors: &[Name], mut transaction: Transaction) -> Transaction {
    transaction.extend(doors.iter().cloned().map(Operation::DeleteChain));
    transaction
}

impl std::fmt::Display for Stranger {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.comment {
            Some(comment) if *comment == table_comment().as_str() => {
                f.write_str("of ours, into which another program has written")
            }
            Some(comment) if comment.starts_with(MARK_OF_OURS) => {
                write!(f, "of our nftables mode in another version (\"{comment}\")")
            }
            Some(comment) => write!(f, "of another program (\"{comment}\")"),
            None => f.write_str("of another program"),
        }
    }
}
