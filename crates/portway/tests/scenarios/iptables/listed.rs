//! What programs save, made comparable: typed rules, and where no order matters, in one order.

use std::collections::{BTreeMap, BTreeSet};

use kernel::xtables::{Family, FoundRule, FoundTable, Rule, Table, Xtables};

/// Chains in which every service port may have rules.
const SHARED: [&str; 9] = [
    "KUBE-SERVICES",
    "KUBE-NODEPORTS",
    "KUBE-EXTERNAL-SERVICES",
    "KUBE-PROXY-FIREWALL",
    "KUBE-PORTALS-CONTAINER",
    "KUBE-PORTALS-HOST",
    "KUBE-NODEPORT-CONTAINER",
    "KUBE-NODEPORT-HOST",
    "KUBE-NODEPORT-NON-LOCAL",
];
/// Where the last rules of `KUBE-SERVICES` lead.
const LAST: &str = "KUBE-NODEPORTS";

/// Every chain with its rules, in canonical words.
pub(crate) type Listed = BTreeMap<(Family, Table, String), Vec<String>>;

/// All chains behind a door.
pub(crate) fn listed(door: &mut dyn Xtables) -> Result<Listed, String> {
    let mut all = Listed::new();
    for table in [Table::Filter, Table::Nat, Table::Mangle] {
        let Some(text) = door.save(table).map_err(|e| e.to_string())? else { continue };
        for chain in FoundTable::parse(&text).chains {
            let mut rules = chain.rules;
            if SHARED.contains(&chain.name.as_str()) {
                let end = rules.iter().position(leads_on).unwrap_or(rules.len());
                rules[..end].sort_by_key(canonical);
            }
            all.insert((door.family(), table, chain.name), rules.iter().map(canonical).collect());
        }
    }
    Ok(all)
}

fn leads_on(rule: &FoundRule) -> bool {
    rule.known().and_then(Rule::jump).is_some_and(|chain| chain.as_str() == LAST)
}

fn canonical(rule: &FoundRule) -> String {
    rule.known().map_or_else(|| rule.to_string(), |rule| rule.canonical().to_string())
}

/// In what two listings differ, in words; empty if in nothing.
pub(crate) fn difference(one: &Listed, other: &Listed) -> String {
    let keys: BTreeSet<_> = one.keys().chain(other.keys()).collect();
    let differs = |key: &&(Family, Table, String)| one.get(*key) != other.get(*key);
    let lines = keys.into_iter().filter(differs).map(|key| {
        let (family, table, chain) = key;
        format!("{family} {table} {chain}:\n  here {:#?}\n  there {:#?}", one.get(key), other.get(key))
    });
    lines.collect::<Vec<_>>().join("\n")
}
