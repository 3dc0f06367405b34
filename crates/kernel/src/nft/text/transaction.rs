//! Transactions as text: a script that `nft -f` reads, and one operation in a few words.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::object::{chain, element, element_key, set, set_word};
use crate::nft::element::Element;
use crate::nft::object::{Chain, Comment, Set};
use crate::nft::rule::Rule;
use crate::nft::transaction::{Operation, Transaction};

impl Transaction {
    /// The transaction as a script for `nft -f`: removals as commands, everything new as one table block.
    pub fn script(&self) -> String {
        let mut script = String::new();
        let mut block = Block::default();
        for operation in &self.operations {
            if !block.take(operation) {
                block.print(self, &mut script);
                block = Block::default();
                writeln!(script, "{}", self.words(operation, None)).expect("writing to a String cannot fail");
            }
        }
        block.print(self, &mut script);
        script
    }

    /// One operation as nft would be told it, or one element of it.
    pub fn describe(&self, index: usize, element: Option<usize>) -> String {
        match self.operations.get(index) {
            Some(operation) => self.words(operation, element),
            None => "unknown operation".to_owned(),
        }
    }

    fn words(&self, operation: &Operation, element: Option<usize>) -> String {
        let at = format!("{} {}", super::family_name(self.family), self.table);
        match operation {
            Operation::AddTable(_) => format!("add table {at}"),
            Operation::DeleteTable => format!("delete table {at}"),
            Operation::AddChain(chain) => format!("add chain {at} {}", chain.name),
            Operation::FlushChain(chain) => format!("flush chain {at} {chain}"),
            Operation::DeleteChain(chain) => format!("delete chain {at} {chain}"),
            Operation::AddRule(rule) => format!("add rule {at} {} {}", rule.chain, rule.text(self.family)),
            Operation::DeleteRule(chain, handle) => format!("delete rule {at} {chain} handle {handle}"),
            Operation::AddSet(set) => format!("add {} {at} {}", set_word(set), set.name),
            Operation::FlushSet(set) => format!("flush set {at} {set}"),
            Operation::DeleteSet(set) => format!("delete set {at} {set}"),
            Operation::AddElements(set, list) => {
                format!("add element {at} {set} {}", some(list, element, super::object::element))
            }
            Operation::DeleteElements(set, list) => {
                format!("delete element {at} {set} {}", some(list, element, element_key))
            }
        }
    }
}

/// The element that matters, or all of them.
fn some(elements: &[Element], which: Option<usize>, text: fn(&Element) -> String) -> String {
    let texts: Vec<_> = match which.and_then(|index| elements.get(index)) {
        Some(element) => vec![text(element)],
        None => elements.iter().map(text).collect(),
    };
    format!("{{ {} }}", texts.join(", "))
}

/// Additions in a row, sorted into the shape of a table.
#[derive(Default)]
struct Block<'a> {
    has_table: bool,
    comment: Option<&'a Comment>,
    sets: Vec<&'a Set>,
    elements: BTreeMap<&'a str, Vec<&'a Element>>,
    chains: Vec<&'a Chain>,
    rules: BTreeMap<&'a str, Vec<&'a Rule>>,
}

impl<'a> Block<'a> {
    /// Takes an addition to something that it knows; false for anything else.
    fn take(&mut self, operation: &'a Operation) -> bool {
        match operation {
            Operation::AddTable(comment) if !self.has_table => {
                self.has_table = true;
                self.comment = comment.as_ref();
            }
            Operation::AddChain(chain) => self.chains.push(chain),
            Operation::AddSet(set) => self.sets.push(set),
            Operation::AddRule(rule) if self.chains.iter().any(|chain| chain.name == rule.chain) => {
                self.rules.entry(&rule.chain).or_default().push(rule);
            }
            Operation::AddElements(set, elements) if self.sets.iter().any(|known| known.name == *set) => {
                self.elements.entry(set).or_default().extend(elements);
            }
            _ => return false,
        }
        true
    }

    fn print(&self, transaction: &Transaction, script: &mut String) {
        if !self.has_table && self.sets.is_empty() && self.chains.is_empty() {
            return;
        }
        let mut lines =
            vec![format!("table {} {} {{", super::family_name(transaction.family), transaction.table)];
        lines.extend(self.comment.map(|comment| format!("\tcomment \"{}\"", comment.as_str())));
        for one in &self.sets {
            self.print_set(transaction, one, &mut lines);
        }
        for one in &self.chains {
            self.print_chain(transaction, one, &mut lines);
        }
        lines.push("}\n".to_owned());
        *script += &lines.join("\n");
    }

    fn print_set(&self, transaction: &Transaction, one: &Set, lines: &mut Vec<String>) {
        lines.push(format!("\t{} {} {{", set_word(one), one.name));
        lines.extend(set(transaction.family, one).into_iter().map(|line| format!("\t\t{line}")));
        if let Some(elements) = self.elements.get(&*one.name).filter(|elements| !elements.is_empty()) {
            let texts: Vec<_> = elements.iter().map(|one| format!("\t\t\t{}", element(one))).collect();
            lines.push("\t\telements = {".to_owned());
            lines.push(texts.join(",\n"));
            lines.push("\t\t}".to_owned());
        }
        lines.push("\t}".to_owned());
    }

    fn print_chain(&self, transaction: &Transaction, one: &Chain, lines: &mut Vec<String>) {
        lines.push(format!("\tchain {} {{", one.name));
        lines.extend(chain(one).into_iter().map(|line| format!("\t\t{line}")));
        for rule in self.rules.get(&*one.name).into_iter().flatten() {
            lines.push(format!("\t\t{}", rule.text(transaction.family)));
        }
        lines.push("\t}".to_owned());
    }
}
