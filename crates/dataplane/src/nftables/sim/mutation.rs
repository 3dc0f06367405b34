//! A kernel that leaves one rule, or all elements of one set, out of what is written.
//!
//! A rule is known by the shape of its chain's name (`cluster-ip-N`), its place in it, and how many rules the chain has.

use std::collections::BTreeSet;

use kernel::nft::{Error, Family, Kernel, Listed, Name, Operation, Rule, Table, Transaction};

/// What no scenario misses: how its kind begins and ends, and why it is written all the same.
const UNMISSED: [(&str, &str, &str); 7] = [
    ("rule nat-output ", "0 of 2", "it counts packets to node ports on localhost, and decides none"),
    ("rule localhost-node-ports ", " of 3", "it counts packets to node ports on localhost, and decides none"),
    (
        "rule stray-replies ",
        "",
        "it drops stray replies, and packets of scenarios are first ones; the case `strays` of the packet tests proves it",
    ),
    ("elements reply-sources", "", "it drops stray replies, as above"),
    // With one slot the remembered endpoint would be picked anyway.
    (
        "rule sticky-",
        "4 of 5",
        "it spares the kernel to forget a client and remember it again with every connection, which kernels before 6.5 pay with memory",
    ),
    ("rule sticky-", "0 of 4", "the same"),
    (
        "rule ",
        "1 of 2",
        "it takes the first slot when another one is gone, for packets that meet two generations of the table; `first_slot.rs` proves it",
    ),
];

/// Why no scenario misses it.
pub(super) fn unmissed(kind: &str) -> Option<&'static str> {
    let is_it = |(start, end, _): &&(&str, &str, &str)| {
        let is_pick = *start != "rule " || kind.contains("pick-");
        kind.starts_with(start) && kind.ends_with(end) && is_pick
    };
    UNMISSED.iter().find(is_it).map(|(.., why)| *why)
}

/// A kernel that takes note of what is written, and leaves some of it out.
#[derive(Clone, Debug)]
pub(super) struct Mutated<K> {
    pub(super) kernel: K,
    pub(super) left_out: Option<String>,
    pub(super) seen: BTreeSet<String>,
}

impl<K> Mutated<K> {
    pub(super) fn new(kernel: K) -> Self {
        Self { kernel, left_out: None, seen: BTreeSet::new() }
    }

    /// What is left of the transaction.
    fn rest(&mut self, transaction: &Transaction) -> Transaction {
        let mut rest = Transaction { operations: Vec::new(), ..transaction.clone() };
        for (at, operation) in transaction.operations.iter().enumerate() {
            let kind = kind_of(transaction, at, operation);
            if kind.is_none() || kind != self.left_out {
                rest.push(operation.clone());
            }
            self.seen.extend(kind);
        }
        rest
    }
}

fn kind_of(transaction: &Transaction, at: usize, operation: &Operation) -> Option<String> {
    match operation {
        Operation::AddRule(rule) => {
            let place = rules(&transaction.operations[..at], &rule.chain).count();
            let count = rules(&transaction.operations, &rule.chain).count();
            Some(format!("rule {} {place} of {count}", shape(&rule.chain)))
        }
        Operation::AddElements(set, _) | Operation::DeleteElements(set, _) => Some(format!("elements {set}")),
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

impl<K: Kernel> Kernel for Mutated<K> {
    fn run(&mut self, transaction: &Transaction) -> Result<(), Error> {
        let rest = self.rest(transaction);
        self.kernel.run(&rest)
    }

    fn check(&mut self, transaction: &Transaction) -> Result<(), Error> {
        self.kernel.check(transaction)
    }

    fn list(&mut self, family: Family, table: &str) -> Result<Option<Listed>, Error> {
        self.kernel.list(family, table)
    }

    fn tables(&mut self, family: Family) -> Result<Vec<Table>, Error> {
        self.kernel.tables(family)
    }

    fn generation(&mut self) -> Result<u32, Error> {
        self.kernel.generation()
    }
}
