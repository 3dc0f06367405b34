//! What was written for a service port, as small as it can be: enough to tell what of it is different now.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use kernel::xtables::{ChainName, Rule, Table};

use super::script::Script;
use super::steps::Steps;
use super::words::{Chain, PortRules, Shared};

/// The rules of one service port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Written {
    /// Its chains, each with a number for its rules.
    own: BTreeMap<ChainName, u64>,
    /// How many rules those have.
    own_rules: usize,
    /// Its rules in chains that all share, as text.
    shared: Vec<(Shared, Box<str>)>,
}

impl Written {
    pub(super) fn of(rules: &PortRules) -> Self {
        let shared = rules
            .shared
            .iter()
            .flat_map(|(chain, rules)| rules.iter().map(|rule| (*chain, rule.to_string().into_boxed_str())));
        Self {
            own: rules.own.iter().map(|chain| (chain.name.clone(), digest(&chain.rules))).collect(),
            own_rules: rules.own.iter().map(|chain| chain.rules.len()).sum(),
            shared: shared.collect(),
        }
    }

    /// How many rules it has in a table. Its own chains are all in `nat`.
    pub(super) fn rules(&self, table: Table) -> usize {
        let own = if table == Table::Nat { self.own_rules } else { 0 };
        own + self.shared.iter().filter(|(chain, _)| chain.table == table).count()
    }

    /// Its rules in a chain that all share.
    pub(super) fn shared_in(&self, chain: Shared) -> impl Iterator<Item = &str> {
        self.shared.iter().filter(move |(of, _)| *of == chain).map(|(_, rule)| &**rule)
    }

    /// Is this line, with which something was written or taken away, one of these rules'?
    pub(super) fn has(&self, line: &str) -> bool {
        let is_of_own = |chain: &ChainName| line.split(' ').any(|word| word == chain.as_str());
        let is_shared = |(chain, rule): &(Shared, Box<str>)| {
            line.split(' ').nth(1) == Some(chain.name) && line.ends_with(&format!(" {rule}"))
        };
        self.own.keys().any(is_of_own) || self.shared.iter().any(is_shared)
    }

    /// Puts into `steps` what must change from this to `rules`.
    ///
    /// With `later`, a rule of a shared chain stays for now if the chain that it leads to goes: that one is emptied, so packets
    /// pass as if the rule were gone. Rule and chain go `later`.
    pub(super) fn change_to(&self, rules: &PortRules, steps: &mut Steps, mut later: Option<&mut Script>) {
        let after = Self::of(rules);
        let is_led_to_as_before = self.shared == after.shared;
        let is_changed = |chain: &&Chain| self.own.get(&chain.name) != after.own.get(&chain.name);
        for chain in rules.own.iter().filter(is_changed) {
            let is_new = !self.own.contains_key(&chain.name);
            let script = if is_new || is_led_to_as_before { steps.ahead() } else { &mut steps.at_once };
            script.write(Table::Nat, &chain.name, &chain.rules);
        }
        for (chain, rule) in difference(&after.shared, &self.shared) {
            steps.at_once.add(chain, &rule);
        }
        let mut gone: BTreeSet<&ChainName> =
            self.own.keys().filter(|name| !after.own.contains_key(*name)).collect();
        let mut emptied = BTreeSet::new();
        for (chain, rule) in difference(&self.shared, &after.shared) {
            let leads_to = gone.iter().find(|name| rule.ends_with(&format!(" -j {name}")));
            match (leads_to, later.as_deref_mut()) {
                (Some(name), Some(later)) if chain.table == Table::Nat => {
                    emptied.insert(*name);
                    later.remove(chain, &rule);
                }
                _ => steps.at_once.remove(chain, &rule),
            }
        }
        if let Some(later) = later {
            for name in emptied {
                gone.remove(name);
                steps.at_once.write(Table::Nat, name, &[]);
                later.delete(Table::Nat, name.clone());
            }
        }
        for name in gone {
            steps.delete(name.clone());
        }
    }
}

/// What one has and the other has not; the same rule twice counts twice.
fn difference<'a>(one: &'a [(Shared, Box<str>)], other: &[(Shared, Box<str>)]) -> Vec<(Shared, &'a str)> {
    let mut left: Vec<&(Shared, Box<str>)> = other.iter().collect();
    let mut found = Vec::new();
    for rule in one {
        match left.iter().position(|other| *other == rule) {
            Some(at) => drop(left.swap_remove(at)),
            None => found.push((rule.0, &*rule.1)),
        }
    }
    found
}

fn digest(rules: &[Rule]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for rule in rules {
        rule.to_string().hash(&mut hasher);
    }
    hasher.finish()
}
