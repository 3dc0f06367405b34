//! What is to change in one table, all at once or not at all.
//!
//! In: operations in order. Out: one batch for the kernel, or text for people.
//! Additions are forgiving: adding what is there already, unchanged, is no error. To give a key another
//! value, delete its element and add it anew in the same transaction.

use super::element::Element;
use super::object::{Chain, Comment, Family, Name, Set};
use super::rule::Rule;

/// One change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// Make the table, if it is not there.
    AddTable(Option<Comment>),
    /// Remove the table with all that it holds.
    DeleteTable,
    /// Make a chain, if it is not there.
    AddChain(Chain),
    /// Remove all rules of a chain.
    FlushChain(Name),
    /// Remove a chain with its rules; nothing may lead to it any more.
    DeleteChain(Name),
    /// Add a rule at the end of its chain.
    AddRule(Rule),
    /// Remove one rule of a chain, by the kernel's number for it.
    DeleteRule(Name, u64),
    /// Make a set or map, if it is not there.
    AddSet(Set),
    /// Remove all elements of a set or map.
    FlushSet(Name),
    /// Remove a set or map with its elements; no rule may name it any more.
    DeleteSet(Name),
    /// Add elements to a set or map.
    AddElements(Name, Vec<Element>),
    /// Remove elements from a set or map; all of them must be there. Only their keys count.
    DeleteElements(Name, Vec<Element>),
}

/// Changes of one table that belong together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transaction {
    /// The family of the table.
    pub family: Family,
    /// The name of the table.
    pub table: Name,
    /// The changes, in order.
    pub operations: Vec<Operation>,
    /// If set, nothing is applied unless this is still the kernel's generation.
    pub only_in_generation: Option<u32>,
}

impl Transaction {
    /// An empty transaction.
    pub fn new(family: Family, table: &str) -> Self {
        Self { family, table: table.into(), operations: Vec::new(), only_in_generation: None }
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// Adds one change.
    pub fn push(&mut self, operation: Operation) {
        self.operations.push(operation);
    }

    /// Removes the table if it is there, whatever it holds.
    pub fn destroy_table(&mut self) {
        // Deleting a table that is not there would be refused, so it is made first.
        self.push(Operation::AddTable(None));
        self.push(Operation::DeleteTable);
    }

    /// Begins with an empty table, whatever was there before.
    pub fn replace_table(&mut self, comment: Option<Comment>) {
        self.destroy_table();
        self.push(Operation::AddTable(comment));
    }

    /// Adds elements, if there are any.
    pub fn add_elements(&mut self, set: &Name, elements: Vec<Element>) {
        if !elements.is_empty() {
            self.push(Operation::AddElements(set.clone(), elements));
        }
    }

    /// Removes elements, if there are any.
    pub fn delete_elements(&mut self, set: &Name, elements: Vec<Element>) {
        if !elements.is_empty() {
            self.push(Operation::DeleteElements(set.clone(), elements));
        }
    }
}

impl Extend<Operation> for Transaction {
    fn extend<I: IntoIterator<Item = Operation>>(&mut self, operations: I) {
        self.operations.extend(operations);
    }
}
