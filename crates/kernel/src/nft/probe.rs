//! Asks the kernel, before anything is written, whether it can do all that our rules need.
//!
//! Each question is a small transaction that the kernel checks and forgets. Nothing is left behind.
//! Kernel 5.13 and later can do everything; older ones may lack some of it.

use std::fmt;
use std::time::Duration;

use super::Kernel;
use super::error::Error;
use super::netlink::Netlink;
use super::object::{Chain, ChainKind, Family, Field, Flags, Hook, HookPoint, Policy, Set};
use super::rule::{DnatTo, Match, PriorityFrom, Reject, Rule, Selector, Side, Statement};
use super::transaction::{Operation, Transaction};
use crate::IpProtocol;
use crate::netlink::no_subsystem;

/// The oldest kernel that can do everything, as far as its history tells; tested are 6.12 and later.
pub const MINIMUM_KERNEL: &str = "5.13";

/// Something that this kernel cannot do, or not for us.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shortcoming {
    /// What is missing, and the way out.
    pub sentence: &'static str,
    /// What the kernel answered.
    pub cause: Error,
}

impl fmt::Display for Shortcoming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.sentence, self.cause)
    }
}

/// Tells what is missing in this thread's network namespace; empty if all is well.
pub fn probe(family: Family) -> Vec<Shortcoming> {
    let mut kernel = match Netlink::open() {
        Ok(kernel) => kernel,
        Err(cause) => return vec![Shortcoming { sentence: NO_NFTABLES, cause }],
    };
    let mut table = Transaction::new(family, "portway-probe");
    table.push(Operation::AddTable(None));
    if let Err(cause) = kernel.check(&table) {
        let sentence = if cause == Error::NotPermitted { NO_PRIVILEGE } else { NO_NFTABLES };
        return vec![Shortcoming { sentence, cause }];
    }
    let mut found = Vec::new();
    for (sentence, operations) in questions() {
        let mut question = table.clone();
        question.extend(operations);
        if let Err(cause) = kernel.check(&question) {
            found.push(Shortcoming { sentence, cause });
        }
    }
    found
}

const NO_PRIVILEGE: &str =
    "the kernel does not let this process change nf_tables: run as root or give it CAP_NET_ADMIN";
const NO_NFTABLES: &str = no_subsystem!("nf_tables", "nf_tables");
const NO_NAT: &str =
    "this kernel cannot translate addresses with nf_tables: load nft_chain_nat, nft_nat and nft_masq";
const NO_FIB: &str = "this kernel cannot ask whether an address is local: load nft_fib_ipv4 and nft_fib_ipv6";
const NO_RANGES: &str = "this kernel has no sets of concatenated ranges: Linux 5.6 or later is needed";
const NO_DYNAMIC: &str = "this kernel cannot remember clients in a map: Linux 5.4 or later is needed";
const NO_NUMGEN: &str = "this kernel cannot draw numbers: load nft_numgen";
const NO_REJECT: &str = "this kernel cannot reject packets before routing: Linux 5.9 or later is needed";

fn questions() -> [(&'static str, Vec<Operation>); 6] {
    [
        (NO_NAT, nat()),
        (NO_FIB, rule([Statement::Match(Match::Local(Side::Destination))])),
        (NO_RANGES, ranges()),
        (NO_DYNAMIC, dynamic()),
        (NO_NUMGEN, numgen()),
        (
            NO_REJECT,
            rule([Statement::Match(Match::Protocol(IpProtocol::TCP)), Statement::Reject(Reject::TcpReset)]),
        ),
    ]
}

fn base(name: &str, point: HookPoint, priority: i32) -> Operation {
    let hook = Hook { kind: ChainKind::Nat, point, priority, policy: Policy::Accept };
    Operation::AddChain(Chain::base(name, hook))
}

fn rule(statements: impl IntoIterator<Item = Statement>) -> Vec<Operation> {
    vec![base("in", HookPoint::Prerouting, -100), Operation::AddRule(Rule::new("in", statements))]
}

fn nat() -> Vec<Operation> {
    let address_map = Set::map("map", &[Field::Protocol, Field::Port], &[Field::Destination, Field::Port]);
    let key = vec![Selector::Protocol, Selector::Port];
    let dnat = Statement::Dnat(DnatTo::Map { key, map: "map".into() });
    let mut operations = vec![Operation::AddSet(address_map)];
    operations.extend(rule([dnat]));
    operations.push(base("out", HookPoint::Postrouting, 100));
    operations.push(Operation::AddRule(Rule::new("out", [Statement::Masquerade])));
    operations
}

fn ranges() -> Vec<Operation> {
    let flags = Flags { interval: true, ..Flags::default() };
    vec![Operation::AddSet(Set {
        flags,
        ..Set::new("ranges", &[Field::Destination, Field::Port, Field::Source])
    })]
}

fn dynamic() -> Vec<Operation> {
    let flags = Flags { dynamic: true, timeout: true, ..Flags::default() };
    let key = vec![Selector::Source, Selector::Priority];
    let map = Set {
        flags,
        size: Some(16),
        ..Set::map("clients", &[Field::Source, Field::Priority], &[Field::Priority])
    };
    let (name, data) = (map.name.clone(), Selector::Priority);
    let update =
        Statement::Update { map: name.clone(), key: key.clone(), data, timeout: Duration::from_secs(1) };
    let delete = Statement::Delete { map: name.clone(), key: key.clone(), data };
    let mut operations = vec![Operation::AddSet(map)];
    operations.extend(rule([update, delete, Statement::SetPriority(PriorityFrom::Map { key, map: name })]));
    operations
}

fn numgen() -> Vec<Operation> {
    let slots = Set::new("slots", &[Field::Slot]);
    let key = vec![Selector::Slot { modulus: 2, offset: 0 }];
    let mut operations = vec![Operation::AddSet(slots)];
    operations.extend(rule([Statement::Match(Match::InSet { key, set: "slots".into(), not: false })]));
    operations
}
