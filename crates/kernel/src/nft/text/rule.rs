//! Rules as nft prints them.

use std::net::{IpAddr, SocketAddr};

use super::value::{priority, time};
use crate::nft::element::Part;
use crate::nft::object::{Family, Verdict};
use crate::nft::rule::{
    Bits, DnatTo, Match, Pattern, Prefix, PriorityFrom, Reject, Rule, Selector, Side, Statement,
};
use crate::nft::value::InterfaceName;

impl Rule {
    /// The rule as nft prints it in a table of this family, without its chain.
    pub fn text(&self, family: Family) -> String {
        let statements: Vec<_> = self.statements.iter().map(|one| statement(family, one)).collect();
        statements.join(" ") + &super::comment(self.comment.as_ref())
    }
}

/// One statement.
fn statement(family: Family, statement: &Statement) -> String {
    match statement {
        Statement::Match(question) => self::question(family, question),
        Statement::Counter => "counter".to_owned(),
        Statement::SetMark(bits) => format!("meta mark set {}", change("meta mark", *bits, mark)),
        Statement::SetPriority(PriorityFrom::Bits(bits)) => {
            format!("meta priority set {}", change("meta priority", *bits, priority))
        }
        Statement::SetPriority(PriorityFrom::Map { key, map }) => {
            format!("meta priority set {} map @{map}", concatenation(family, key))
        }
        Statement::VerdictMap { key, map } => format!("{} vmap @{map}", concatenation(family, key)),
        Statement::Update { map, key, data, timeout } => format!(
            "update @{map} {{ {} timeout {} : {} }}",
            concatenation(family, key),
            time(*timeout),
            selector(family, *data)
        ),
        Statement::Delete { map, key, data } => {
            format!("delete @{map} {{ {} : {} }}", concatenation(family, key), selector(family, *data))
        }
        Statement::Verdict(verdict) => self::verdict(verdict),
        Statement::Reject(Reject::TcpReset) => "reject with tcp reset".to_owned(),
        Statement::Reject(Reject::PortUnreachable) => "reject".to_owned(),
        Statement::Dnat(DnatTo::Map { key, map }) => {
            format!("dnat {} to {} map @{map}", super::family_name(family), concatenation(family, key))
        }
        Statement::Dnat(DnatTo::Address { address, port }) => format!("dnat to {}", socket(*address, *port)),
        Statement::Masquerade => "masquerade fully-random".to_owned(),
    }
}

/// A verdict.
pub(super) fn verdict(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Accept => "accept".to_owned(),
        Verdict::Drop => "drop".to_owned(),
        Verdict::Return => "return".to_owned(),
        Verdict::Jump(chain) => format!("jump {chain}"),
        Verdict::Goto(chain) => format!("goto {chain}"),
    }
}

fn question(family: Family, question: &Match) -> String {
    match question {
        Match::InSet { key, set, not } => format!("{} {}@{set}", concatenation(family, key), unequal(*not)),
        Match::InPrefix { side, prefix, not } => {
            format!("{} {} {}{}", super::family_name(family), address(*side), unequal(*not), network(*prefix))
        }
        Match::Protocol(protocol) => format!("meta l4proto {protocol}"),
        Match::InputInterface { pattern, not } => {
            format!("iifname {}{}", unequal(*not), interface(*pattern))
        }
        Match::CtStatusDnat => "ct status dnat".to_owned(),
        Match::CtStateNew => "ct state new".to_owned(),
        Match::CtStateInvalid => "ct state invalid".to_owned(),
        Match::TcpMidStream => "tcp flags & (fin | syn | rst) == 0".to_owned(),
        Match::MidStream => "tcp flags & syn == 0 ct state new,invalid".to_owned(),
        Match::Local(side) => format!("fib {} type local", address(*side)),
        Match::Mark { mask: u32::MAX, value } => format!("meta mark {}", mark(*value)),
        Match::Priority { mask: u32::MAX, value } => format!("meta priority {}", priority(*value)),
        Match::Mark { mask, value } => format!("meta mark & {} == {}", mark(*mask), mark(*value)),
        Match::Priority { mask, value } => {
            format!("meta priority & {} == {}", priority(*mask), priority(*value))
        }
    }
}

fn concatenation(family: Family, key: &[Selector]) -> String {
    let parts: Vec<_> = key.iter().map(|part| selector(family, *part)).collect();
    parts.join(" . ")
}

fn selector(family: Family, selector: Selector) -> String {
    match selector {
        Selector::Source => format!("{} saddr", super::family_name(family)),
        Selector::Destination => format!("{} daddr", super::family_name(family)),
        Selector::Protocol => "meta l4proto".to_owned(),
        Selector::SourcePort => "th sport".to_owned(),
        Selector::Port => "th dport".to_owned(),
        Selector::Priority => "meta priority".to_owned(),
        Selector::PriorityAnd(mask) => format!("meta priority & {}", priority(mask)),
        Selector::Mark => "meta mark".to_owned(),
        Selector::InputInterface => "iifname".to_owned(),
        Selector::Slot { modulus, offset: 0 } => format!("numgen random mod {modulus}"),
        Selector::Slot { modulus, offset } => format!("numgen random mod {modulus} offset {offset}"),
    }
}

fn change(what: &str, bits: Bits, number: fn(u32) -> String) -> String {
    match bits {
        Bits::And(mask) => format!("{what} & {}", number(mask)),
        Bits::Or(mask) => format!("{what} | {}", number(mask)),
        Bits::Xor(mask) => format!("{what} ^ {}", number(mask)),
        Bits::Be(value) => number(value),
    }
}

fn mark(number: u32) -> String {
    format!("{number:#010x}")
}

const fn unequal(not: bool) -> &'static str {
    if not { "!= " } else { "" }
}

const fn address(side: Side) -> &'static str {
    match side {
        Side::Source => "saddr",
        Side::Destination => "daddr",
    }
}

/// The lowest address and the length, or the address alone.
fn network(prefix: Prefix) -> String {
    let (low, high) = Part::Prefix(prefix.address, prefix.length).bounds();
    if low == high { low.to_string() } else { format!("{low}/{}", prefix.length) }
}

fn interface(pattern: Pattern) -> String {
    let text = |name: InterfaceName| String::from_utf8_lossy(name.as_bytes()).into_owned();
    match pattern {
        Pattern::Exact(name) => format!("\"{}\"", text(name)),
        Pattern::StartsWith(name) => format!("\"{}*\"", text(name)),
    }
}

fn socket(address: IpAddr, port: Option<u16>) -> String {
    port.map_or_else(|| address.to_string(), |port| SocketAddr::new(address, port).to_string())
}
