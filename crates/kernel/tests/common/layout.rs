//! A small ruleset with every object and every statement that we can write, in the class-number layout.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use kernel::IpProtocol;
use kernel::nft::{
    Bits, Chain, ChainKind, Comment, DnatTo, Element, Family, Field, Flags, Hook, HookPoint, InterfaceName,
    Match, Operation, Part, Pattern, Policy, Prefix, PriorityFrom, Reject, Rule, Selector, Set, Side,
    Statement, Transaction, Value, Verdict,
};

pub const TABLE: &str = "kube-proxy";
/// The class of a plain service with two slots.
pub const PICK_2: u32 = 0x7057_0002;
/// The number of a sticky service; its endpoints are this plus 1, plus 2.
pub const STICKY: u32 = 0x8001_0000;
const MASQUERADE: u32 = 0x4000;
const INTERVAL: Flags = Flags { interval: true, dynamic: false, timeout: false };

/// An address of the family that ends in this number. 10.96 and fd00:96 are services, 10.1 and fd00:1 pods.
pub fn service(family: Family, last: u8) -> IpAddr {
    match family {
        Family::V4 => Ipv4Addr::new(10, 96, 0, last).into(),
        Family::V6 => Ipv6Addr::new(0xfd00, 0x96, 0, 0, 0, 0, 0, last.into()).into(),
    }
}

pub fn pod(family: Family, last: u8) -> IpAddr {
    match family {
        Family::V4 => Ipv4Addr::new(10, 1, 0, last).into(),
        Family::V6 => Ipv6Addr::new(0xfd00, 1, 0, 0, 0, 0, 0, last.into()).into(),
    }
}

/// The highest network of the family, which has no first address behind it.
fn last_network(family: Family) -> Part {
    match family {
        Family::V4 => Part::Prefix(Ipv4Addr::new(255, 255, 255, 0).into(), 24),
        Family::V6 => Part::Prefix(Ipv6Addr::new(0xffff, 0, 0, 0, 0, 0, 0, 0).into(), 16),
    }
}

pub fn pods(family: Family) -> Prefix {
    match family {
        Family::V4 => Prefix { address: Ipv4Addr::new(10, 1, 0, 0).into(), length: 16 },
        Family::V6 => Prefix { address: Ipv6Addr::new(0xfd00, 1, 0, 0, 0, 0, 0, 0).into(), length: 33 },
    }
}

fn tcp() -> Value {
    Value::Protocol(IpProtocol::TCP)
}

fn frontend(family: Family, last: u8) -> [Value; 3] {
    [service(family, last).into(), tcp(), Value::Port(80)]
}

/// Everything, in one transaction that begins with an empty table.
pub fn full(family: Family) -> Transaction {
    let mut transaction = Transaction::new(family, TABLE);
    transaction.replace_table(Some("portway layout 1".into()));
    sets(family, &mut transaction);
    maps(family, &mut transaction);
    chains(&mut transaction);
    rules(family, &mut transaction);
    zoo(family, &mut transaction);
    verdicts(&mut transaction);
    transaction
}

fn add(transaction: &mut Transaction, set: Set, elements: Vec<Element>) {
    let name = set.name.clone();
    transaction.push(Operation::AddSet(set));
    transaction.add_elements(&name, elements);
}

fn sets(family: Family, transaction: &mut Transaction) {
    let note = Comment::new("shop/web \"quoted\"");
    let network = pods(family);
    add(
        transaction,
        Set { flags: INTERVAL, comment: Some("pods".into()), ..Set::new("pod-networks", &[Field::Source]) },
        vec![
            Element::interval(&[Part::Prefix(network.address, network.length)]).comment(&note),
            Element::interval(&[last_network(family)]),
            Element::interval(&[Part::Exact(service(family, 77).into())]).comment(&note),
        ],
    );
    let hairpin = |last| Element::new(&[pod(family, last).into(), pod(family, last).into()]);
    add(
        transaction,
        Set::new("hairpins", &[Field::Source, Field::Destination]),
        vec![hairpin(1), hairpin(2)],
    );
    let key = [Field::Destination, Field::Protocol, Field::Port];
    add(transaction, Set::new("unserved", &key), vec![Element::new(&frontend(family, 40)).comment(&note)]);
    let [address, protocol, port] = frontend(family, 50).map(Part::Exact);
    let source = Part::Prefix(network.address, 120.min(network.length + 8));
    add(
        transaction,
        Set { flags: INTERVAL, ..Set::new("allowed-sources", &[key[0], key[1], key[2], Field::Source]) },
        vec![Element::interval(&[address, protocol, port, source]).comment(&note)],
    );
    singles(transaction);
}

/// Sets of a single field, one for each kind that is not an address.
fn singles(transaction: &mut Transaction) {
    let eth = InterfaceName::new("eth0").expect("a short name");
    for (name, field, value) in [
        ("protocols", Field::Protocol, tcp()),
        ("ports", Field::Port, Value::Port(8080)),
        ("priorities", Field::Priority, Value::Priority(PICK_2)),
        ("slots", Field::Slot, Value::Slot(1)),
        ("marks", Field::Mark, Value::Mark(MASQUERADE)),
        ("interfaces", Field::InputInterface, Value::Interface(eth)),
    ] {
        add(transaction, Set::new(name, &[field]), vec![Element::new(&[value])]);
    }
}

fn maps(family: Family, transaction: &mut Transaction) {
    let note = Comment::new("shop/web");
    let class = |last, number| {
        Element::new(&frontend(family, last)).values(&[Value::Priority(number)]).comment(&note)
    };
    let key = [Field::Destination, Field::Protocol, Field::Port];
    let frontends =
        Set { comment: Some("who is asked".into()), ..Set::map("frontends", &key, &[Field::Priority]) };
    add(transaction, frontends, vec![class(10, PICK_2), class(60, STICKY)]);
    let endpoint = |last: u8| [pod(family, last).into(), Value::Port(8080)];
    let slot = |slot: u32, last| {
        let [address, protocol, port] = frontend(family, 10);
        Element::new(&[address, protocol, port, Value::Slot(slot)]).values(&endpoint(last))
    };
    let target = [Field::Destination, Field::Port];
    let endpoints = Set::map("endpoints", &[key[0], key[1], key[2], Field::Slot], &target);
    add(transaction, endpoints, vec![slot(0, 1), slot(1, 2), slot(1_000_000, 1)]);
    sticky_maps(transaction, &endpoint);
}

fn sticky_maps(transaction: &mut Transaction, endpoint: &dyn Fn(u8) -> [Value; 2]) {
    let flags = Flags { dynamic: true, timeout: true, interval: false };
    let affinity = Set::map("affinity", &[Field::Source, Field::Priority], &[Field::Priority]);
    add(transaction, Set { flags, size: Some(1024), ..affinity }, vec![]);
    let slot = |slot: u32| {
        Element::new(&[Value::Priority(STICKY), Value::Slot(slot)])
            .values(&[Value::Priority(STICKY + 1 + slot)])
    };
    let slots = Set::map("sticky-slots", &[Field::Priority, Field::Slot], &[Field::Priority]);
    add(transaction, slots, vec![slot(0), slot(1)]);
    let numbered = |number: u8| {
        Element::new(&[tcp(), Value::Priority(STICKY + u32::from(number))]).values(&endpoint(number))
    };
    let target = [Field::Destination, Field::Port];
    let endpoints = Set::map("sticky-endpoints", &[Field::Protocol, Field::Priority], &target);
    add(transaction, endpoints, vec![numbered(1), numbered(2)]);
    add(transaction, Set::verdict_map("classes", &[Field::Priority]), vec![]);
}

fn chains(transaction: &mut Transaction) {
    for name in ["pick-2", "sticky-2", "stick", "route", "refuse-now", "zoo"] {
        transaction.push(Operation::AddChain(Chain { comment: Some("a chain".into()), ..Chain::new(name) }));
    }
    let base = |name, kind, point, priority| {
        let hook = Hook { kind, point, priority, policy: Policy::Accept };
        Operation::AddChain(Chain::base(name, hook))
    };
    transaction.push(base("nat-prerouting", ChainKind::Nat, HookPoint::Prerouting, -100));
    transaction.push(base("nat-output", ChainKind::Nat, HookPoint::Output, -100));
    transaction.push(base("nat-postrouting", ChainKind::Nat, HookPoint::Postrouting, 100));
    transaction.push(base("filter-forward", ChainKind::Filter, HookPoint::Forward, 0));
}

/// Verdicts come last: the chains that they lead to must be there.
fn verdicts(transaction: &mut Transaction) {
    let class = |number, chain: &str| {
        Element::new(&[Value::Priority(number)]).verdict(Verdict::Goto(chain.into())).comment(&"class".into())
    };
    let drop = Element::new(&[Value::Priority(0x7057_0000)]).verdict(Verdict::Drop);
    transaction
        .add_elements(&"classes".into(), vec![class(PICK_2, "pick-2"), class(STICKY, "sticky-2"), drop]);
}

pub fn frontend_key() -> Vec<Selector> {
    vec![Selector::Destination, Selector::Protocol, Selector::Port]
}

fn slot(modulus: u32, offset: u32) -> Selector {
    Selector::Slot { modulus, offset }
}

fn pick(modulus: u32, offset: u32) -> Statement {
    let key = [frontend_key(), vec![slot(modulus, offset)]].concat();
    Statement::Dnat(DnatTo::Map { key, map: "endpoints".into() })
}

fn priority_from(key: Vec<Selector>, map: &str) -> Statement {
    Statement::SetPriority(PriorityFrom::Map { key, map: map.into() })
}

fn in_set(key: Vec<Selector>, set: &str, not: bool) -> Statement {
    Statement::Match(Match::InSet { key, set: set.into(), not })
}

fn rules(family: Family, transaction: &mut Transaction) {
    let mut add = |chain: &str, statements: Vec<Statement>| {
        let comment = Some(Comment::new("a rule"));
        transaction.push(Operation::AddRule(Rule { comment, ..Rule::new(chain, statements) }));
    };
    add("pick-2", vec![pick(2, 0)]);
    add("pick-2", vec![pick(1, 0)]);
    let sticky = || [Selector::Source, Selector::Priority].to_vec();
    let (map, data) = ("affinity".into(), Selector::Priority);
    let key = vec![Selector::Source, Selector::PriorityAnd(0xffff_0000)];
    add("stick", vec![Statement::Update { map, key, data, timeout: Duration::from_secs(10_800) }]);
    let key = vec![Selector::Protocol, Selector::Priority];
    add("stick", vec![Statement::Dnat(DnatTo::Map { key, map: "sticky-endpoints".into() })]);
    add("sticky-2", vec![priority_from(sticky(), "affinity"), Statement::jump("stick")]);
    add("sticky-2", vec![Statement::SetPriority(PriorityFrom::Bits(Bits::And(0xffff_0000)))]);
    add("sticky-2", vec![Statement::Delete { map: "affinity".into(), key: sticky(), data }]);
    let key = vec![Selector::Priority, slot(2, 0)];
    add("sticky-2", vec![priority_from(key, "sticky-slots"), Statement::goto("stick")]);
    add("route", vec![in_set(frontend_key(), "unserved", false), Statement::goto("refuse-now")]);
    add("route", vec![priority_from(frontend_key(), "frontends")]);
    let key = vec![Selector::Priority];
    add("route", vec![Statement::VerdictMap { key, map: "classes".into() }]);
    add(
        "refuse-now",
        vec![Statement::Match(Match::Protocol(IpProtocol::TCP)), Statement::Reject(Reject::TcpReset)],
    );
    add("refuse-now", vec![Statement::Reject(Reject::PortUnreachable)]);
    let outside = Match::InPrefix { side: Side::Source, prefix: pods(family), not: true };
    let mark = Statement::SetMark(Bits::Or(MASQUERADE));
    add("nat-prerouting", vec![Statement::Match(outside), mark]);
    add("nat-prerouting", vec![Statement::jump("route")]);
    add("nat-output", vec![Statement::jump("route")]);
    let ours = Match::Priority { mask: 0x8000_0000, value: 0x8000_0000 };
    let none = Statement::SetPriority(PriorityFrom::Bits(Bits::Be(0)));
    add("nat-postrouting", vec![Statement::Match(ours), none.clone()]);
    let ours = Match::Priority { mask: 0x7fff_0000, value: 0x7057_0000 };
    add("nat-postrouting", vec![Statement::Match(ours), none]);
    let marked = Statement::Match(Match::Mark { mask: MASQUERADE, value: MASQUERADE });
    let unmark = Statement::SetMark(Bits::Xor(MASQUERADE));
    add("nat-postrouting", vec![marked, unmark, Statement::Masquerade]);
    let itself = in_set(vec![Selector::Source, Selector::Destination], "hairpins", false);
    add("nat-postrouting", vec![Statement::Match(Match::CtStatusDnat), itself, Statement::Masquerade]);
}

/// Every statement that the rules above do not use. The chain is entered by packets with a rare mark.
fn zoo(family: Family, transaction: &mut Transaction) {
    let mut add = |statements: Vec<Statement>| {
        transaction.push(Operation::AddRule(Rule::new("zoo", statements)));
    };
    let back = || Statement::Verdict(Verdict::Return);
    let interface = |name| InterfaceName::new(name).expect("a short name");
    for (pattern, not) in [
        (Pattern::Exact(interface("eth0")), false),
        (Pattern::Exact(interface("eth0")), true),
        (Pattern::StartsWith(interface("veth")), false),
        (Pattern::StartsWith(interface("veth")), true),
    ] {
        add(vec![Statement::Match(Match::InputInterface { pattern, not }), Statement::Counter, back()]);
    }
    for side in [Side::Source, Side::Destination] {
        add(vec![Statement::Match(Match::Local(side)), back()]);
        for (prefix, not) in [(pods(family), false), (Prefix { length: 24, ..pods(family) }, true)] {
            add(vec![Statement::Match(Match::InPrefix { side, prefix, not }), back()]);
        }
        let single = Prefix { address: pod(family, 9), length: if family == Family::V4 { 32 } else { 128 } };
        add(vec![Statement::Match(Match::InPrefix { side, prefix: single, not: false }), back()]);
    }
    add(vec![Statement::Match(Match::CtStateNew), back()]);
    let guarded = [frontend_key(), vec![Selector::Source]].concat();
    add(vec![in_set(guarded, "allowed-sources", true), Statement::Verdict(Verdict::Drop)]);
    add(vec![in_set(vec![Selector::Source], "pod-networks", true), Statement::Verdict(Verdict::Accept)]);
    for (selector, set) in [
        (Selector::Protocol, "protocols"),
        (Selector::Port, "ports"),
        (Selector::Priority, "priorities"),
        (slot(4, 0), "slots"),
        (Selector::Mark, "marks"),
        (Selector::InputInterface, "interfaces"),
    ] {
        add(vec![in_set(vec![selector], set, false), back()]);
    }
    for bits in [Bits::And(0xff), Bits::Be(0x17)] {
        add(vec![Statement::SetMark(bits)]);
    }
    for bits in [Bits::Or(0x4000_0000), Bits::Be(0x7057_0001)] {
        add(vec![Statement::SetPriority(PriorityFrom::Bits(bits))]);
    }
    add(vec![pick(1, 1_000_000)]);
    let dnat = |port| Statement::Dnat(DnatTo::Address { address: pod(family, 1), port });
    add(vec![Statement::Match(Match::Protocol(IpProtocol::UDP)), dnat(Some(53))]);
    add(vec![dnat(None)]);
    let rare = Statement::Match(Match::Mark { mask: 0xffff_ffff, value: 0xdead });
    transaction.push(Operation::AddRule(Rule::new("nat-prerouting", [rare, Statement::jump("zoo")])));
}
