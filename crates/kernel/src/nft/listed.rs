//! What a kernel holds in one table, as it was listed.
//!
//! In: the decoded answers to a listing. Out: ordered data to compare with what is desired.
//! Rules are listed as register programs; [`ListedRule::does`] tells whether one is a given rule.

use std::collections::BTreeMap;

use super::element::Element;
use super::expression::Expression;
use super::object::{Chain, Comment, Family, Name, Set, Table};
use super::rule::Rule;

/// Everything in one table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// The table itself.
    pub table: Table,
    /// Its chains.
    pub chains: BTreeMap<Name, Chain>,
    /// The rules of each chain, in order; a chain without rules may be absent.
    pub rules: BTreeMap<Name, Vec<ListedRule>>,
    /// Its sets and maps with their elements.
    pub sets: BTreeMap<Name, ListedSet>,
    /// Chains, sets and maps that are not of a shape that we write, by name: somebody else made them.
    pub unknown: Vec<String>,
}

/// One rule in the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedRule {
    /// The kernel's number for it.
    pub handle: u64,
    /// What it does.
    pub program: Vec<Expression>,
    /// What it is for.
    pub comment: Option<Comment>,
}

impl ListedRule {
    /// Whether it is the same rule, comment included.
    pub fn does(&self, rule: &Rule, family: Family) -> bool {
        self.comment == rule.comment && self.program == rule.compile(family)
    }
}

/// One set or map in the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedSet {
    /// The set itself.
    pub set: Set,
    /// Its elements, in order.
    pub elements: Vec<Element>,
}
