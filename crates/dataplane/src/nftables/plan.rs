//! A plan: what must be written now, and what must go a little later.
//!
//! Write first, delete later. A transaction is atomic for each lookup, not for each packet: a packet that has read "three
//! slots" may look for the third just after it was deleted. So a transaction adds and replaces, and what is no more named
//! goes in a following one. Three kinds go at once:
//!
//! - what a packet asks first (frontends): nothing was read before that leads there;
//! - ranges that stand in the way of a new one: the kernel takes no two that overlap. Each lookup sees one or the other;
//! - ranges of a frontend that stays guarded: as long as one is there its clients come in, and by now the frontend may have other
//!   endpoints, or be another Service's.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use kernel::nft::{Chain, Element, Name, Operation, Rule, Transaction, Tuple, Value};

use super::chains::Chains;
use super::layout::SetId;

/// Address, protocol and port: what the key of a source range begins with.
const FRONTEND_FIELDS: usize = 3;

/// Which element: a set does not hold two of the same key.
pub(super) type ElementKey = (SetId, Tuple, Option<Box<Tuple>>);

/// The key of an element.
pub(super) fn key_of(set: SetId, element: &Element) -> ElementKey {
    (set, element.key, element.end.clone())
}

/// What goes later. It is still in the kernel, though nothing leads to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PendingDeletes {
    elements: BTreeMap<ElementKey, Element>,
    chains: BTreeSet<Name>,
}

impl PendingDeletes {
    pub(super) fn is_empty(&self) -> bool {
        self.elements.is_empty() && self.chains.is_empty()
    }

    /// Adds the deletions of elements to `transaction`.
    pub(super) fn write_elements(&self, transaction: &mut Transaction) {
        let mut by_set: BySet = BTreeMap::new();
        for ((set, _, _), element) in &self.elements {
            by_set.entry(*set).or_default().push(element.clone());
        }
        for (set, elements) in by_set {
            transaction.delete_elements(&set.name().into(), elements);
        }
    }

    /// Adds the deletions of chains to `transaction`.
    pub(super) fn write_chains(&self, transaction: &mut Transaction) {
        // Chains lead to each other, and the kernel deletes none that something leads to: all rules go first.
        transaction.extend(self.chains.iter().cloned().map(Operation::FlushChain));
        transaction.extend(self.chains.iter().cloned().map(Operation::DeleteChain));
    }

    /// The elements are gone.
    pub(super) fn forget_elements(&mut self) {
        self.elements.clear();
    }

    /// The chains are gone.
    pub(super) fn forget_chains(&mut self) {
        self.chains.clear();
    }
}

/// What changes in one table.
#[derive(Debug, Default)]
pub(super) struct Plan {
    before: BTreeMap<ElementKey, Element>,
    after: BTreeMap<ElementKey, Element>,
    new_chains: Vec<Chain>,
    emptied_chains: Vec<Name>,
    rules: Vec<Rule>,
    gone_chains: BTreeSet<Name>,
}

impl Plan {
    /// This element is in the kernel, as far as the change is concerned.
    pub(super) fn is_there(&mut self, set: SetId, element: Element) {
        self.before.insert(key_of(set, &element), element);
    }

    /// This element must be in the kernel.
    pub(super) fn must_be_there(&mut self, set: SetId, element: Element) {
        self.after.insert(key_of(set, &element), element);
    }

    pub(super) fn are_there(&mut self, elements: Vec<(SetId, Element)>) {
        self.before.extend(elements.into_iter().map(|(set, element)| (key_of(set, &element), element)));
    }

    pub(super) fn must_all_be_there(&mut self, elements: Vec<(SetId, Element)>) {
        self.after.extend(elements.into_iter().map(|(set, element)| (key_of(set, &element), element)));
    }

    /// This element was not in the kernel and must be, or the other way round.
    pub(super) fn appear_or_go(&mut self, (set, element): (SetId, Element), is_needed: bool) {
        if is_needed { self.must_be_there(set, element) } else { self.is_there(set, element) }
    }

    /// The chains are `before` and must be `after`.
    pub(super) fn chains(&mut self, before: &Chains, after: &Chains) {
        for (name, (chain, rules)) in after {
            match before.get(name) {
                None => self.new_chains.push(chain.clone()),
                Some((_, old)) if old == rules => continue,
                Some(_) => self.emptied_chains.push(name.clone()),
            }
            self.rules.extend(rules.iter().cloned());
        }
        self.gone_chains.extend(before.keys().filter(|name| !after.contains_key(*name)).cloned());
    }

    /// A chain is there and must be as it is: its policy and its rules are written anew.
    pub(super) fn rewrite_chain(&mut self, chain: &Chain, rules: &[Rule]) {
        self.new_chains.push(chain.clone());
        self.emptied_chains.push(chain.name.clone());
        self.rules.extend(rules.iter().cloned());
    }

    /// A chain is not there and must be.
    pub(super) fn new_chain(&mut self, chain: &Chain, rules: &[Rule]) {
        self.new_chains.push(chain.clone());
        self.rules.extend(rules.iter().cloned());
    }

    /// A chain is there and must go.
    pub(super) fn gone_chain(&mut self, name: &Name) {
        self.gone_chains.insert(name.clone());
    }

    /// Writes what is needed now into `transaction`, and leaves in `pending` what goes later.
    pub(super) fn write(self, transaction: &mut Transaction, pending: &mut PendingDeletes) {
        self.write_chains(transaction, pending);
        let (mut outdated, mut added): (BySet, BySet) = (BTreeMap::new(), BTreeMap::new());
        for (key, element) in &self.after {
            match self.found(key, pending) {
                Some(there) if there == element => {}
                Some(there) => {
                    outdated.entry(key.0).or_default().push(there.clone());
                    added.entry(key.0).or_default().push(element.clone());
                }
                None => added.entry(key.0).or_default().push(element.clone()),
            }
        }
        let at_once = self.gone_at_once(&added, pending);
        for key in &at_once {
            outdated.entry(key.0).or_default().extend(self.found(key, pending).cloned());
        }
        for set in SetId::ALL {
            transaction.delete_elements(&set.name().into(), outdated.remove(&set).unwrap_or_default());
            transaction.add_elements(&set.name().into(), added.remove(&set).unwrap_or_default());
        }
        pending.elements.extend(self.before);
        pending.elements.retain(|key, _| !self.after.contains_key(key) && !at_once.contains(key));
    }

    /// What goes, and need not or cannot wait.
    fn gone_at_once(&self, added: &BySet, pending: &PendingDeletes) -> BTreeSet<ElementKey> {
        let gone = self.before.iter().chain(&pending.elements);
        let gone = gone.filter(|(key, _)| !self.after.contains_key(key));
        let is_in_the_way = |set: &SetId, old: &Element| {
            old.end.is_some() && added.get(set).is_some_and(|added| added.iter().any(|new| overlap(old, new)))
        };
        let goes_at_once = |key: &ElementKey, old: &Element| {
            key.0.is_entry() || self.is_revoked(key) || is_in_the_way(&key.0, old)
        };
        gone.filter(|(key, old)| goes_at_once(key, old)).map(|(key, _)| key.clone()).collect()
    }

    /// Is it a source range of a frontend that is guarded after the change? Where the guard goes, the range waits: a packet that has found
    /// the guard looks for its source.
    fn is_revoked(&self, (set, key, _): &ElementKey) -> bool {
        let guard = || {
            let frontend: Vec<Value> = key.values().take(FRONTEND_FIELDS).collect();
            (SetId::Guarded, Tuple::new(&frontend), None)
        };
        *set == SetId::AllowedSources && self.after.contains_key(&guard())
    }

    fn found<'a>(&'a self, key: &ElementKey, pending: &'a PendingDeletes) -> Option<&'a Element> {
        self.before.get(key).or_else(|| pending.elements.get(key))
    }

    fn write_chains(&self, transaction: &mut Transaction, pending: &mut PendingDeletes) {
        for chain in &self.new_chains {
            // One that was to be deleted is still there with its old rules.
            if pending.chains.remove(&chain.name) {
                transaction.push(Operation::FlushChain(chain.name.clone()));
            }
            transaction.push(Operation::AddChain(chain.clone()));
        }
        transaction.extend(self.emptied_chains.iter().cloned().map(Operation::FlushChain));
        transaction.extend(self.rules.iter().cloned().map(Operation::AddRule));
        pending.chains.extend(self.gone_chains.iter().cloned());
    }
}

/// The order of elements in a set, by their keys; as a kernel's listing has it.
pub(super) fn in_order(one: &Element, other: &Element) -> Ordering {
    one.key.cmp(&other.key).then_with(|| one.end.cmp(&other.end))
}

/// Do two ranges share a key?
pub(super) fn overlap(one: &Element, other: &Element) -> bool {
    let (Some(one_end), Some(other_end)) = (&one.end, &other.end) else { return false };
    let lows = one.key.values().zip(other.key.values());
    let highs = one_end.values().zip(other_end.values());
    lows.zip(highs).all(|((low, other_low), (high, other_high))| low <= other_high && other_low <= high)
}

type BySet = BTreeMap<SetId, Vec<Element>>;
