//! One family's table: what the kernel holds of it, and how it is brought to what is desired.
//!
//! A service port that the kernel refuses is quarantined: it stays as it was, and all others are written without it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use kernel::nft::{Error, Kernel, Name, Operation, Transaction};
use model::{Family, ForwardingTable, Frontend, ServicePort, ServicePortId};

use super::adopt::Leftovers;
use super::chains::{Chains, Ground};
use super::counts::Counts;
use super::culprit::Culprit;
use super::layout::{SetId, TABLE, table_comment};
use super::numbers::Numbers;
use super::plan::Doomed;
use super::{News, Options, count_operations};
use crate::Synced;
use crate::quarantine::{self, Quarantine};

/// What the kernel holds, as far as we know.
#[derive(Clone, Debug)]
pub(super) struct FamilyState {
    pub(super) family: Family,
    pub(super) options: Options,
    /// Whether the rest is true. If not, the kernel must be read.
    pub(super) is_known: bool,
    pub(super) ports: BTreeMap<ServicePortId, Arc<ServicePort>>,
    /// How the kernel last took the service ports that were followed since, as far as that is known.
    pub(super) before: BTreeMap<ServicePortId, Option<Arc<ServicePort>>>,
    pub(super) quarantine: Quarantine,
    /// Some kernel was once as we believed.
    was_known: bool,
    /// Service ports that were quarantined before anything was known of them: what the kernel holds of a previous process stays.
    unknown_prior: BTreeSet<ServicePortId>,
    /// The kernel may hold what nobody asks for.
    pub(super) has_leftovers: bool,
    /// Leftovers are kept while not all Services are known; what looks like an unallocated address may then be one of theirs.
    pub(super) asked: Leftovers,
    pub(super) numbers: Numbers,
    pub(super) counts: Counts,
    pub(super) ground: Option<Ground>,
    pub(super) chains: Chains,
    pub(super) service_networks: BTreeSet<model::net::IpNet>,
    pub(super) left_alone: BTreeSet<IpAddr>,
    pub(super) bare: BTreeSet<IpAddr>,
    pub(super) doomed: Doomed,
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
            ports: BTreeMap::new(),
            before: BTreeMap::new(),
            quarantine: Quarantine::default(),
            was_known: false,
            unknown_prior: BTreeSet::new(),
            has_leftovers: false,
            asked: Leftovers::Remove,
            numbers: Numbers::default(),
            counts: Counts::default(),
            ground: None,
            chains: Chains::new(),
            service_networks: BTreeSet::new(),
            left_alone: BTreeSet::new(),
            bare: BTreeSet::new(),
            doomed: Doomed::default(),
        }
    }

    /// Nothing is known any more, except how the service ports were.
    pub(super) fn forget(&mut self) {
        let mut before = std::mem::take(&mut self.before);
        for (id, port) in std::mem::take(&mut self.ports) {
            before.entry(id).or_insert(Some(port));
        }
        let quarantine = std::mem::take(&mut self.quarantine);
        let unknown_prior = std::mem::take(&mut self.unknown_prior);
        let (was_known, asked) = (self.was_known, self.asked);
        let fresh = Self::new(self.family, self.options);
        *self = Self { before, quarantine, was_known, unknown_prior, asked, ..fresh };
    }

    /// The frontends of those that are quarantined, and of which it was never known how they were.
    pub(super) fn frontends_of_unknown_prior(&self, desired: &ForwardingTable) -> BTreeSet<Frontend> {
        let unknown = self.quarantine.ids().filter(|id| self.unknown_prior.contains(id));
        quarantine::frontends(desired, unknown)
    }

    pub(super) fn is_unsettled(&self) -> bool {
        !self.doomed.is_empty()
    }

    /// Brings the kernel to `desired`. After an error nothing is known, and the next sync reads the kernel.
    pub(super) fn sync<K: Kernel>(
        &mut self,
        kernel: &mut K,
        desired: &ForwardingTable,
        (news, leftovers): (News<'_>, Leftovers),
        synced: &mut Synced,
    ) -> Result<(), Error> {
        let news = match news {
            News::Unknown if self.has_leftovers => News::AlsoInTheKernel,
            news => news,
        };
        let mut is_read = !self.is_known || matches!(news, News::AlsoInTheKernel);
        let mut result = match news {
            News::Of(ids) if self.is_known => self.sync_changed(kernel, desired, ids, synced),
            News::Unknown if self.is_known => {
                let ids = self.outdated(desired);
                self.sync_changed(kernel, desired, &ids, synced)
            }
            News::Of(_) | News::Unknown | News::AlsoInTheKernel => {
                self.quarantine = Quarantine::default();
                self.sync_everything(kernel, desired, leftovers, synced)
            }
        };
        while let Err(failure) = result {
            // Without a fresh read it may be the kernel that is not as we believe, and no service port is to blame.
            let can_go_on =
                if is_read { self.quarantine_owner(desired, &failure) } else { failure.is_lasting() };
            self.forget();
            if !can_go_on {
                return Err(*failure.error);
            }
            is_read = true;
            result = self.sync_everything(kernel, desired, leftovers, synced);
        }
        self.was_known |= self.is_known;
        self.unknown_prior.retain(|id| self.quarantine.contains(id));
        synced.refused.extend(self.quarantine.reasons());
        Ok(())
    }

    /// Deletes what waited: elements, then chains that they led to.
    pub(super) fn settle<K: Kernel>(&mut self, kernel: &mut K) -> Result<usize, Error> {
        let mut elements = self.transaction();
        self.doomed.write_elements(&mut elements);
        kernel.run(&elements)?;
        self.doomed.forget_elements();
        let mut chains = self.transaction();
        self.doomed.write_chains(&mut chains);
        match kernel.run(&chains) {
            Ok(()) => self.doomed.forget_chains(),
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
        self.doomed.write_elements(transaction);
        self.doomed.write_chains(transaction);
    }

    /// The whole table, for an empty kernel.
    pub(super) fn whole(&mut self, desired: &ForwardingTable) -> Transaction {
        let mut transaction = self.empty_table();
        transaction.extend(self.follow(desired, all_ids(desired)).operations);
        transaction
    }

    /// Service ports that are not as the kernel has them, or that it refused.
    fn outdated(&self, desired: &ForwardingTable) -> BTreeSet<ServicePortId> {
        let is_here =
            |port: &ServicePort| port.routes.iter().any(|route| route.frontend.family() == self.family);
        let new = desired.ports().filter(|port| is_here(port) && self.ports.get(port.id()) != Some(port));
        let gone = self.ports.keys().filter(|id| desired.port(id).is_none());
        let refused = self.quarantine.ids();
        new.map(|port| port.id()).chain(gone).chain(refused).cloned().collect()
    }

    fn sync_changed<K: Kernel>(
        &mut self,
        kernel: &mut K,
        desired: &ForwardingTable,
        ids: &BTreeSet<ServicePortId>,
        synced: &mut Synced,
    ) -> Result<(), Failure> {
        for id in ids {
            self.quarantine.release(id);
        }
        let transaction = self.follow(desired, ids.iter().cloned());
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
        self.before.clear();
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
        let before = self.before.get(&id).cloned().flatten();
        if !self.was_known {
            self.unknown_prior.insert(id.clone());
        }
        self.quarantine.add(desired, &id, before.as_deref(), failure.error.to_string())
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

pub(super) fn all_ids(desired: &ForwardingTable) -> impl Iterator<Item = ServicePortId> {
    desired.ports().map(|port| port.id().clone())
}
