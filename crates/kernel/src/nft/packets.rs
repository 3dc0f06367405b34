//! Reads how many packets the rules of one chain have counted.
//!
//! In: a chain of any table, ours or of another program. Out: one number for each rule, in order. The kernel lists that chain alone, so
//! the cost does not grow with the table.

use super::error::Result;
use super::netlink::Netlink;
use super::object::Family;
use super::wire::kind;
use super::wire::object::{RULE_CHAIN, RULE_EXPRESSIONS, RULE_HANDLE, RULE_TABLE};
use super::wire::read_expression;
use crate::netlink::{self, Attribute, Attributes};
use crate::rule_packets::RulePackets;

/// In the attributes of a counter.
const COUNTER_PACKETS: usize = 2;

impl Netlink {
    /// The counts of the rules of a chain; nothing where there is no such chain. A rule without a counter has counted nothing.
    pub(crate) fn rule_packets(
        &mut self,
        family: Family,
        table: &str,
        chain: &str,
    ) -> Result<Vec<RulePackets>> {
        let names = [(RULE_TABLE, table), (RULE_CHAIN, chain)];
        self.dump("rules", kind::GET_RULE, family, &names, |attributes| {
            let (of_table, of_chain, packets) = rule(attributes)?;
            Ok((of_table == table && of_chain == chain).then_some(packets))
        })
    }
}

/// Reads a rule: its table, its chain and its count.
pub(super) fn rule(attributes: Attributes<'_>) -> netlink::Result<(String, String, RulePackets)> {
    let (mut table, mut chain, mut found) = (String::new(), String::new(), RulePackets::default());
    for attribute in attributes {
        let attribute = attribute?;
        match attribute.kind {
            RULE_TABLE => table = attribute.text(),
            RULE_CHAIN => chain = attribute.text(),
            RULE_HANDLE => found.handle = attribute.u64_be()?,
            RULE_EXPRESSIONS => {
                for entry in attribute.nested() {
                    found.packets += counted(&entry?)?;
                }
            }
            _ => {}
        }
    }
    Ok((table, chain, found))
}

/// What an expression has counted, if it is a counter.
fn counted(entry: &Attribute<'_>) -> netlink::Result<u64> {
    let (name, fields) = read_expression::open(entry)?;
    let packets = fields.get(COUNTER_PACKETS).filter(|_| name == "counter");
    packets.map_or(Ok(0), Attribute::u64_be)
}
