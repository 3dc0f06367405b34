//! Chains and rules of one table, with a count of who leads to each chain.
//!
//! Chains are shared between copies: the copy that a restore works on costs a pointer for each.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use kernel::nft::Policy;
use kernel::xtables::{FoundRule, Match, Recent, SetName, Table, words};

/// One table.
#[derive(Debug, Clone, Default)]
pub(super) struct SimTable {
    /// Sorted, as both programs print them behind the table's own.
    chains: BTreeMap<Arc<str>, Arc<SimChain>>,
    references: BTreeMap<Arc<str>, usize>,
}

/// One chain.
#[derive(Debug, Clone, Default)]
pub(super) struct SimChain {
    /// Of a chain that the table always has.
    pub(super) policy: Option<Policy>,
    pub(super) rules: Vec<FoundRule>,
    /// For each rule a number that no other has, by which its packets are counted: one that a restore leaves alone keeps it.
    pub(super) handles: Vec<u64>,
}

fn new_handle() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    LAST.fetch_add(1, Relaxed) + 1
}

impl SimTable {
    /// With its own chains, empty.
    pub(super) fn new(table: Table) -> Self {
        let chain = || Arc::new(SimChain { policy: Some(Policy::Accept), ..SimChain::default() });
        let chains = table.own_chains().iter().map(|name| (Arc::from(*name), chain())).collect();
        Self { chains, references: BTreeMap::new() }
    }

    pub(super) fn chain(&self, name: &str) -> Option<&SimChain> {
        self.chains.get(name).map(|chain| &**chain)
    }

    /// All but the table's own.
    pub(super) fn other_chains(&self) -> impl Iterator<Item = (&str, &SimChain)> {
        let all = self.chains.iter().map(|(name, chain)| (&**name, &**chain));
        all.filter(|(_, chain)| chain.policy.is_none())
    }

    /// The lists that its rules name.
    pub(super) fn lists(&self) -> impl Iterator<Item = &str> {
        let rules = self.chains.values().flat_map(|chain| &chain.rules).filter_map(FoundRule::known);
        rules.flat_map(|rule| &rule.parts).filter_map(|part| match part {
            Match::Recent(Recent::Set { list } | Recent::Check { list, .. }) => Some(list.as_str()),
            _ => None,
        })
    }

    /// The sets that its rules ask, one for each rule.
    pub(super) fn sets(&self) -> Vec<SetName> {
        let rules = self.chains.values().flat_map(|chain| &chain.rules).filter_map(FoundRule::known);
        rules.flat_map(|rule| rule.sets().cloned()).collect()
    }

    pub(super) fn set_policy(&mut self, name: &str, policy: Policy) {
        if let Some(chain) = self.chains.get_mut(name) {
            Arc::make_mut(chain).policy = Some(policy);
        }
    }

    pub(super) fn make(&mut self, name: &str) {
        self.chains.insert(name.into(), Arc::default());
    }

    pub(super) fn is_used(&self, name: &str) -> bool {
        self.references.contains_key(name)
    }

    pub(super) fn delete(&mut self, name: &str) {
        self.empty(name);
        self.chains.remove(name);
    }

    pub(super) fn empty(&mut self, name: &str) {
        let Some(chain) = self.chains.get_mut(name) else { return };
        let chain = Arc::make_mut(chain);
        chain.handles.clear();
        let rules = std::mem::take(&mut chain.rules);
        for rule in &rules {
            self.forget_reference(rule);
        }
    }

    pub(super) fn empty_all(&mut self) {
        for chain in self.chains.values_mut() {
            let chain = Arc::make_mut(chain);
            chain.rules.clear();
            chain.handles.clear();
        }
        self.references.clear();
    }

    pub(super) fn insert(&mut self, name: &str, at: usize, rule: FoundRule) {
        if let Some(target) = target(&rule) {
            *self.references.entry(target.as_str().into()).or_default() += 1;
        }
        if let Some(chain) = self.chains.get_mut(name) {
            let chain = Arc::make_mut(chain);
            chain.rules.insert(at, rule);
            chain.handles.insert(at, new_handle());
        }
    }

    pub(super) fn remove(&mut self, name: &str, at: usize) {
        let Some(chain) = self.chains.get_mut(name) else { return };
        let chain = Arc::make_mut(chain);
        let rule = chain.rules.remove(at);
        chain.handles.remove(at);
        self.forget_reference(&rule);
    }

    fn forget_reference(&mut self, rule: &FoundRule) {
        let Some(target) = target(rule) else { return };
        let Some(count) = self.references.get_mut(target.as_str()) else { return };
        *count -= 1;
        if *count == 0 {
            self.references.remove(target.as_str());
        }
    }
}

/// Where a rule leads: a chain, or of one that stays text perhaps a target.
pub(super) fn target(rule: &FoundRule) -> Option<String> {
    match rule {
        FoundRule::Known(rule) => rule.jump().map(|chain| chain.as_str().to_owned()),
        FoundRule::Unknown(text) => {
            let mut words = words(text).into_iter();
            words.find(|word| ["-j", "-g"].contains(&&**word))?;
            words.next().map(std::borrow::Cow::into_owned)
        }
    }
}
