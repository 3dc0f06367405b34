//! Tables that other programs wrote, as chains and rules that can be deleted one by one.
//!
//! In: a family and the name of a table. Out: its chains without their rules, and its rules as the iptables programs print them, each
//! with the kernel's number by which [`Operation::DeleteRule`](super::Operation::DeleteRule) names it.
//!
//! It is for those who have no iptables program: the tables of iptables-nft are ordinary tables of `nf_tables`.

use super::error::Result;
use super::foreign::{Step, known, step};
use super::iptables_text;
use super::netlink::Netlink;
use super::object::{Chain, Family, Name};
use super::wire::object::{
    CHAIN_TABLE, RULE_CHAIN, RULE_EXPRESSIONS, RULE_HANDLE, RULE_TABLE, RULE_USERDATA,
};
use super::wire::{kind, read, userdata};
use super::{Kernel, Rule};
use crate::netlink::{self, Attributes};

/// A rule of another program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherRule {
    /// The chain that it is in.
    pub chain: Name,
    /// The kernel's number for it.
    pub handle: u64,
    /// The rule as `iptables-save` prints it. A part that is not understood is `-m NAME ?`.
    pub text: String,
}

impl OtherRule {
    /// A rule that these types can say, under its number.
    pub fn known(handle: u64, rule: &Rule, family: Family) -> Self {
        let steps: Vec<Step> = rule.compile(family).into_iter().map(known).collect();
        let text = iptables_text::rule(rule.comment.as_ref().map(super::Comment::as_str), &steps);
        Self { chain: rule.chain.clone(), handle, text }
    }
}

/// A kernel whose tables of other programs can be read.
pub trait OtherTables: Kernel {
    /// The chains of a table, without their rules. `None` if there is no such table.
    fn other_chains(&mut self, family: Family, table: &str) -> Result<Option<Vec<Chain>>>;

    /// All rules of a table; those of one chain are in order.
    fn other_rules(&mut self, family: Family, table: &str) -> Result<Vec<OtherRule>>;
}

impl OtherTables for Netlink {
    fn other_chains(&mut self, family: Family, table: &str) -> Result<Option<Vec<Chain>>> {
        if !self.tables(family)?.iter().any(|found| &*found.name == table) {
            return Ok(None);
        }
        let chains = self.dump("chains", kind::GET_CHAIN, family, &[(CHAIN_TABLE, table)], |attributes| {
            let read = read::chain(attributes)?;
            Ok((read.table == table).then_some(read.chain))
        })?;
        Ok(Some(chains))
    }

    fn other_rules(&mut self, family: Family, table: &str) -> Result<Vec<OtherRule>> {
        self.dump("rules", kind::GET_RULE, family, &[(RULE_TABLE, table)], |attributes| {
            rule(attributes).map(|(of, rule)| (of == table).then_some(rule))
        })
    }
}

/// The name of its table, and the rule.
fn rule(attributes: Attributes<'_>) -> netlink::Result<(String, OtherRule)> {
    let (mut table, mut chain, mut handle) = (String::new(), String::new(), 0);
    let (mut steps, mut comment) = (Vec::new(), None);
    for attribute in attributes {
        let attribute = attribute?;
        match attribute.kind {
            RULE_TABLE => table = attribute.text(),
            RULE_CHAIN => chain = attribute.text(),
            RULE_HANDLE => handle = attribute.u64_be()?,
            RULE_EXPRESSIONS => {
                for entry in attribute.nested() {
                    steps.push(step(&entry?)?);
                }
            }
            RULE_USERDATA => comment = userdata::read_comment(attribute.value),
            _ => {}
        }
    }
    let text = iptables_text::rule(comment.as_ref().map(super::Comment::as_str), &steps);
    Ok((table, OtherRule { chain: chain.into(), handle, text }))
}
