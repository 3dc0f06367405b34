//! One family's table: what the kernel holds of it, and how it is brought to what is desired.
//!
//! A service port that the kernel refuses is quarantined: it stays as it was, and all others are written without it.

use std::collections::BTreeSet;

use kernel::nft::{Error, Kernel, Name, Operation, Transaction};
use model::{Family, ForwardingTable, Frontend, ServicePort, ServicePortId};

use super::culprit::Culprit;
use super::desired::{Desired, Inputs, all_ids};
use super::layout::{SetId, TABLE, table_comment};
use super::plan::PendingDeletes;
use super::{Options, count_operations};
use crate::quarantine::{self, Quarantine, UnknownPrior};
use crate::{Scope, ServicePortIds, Synced};

/// What the kernel holds, as far as we know.
#[derive(Clone, Debug)]
pub(super) struct FamilyState {
    pub(super) family: Family,
    pub(super) options: Options,
    /// Whether the rest is true. If not, the kernel must be read.
    pub(super) is_known: bool,
    pub(super) desired: Desired,
    pub(super) quarantine: Quarantine,
    /// What the kernel holds of a previous process stays for these.
    unknown_prior: UnknownPrior,
    /// The kernel may hold what no Service asks for.
    pub(super) has_leftovers: bool,
    /// Not all that is desired is known, so what no Service asks for stays.
    pub(super) keeps_leftovers: bool,
    pub(super) pending: PendingDeletes,
}

/// Why a transaction was not applied, and which element was to blame, where it was one.
pub(super) struct Failure {
    error: Box<Error>,
    culprit: Option<Culprit>,
}

impl Failure {
    /// Would the same transaction be refused again?
    fn is_lasting(&self) -> bool {
        matches!(*self.error, Error::Refused { .. }) && !self.error.retry_helps()
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self { error: Box::new(error), culprit: None }
    }
}

impl FamilyState {
    pub(super) fn new(family: Family, options: Options) -> Self {
        Self {
            family,
            options,
            is_known: false,
            desired: Desired::nothing(family),
            quarantine: Quarantine::default(),
            unknown_prior: UnknownPrior::default(),
            has_leftovers: false,
            keeps_leftovers: false,
            pending: PendingDeletes::default(),
        }
    }

    /// Nothing is known any more, except how the service ports were.
    pub(super) fn forget(&mut self) {
        self.desired.forget();
        self.pending = PendingDeletes::default();
        (self.is_known, self.has_leftovers) = (false, false);
    }

    /// What its elements and chains follow from.
    pub(super) fn inputs<'a>(&'a self, table: &'a ForwardingTable) -> Inputs<'a> {
        let Self { family, options, quarantine, keeps_leftovers, .. } = self;
        Inputs { table, family: *family, options, quarantine, keeps_leftovers: *keeps_leftovers }
    }

    /// The frontends of those that are quarantined, and of which it was never known how they were.
    pub(super) fn frontends_of_unknown_prior(&self, desired: &ForwardingTable) -> BTreeSet<Frontend> {
        let unknown = self.unknown_prior.ids().filter(|id| self.quarantine.contains(id));
        quarantine::frontends(desired, unknown)
    }

    pub(super) fn is_unsettled(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Brings the kernel to `desired`. After an error nothing is known, and the next sync reads the kernel. `is_untouched`: no other
    /// program has written to the kernel since the last full sync, which asked for the same.
    pub(super) fn sync<K: Kernel>(
        &mut self,
        kernel: &mut K,
        desired: &ForwardingTable,
        scope: Scope<&ServicePortIds>,
        is_untouched: bool,
        synced: &mut Synced,
    ) -> Result<(), Error> {
        if scope.is_full() {
            self.keeps_leftovers = scope.keeps_leftovers();
        }
        let may_differ = scope.is_full() && (!is_untouched || self.has_leftovers);
        let mut is_read = !self.is_known || may_differ;
        let mut result = match scope {
            _ if is_read => {
                self.quarantine = Quarantine::default();
                self.sync_everything(kernel, desired, synced)
            }
            Scope::Changed(ids) => self.sync_changed(kernel, desired, ids, synced),
            Scope::Everything | Scope::AllThatIsKnown => {
                let ids = self.outdated(desired);
                self.sync_changed(kernel, desired, &ids, synced)
            }
        };
        while let Err(failure) = result {
            // Without a fresh read it may be the kernel that is not as we assume, and no service port is to blame.
            let can_go_on =
                if is_read { self.quarantine_owner(desired, &failure) } else { failure.is_lasting() };
            self.forget();
            if !can_go_on {
                return Err(*failure.error);
            }
            is_read = true;
            result = self.sync_everything(kernel, desired, synced);
        }
        if self.is_known {
            self.unknown_prior.known();
        }
        self.unknown_prior.only(&self.quarantine);
        synced.refused.extend(self.quarantine.reasons());
        Ok(())
    }

    /// Deletes what waited: elements, then chains that they led to.
    pub(super) fn settle<K: Kernel>(&mut self, kernel: &mut K) -> Result<usize, Error> {
        let mut elements = self.transaction();
        self.pending.write_elements(&mut elements);
        kernel.run(&elements)?;
        self.pending.forget_elements();
        let mut chains = self.transaction();
        self.pending.write_chains(&mut chains);
        match kernel.run(&chains) {
            Ok(()) => self.pending.forget_chains(),
            // Kernels before 6.2 learn only some time after an element is gone that its chain is free.
            Err(Error::Refused { refusal, .. }) if refusal.errno.0 == libc::EBUSY => {
                return Ok(count_operations(&elements));
            }
            Err(error) => return Err(error),
        }
        Ok(count_operations(&elements) + count_operations(&chains))
    }

    /// Adds to `transaction` what waits for its deletion.
    pub(super) fn add_deletions(&self, transaction: &mut Transaction) {
        self.pending.write_elements(transaction);
        self.pending.write_chains(transaction);
    }

    /// The whole table, for an empty kernel.
    pub(super) fn whole(&mut self, desired: &ForwardingTable) -> Transaction {
        let mut transaction = self.empty_table();
        transaction.extend(self.apply(desired, all_ids(desired)).operations);
        transaction
    }

    /// Applies what has changed. Returns what must be written now; what must go later is pending.
    pub(super) fn apply(
        &mut self,
        desired: &ForwardingTable,
        ids: impl IntoIterator<Item = ServicePortId>,
    ) -> Transaction {
        let mut next = std::mem::replace(&mut self.desired, Desired::nothing(self.family));
        let plan = next.apply(&self.inputs(desired), ids);
        self.desired = next;
        let mut transaction = self.transaction();
        plan.write(&mut transaction, &mut self.pending);
        transaction
    }

    /// Service ports that are not as the kernel has them, or that it refused.
    fn outdated(&self, desired: &ForwardingTable) -> ServicePortIds {
        let is_here =
            |port: &ServicePort| port.routes.iter().any(|route| route.frontend.family() == self.family);
        let accepted = &self.desired.accepted;
        let new = desired.ports().filter(|port| is_here(port) && accepted.now(port.id()) != Some(port));
        let gone = self.desired.ports().map(|port| port.id()).filter(|id| desired.port(id).is_none());
        let refused = self.quarantine.ids();
        new.map(|port| port.id()).chain(gone).chain(refused).cloned().collect()
    }

    fn sync_changed<K: Kernel>(
        &mut self,
        kernel: &mut K,
        desired: &ForwardingTable,
        ids: &ServicePortIds,
        synced: &mut Synced,
    ) -> Result<(), Failure> {
        for id in ids {
            self.quarantine.release(id);
        }
        let transaction = self.apply(desired, ids.iter().cloned());
        self.run(kernel, transaction, synced)
    }

    pub(super) fn run<K: Kernel>(
        &mut self,
        kernel: &mut K,
        transaction: Transaction,
        synced: &mut Synced,
    ) -> Result<(), Failure> {
        let (new_chains, rest) = new_chains_first(transaction);
        for step in [new_chains, rest] {
            if let Err(error) = kernel.run(&step) {
                let culprit = Culprit::of(&step, &error);
                return Err(Failure { error: Box::new(error), culprit });
            }
            synced.operations += count_operations(&step);
        }
        self.desired.accepted.accept();
        Ok(())
    }

    pub(super) fn transaction(&self) -> Transaction {
        Transaction::new(self.family, TABLE)
    }

    /// Begins anew with an empty table, whatever was there.
    pub(super) fn empty_table(&mut self) -> Transaction {
        self.forget();
        let mut transaction = self.transaction();
        transaction.replace_table(Some(table_comment()));
        transaction.extend(SetId::ALL.into_iter().map(|set| Operation::AddSet(set.definition())));
        transaction
    }

    /// Quarantines the service port whose element was refused. False where it was not one service port's.
    fn quarantine_owner(&mut self, desired: &ForwardingTable, failure: &Failure) -> bool {
        let owner = failure.culprit.as_ref().and_then(|culprit| self.owner(culprit));
        let Some(id) = owner.filter(|id| self.quarantine.contains(id) || !self.quarantine.is_full()) else {
            return false;
        };
        self.unknown_prior.quarantined(&id);
        self.quarantine.add(desired, &id, self.desired.accepted.before(&id), failure.error.to_string())
    }
}

/// New sets, new chains with their rules, and all the rest.
///
/// A packet keeps the rules of the generation in which it began, but each of its lookups sees the newest elements. One that
/// began just before a transaction would follow a new element into a new chain of that same transaction, find it empty and
/// pass untouched: 9 of 320,000 connections while endpoints came and went. So chains are there before anything leads to them.
fn new_chains_first(mut transaction: Transaction) -> (Transaction, Transaction) {
    let mut first = Transaction::new(transaction.family, &transaction.table);
    if !matches!(transaction.operations.first(), Some(Operation::AddTable(_))) {
        let new = new_chains(&transaction);
        let is_new = |operation: &mut Operation| match operation {
            Operation::AddChain(chain) => new.contains(&chain.name),
            Operation::AddRule(rule) => new.contains(&rule.chain),
            Operation::AddSet(_) => true,
            _ => false,
        };
        first.extend(transaction.operations.extract_if(.., is_new));
    }
    (first, transaction)
}

/// The chains that are not there yet. One that is, and is written anew, keeps its old rules for the packets on their way.
fn new_chains(transaction: &Transaction) -> BTreeSet<Name> {
    let (mut added, mut emptied) = (BTreeSet::new(), BTreeSet::new());
    for operation in &transaction.operations {
        match operation {
            Operation::AddChain(chain) if chain.base.is_none() => drop(added.insert(chain.name.clone())),
            Operation::FlushChain(name) => drop(emptied.insert(name.clone())),
            _ => {}
        }
    }
    added.difference(&emptied).cloned().collect()
}
