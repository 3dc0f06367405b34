//! Leaves one rule, or all elements of one set, out of what is written.
//!
//! A rule is known by the shape of its chain's name (`cluster-ip-N`), its place in it, and how many rules the chain has.

use std::collections::BTreeSet;

use kernel::nft::{Name, Operation, Rule, Transaction};

/// What is left out.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Target {
    /// A rule: the shape of its chain's name, its place, and the number of rules there.
    Rule(String, usize, usize),
    /// All elements of a set.
    Elements(String),
}

/// Leaves out, and takes note of what could be left out.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mutation {
    pub(crate) target: Option<Target>,
    pub(crate) seen: BTreeSet<Target>,
}

impl Mutation {
    /// Leaves this out.
    pub(crate) fn without(target: Target) -> Self {
        Self { target: Some(target), seen: BTreeSet::new() }
    }

    /// What is left of the transaction.
    pub(crate) fn apply(&mut self, transaction: &Transaction) -> Transaction {
        let mut rest = Transaction { operations: Vec::new(), ..transaction.clone() };
        for (at, operation) in transaction.operations.iter().enumerate() {
            let found = target_of(transaction, at, operation);
            self.seen.extend(found.clone());
            if found.is_none() || found != self.target {
                rest.push(operation.clone());
            }
        }
        rest
    }
}

fn target_of(transaction: &Transaction, at: usize, operation: &Operation) -> Option<Target> {
    match operation {
        Operation::AddRule(rule) => {
            let place = rules(&transaction.operations[..at], &rule.chain).count();
            let count = rules(&transaction.operations, &rule.chain).count();
            Some(Target::Rule(shape(&rule.chain), place, count))
        }
        Operation::AddElements(set, _) | Operation::DeleteElements(set, _) => {
            Some(Target::Elements(set.to_string()))
        }
        _ => None,
    }
}

/// The rules of one chain; a chain is always written whole.
fn rules<'a>(operations: &'a [Operation], chain: &'a Name) -> impl Iterator<Item = &'a Rule> {
    operations.iter().filter_map(move |operation| match operation {
        Operation::AddRule(rule) if rule.chain == *chain => Some(rule),
        _ => None,
    })
}

/// `pick-local-12` is `pick-local-N`.
fn shape(name: &str) -> String {
    let word =
        |word: &str| if word.bytes().all(|b| b.is_ascii_digit()) { "N".into() } else { word.to_owned() };
    name.split('-').map(word).collect::<Vec<_>>().join("-")
}
