//! Tables, chains and rules as netlink attributes.

use super::{expression, userdata};
use crate::netlink::MessageWriter;
use crate::nft::object::{Chain, ChainKind, Comment, Family, Hook, HookPoint, Policy};
use crate::nft::rule::Rule;

pub(crate) const TABLE_NAME: u16 = 1;
pub(crate) const TABLE_FLAGS: u16 = 2;
/// In the flags of a table: no packet passes it.
pub(crate) const TABLE_DORMANT: u32 = 1;
pub(crate) const TABLE_USERDATA: u16 = 6;
pub(crate) const CHAIN_TABLE: u16 = 1;
pub(crate) const CHAIN_NAME: u16 = 3;
pub(crate) const CHAIN_HOOK: u16 = 4;
pub(crate) const CHAIN_POLICY: u16 = 5;
pub(crate) const CHAIN_TYPE: u16 = 7;
pub(crate) const CHAIN_USERDATA: u16 = 12;
pub(crate) const HOOK_NUMBER: u16 = 1;
pub(crate) const HOOK_PRIORITY: u16 = 2;
pub(crate) const RULE_TABLE: u16 = 1;
pub(crate) const RULE_CHAIN: u16 = 2;
pub(crate) const RULE_HANDLE: u16 = 3;
pub(crate) const RULE_EXPRESSIONS: u16 = 4;
pub(crate) const RULE_USERDATA: u16 = 7;

/// Writes a table.
pub(crate) fn write_table(m: &mut MessageWriter, name: &str, comment: Option<&Comment>) {
    m.text(TABLE_NAME, name);
    m.u32_be(TABLE_FLAGS, 0);
    if let Some(comment) = comment {
        m.attribute(TABLE_USERDATA, &userdata::comment(comment));
    }
}

/// Writes a chain.
pub(crate) fn write_chain(m: &mut MessageWriter, table: &str, chain: &Chain) {
    m.text(CHAIN_TABLE, table);
    m.text(CHAIN_NAME, &chain.name);
    if let Some(hook) = chain.base {
        write_hook(m, hook);
    }
    if let Some(comment) = &chain.comment {
        m.attribute(CHAIN_USERDATA, &userdata::comment(comment));
    }
}

fn write_hook(m: &mut MessageWriter, hook: Hook) {
    m.nested(CHAIN_HOOK, |m| {
        m.u32_be(HOOK_NUMBER, hook_number(hook.point));
        m.u32_be(HOOK_PRIORITY, hook.priority.cast_unsigned());
    });
    m.u32_be(CHAIN_POLICY, u32::from(hook.policy == Policy::Accept));
    m.text(CHAIN_TYPE, chain_type(hook.kind));
}

/// Writes a rule, which the kernel adds at the end of its chain.
pub(crate) fn write_rule(m: &mut MessageWriter, family: Family, table: &str, rule: &Rule) {
    m.text(RULE_TABLE, table);
    m.text(RULE_CHAIN, &rule.chain);
    expression::write_all(m, RULE_EXPRESSIONS, family, &rule.compile(family));
    if let Some(comment) = &rule.comment {
        m.attribute(RULE_USERDATA, &userdata::comment(comment));
    }
}

/// The kernel's word for a kind of base chain.
pub(crate) const fn chain_type(kind: ChainKind) -> &'static str {
    match kind {
        ChainKind::Filter => "filter",
        ChainKind::Nat => "nat",
    }
}

const fn hook_number(point: HookPoint) -> u32 {
    match point {
        HookPoint::Prerouting => 0,
        HookPoint::Input => 1,
        HookPoint::Forward => 2,
        HookPoint::Output => 3,
        HookPoint::Postrouting => 4,
    }
}

/// The place with this number, if it is one of ours.
pub(crate) const fn hook_from(number: u32) -> Option<HookPoint> {
    match number {
        0 => Some(HookPoint::Prerouting),
        1 => Some(HookPoint::Input),
        2 => Some(HookPoint::Forward),
        3 => Some(HookPoint::Output),
        4 => Some(HookPoint::Postrouting),
        _ => None,
    }
}
