//! Who still leads to a chain, and who still names a set: what may not be deleted yet.

use kernel::nft::{Data, DataFields};

use super::SimTable;

/// Whether a rule or an element of a verdict map leads to the chain.
pub(super) fn chain_is_used(table: &SimTable, name: &str) -> bool {
    let by_rule = table
        .chains
        .values()
        .flat_map(|chain| chain.rules.iter())
        .any(|(_, rule)| rule.targets().any(|t| &**t == name));
    by_rule
        || table.sets.values().filter(|set| set.set.data == DataFields::Verdict).any(|set| {
            set.elements.values().any(|found| match &found.element.data {
                Data::Verdict(verdict) => verdict.target().is_some_and(|target| &**target == name),
                _ => false,
            })
        })
}

/// Whether a rule names the set.
pub(super) fn set_is_used(table: &SimTable, name: &str) -> bool {
    table
        .chains
        .values()
        .flat_map(|chain| chain.rules.iter())
        .any(|(_, rule)| rule.sets().any(|set| &**set == name))
}
