//! A simulated `nf_tables`: the same objects, the same refusals, and packets.
//!
//! In: the very transactions that the real kernel gets. Out: listings, refusals, and for a packet its
//! [`Outcome`]. A contract test runs the same steps on both.
//!
//! It knows nothing of Services; it executes rules. Time and chance are handed in.

mod apply;
mod faulty;
mod faulty_answers;
mod faulty_events;
mod other_tables;
mod packet;
mod references;
mod run;
mod validate;

pub use faulty::{Fault, Faulty};
pub use faulty_answers::Answer;
pub use faulty_events::{Losing, Loss};
pub use packet::{Fate, Outcome, Path, SimPacket};

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use kernel::netlink::Errno;
use kernel::nft::{
    Chain, Comment, Element, Error, Family, Kernel, Listed, ListedRule, ListedSet, Name, Operation, Result,
    Rule, Set, Table, Transaction, Tuple,
};

/// A kernel in memory.
#[derive(Debug, Default, Clone)]
pub struct Simulated {
    tables: BTreeMap<(Family, Name), SimTable>,
    generation: u32,
    now: Duration,
    faults: VecDeque<Errno>,
    refused_address: Option<(IpAddr, Errno)>,
}

/// One table. Sets are shared until they change, so that a refused transaction costs little.
#[derive(Debug, Default, Clone)]
struct SimTable {
    comment: Option<Comment>,
    chains: BTreeMap<Name, SimChain>,
    sets: BTreeMap<Name, Arc<SimSet>>,
    next_handle: u64,
}

#[derive(Debug, Clone)]
struct SimChain {
    chain: Chain,
    /// Shared with whoever is running them.
    rules: Arc<Vec<(u64, Rule)>>,
}

#[derive(Debug, Clone)]
struct SimSet {
    set: Set,
    elements: BTreeMap<Tuple, SimElement>,
}

#[derive(Debug, Clone)]
struct SimElement {
    element: Element,
    /// When it is gone, on the clock of [`Simulated::send`].
    expires: Option<Duration>,
}

impl SimElement {
    fn is_alive(&self, now: Duration) -> bool {
        self.expires.is_none_or(|expires| expires > now)
    }
}

impl SimSet {
    /// The element for this key that is alive, if any.
    fn find(&self, key: &Tuple, now: Duration) -> Option<&Element> {
        if self.set.flags.interval {
            let mut alive = self.elements.values().filter(|found| found.is_alive(now));
            return alive.find(|found| found.element.covers(key)).map(|found| &found.element);
        }
        self.elements.get(key).filter(|found| found.is_alive(now)).map(|found| &found.element)
    }
}

impl Simulated {
    /// Refuses the next `count` transactions with this error number.
    pub fn refuse_next(&mut self, count: usize, errno: i32) {
        self.faults.extend(std::iter::repeat_n(Errno(errno), count));
    }

    /// Refuses every transaction that adds an element with this address in its key.
    pub fn refuse_address(&mut self, address: IpAddr, errno: i32) {
        self.refused_address = Some((address, Errno(errno)));
    }

    /// Forgets the faults that were not used up.
    pub fn stop_refusing(&mut self) {
        self.faults.clear();
        self.refused_address = None;
    }

    /// The table as it would be after the transaction; `None` if it would be gone.
    fn after(&mut self, transaction: &Transaction) -> Result<Option<SimTable>> {
        if let Some(errno) = self.faults.pop_front() {
            return Err(fault(transaction, errno));
        }
        if let Some(error) = self.refused_address.and_then(|refused| refused_element(transaction, refused)) {
            return Err(error);
        }
        if transaction.only_in_generation.is_some_and(|wanted| wanted != self.generation) {
            return Err(Error::Raced);
        }
        let key = (transaction.family, transaction.table.clone());
        apply::apply(transaction, self.tables.get(&key).cloned(), self.now)
    }

    /// All rules of a table with their numbers, chain after chain.
    pub(super) fn rules_of(&self, family: Family, table: &str) -> impl Iterator<Item = &(u64, Rule)> {
        let table = self.tables.get(&(family, Name::from(table)));
        table.into_iter().flat_map(|table| table.chains.values()).flat_map(|chain| chain.rules.iter())
    }

    fn listed(&self, family: Family, name: &Name, table: &SimTable) -> Listed {
        let rules = table.chains.values().filter(|chain| !chain.rules.is_empty());
        Listed {
            table: Table { family, name: name.clone(), comment: table.comment.clone(), is_dormant: false },
            chains: table.chains.iter().map(|(name, chain)| (name.clone(), chain.chain.clone())).collect(),
            rules: rules.map(|chain| (chain.chain.name.clone(), list_rules(family, chain))).collect(),
            sets: table.sets.iter().map(|(name, set)| (name.clone(), list_set(set, self.now))).collect(),
            unknown: Vec::new(),
        }
    }
}

fn list_rules(family: Family, chain: &SimChain) -> Vec<ListedRule> {
    let list = |(handle, rule): &(u64, Rule)| ListedRule {
        handle: *handle,
        program: rule.compile(family),
        comment: rule.comment.clone(),
    };
    chain.rules.iter().map(list).collect()
}

fn list_set(set: &SimSet, now: Duration) -> ListedSet {
    let alive = set.elements.values().filter(|found| found.is_alive(now));
    let elements = alive.map(|element| element.element.clone()).collect();
    ListedSet { set: set.set.clone(), elements }
}

impl Kernel for Simulated {
    fn run(&mut self, transaction: &Transaction) -> Result<()> {
        if transaction.is_empty() {
            return Ok(());
        }
        let after = self.after(transaction)?;
        let key = (transaction.family, transaction.table.clone());
        match after {
            Some(after) => drop(self.tables.insert(key, after)),
            None => drop(self.tables.remove(&key)),
        }
        self.generation = self.generation.wrapping_add(1);
        Ok(())
    }

    fn check(&mut self, transaction: &Transaction) -> Result<()> {
        self.after(transaction).map(drop)
    }

    fn list(&mut self, family: Family, table: &str) -> Result<Option<Listed>> {
        let key = (family, Name::from(table));
        Ok(self.tables.get(&key).map(|found| self.listed(family, &key.1, found)))
    }

    fn tables(&mut self, family: Family) -> Result<Vec<Table>> {
        let of_family = self.tables.iter().filter(|((found, _), _)| *found == family);
        let table = |((family, name), table): (&(Family, Name), &SimTable)| Table {
            family: *family,
            name: name.clone(),
            comment: table.comment.clone(),
            is_dormant: false,
        };
        Ok(of_family.map(table).collect())
    }

    fn generation(&mut self) -> Result<u32> {
        Ok(self.generation)
    }
}

/// The refusal of the first element with that address, if there is one.
fn refused_element(transaction: &Transaction, (address, errno): (IpAddr, Errno)) -> Option<Error> {
    let refuse = |(index, operation): (usize, &Operation)| {
        let Operation::AddElements(_, elements) = operation else { return None };
        let element = elements.iter().position(|e| e.key.values().any(|value| value == address.into()))?;
        Some(Error::Refused {
            index,
            total: transaction.operations.len(),
            operation: transaction.describe(index, Some(element)),
            element: Some(element),
            refusal: errno.into(),
        })
    };
    transaction.operations.iter().enumerate().find_map(refuse)
}

/// An injected fault looks as the kernel's own: general numbers strike the whole, others the first operation.
fn fault(transaction: &Transaction, errno: Errno) -> Error {
    match Error::whole(errno.into()) {
        Error::Whole { refusal } => Error::Refused {
            index: 0,
            total: transaction.operations.len(),
            operation: transaction.describe(0, None),
            element: None,
            refusal,
        },
        general => general,
    }
}
