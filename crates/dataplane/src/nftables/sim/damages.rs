//! What other programs may do to the table: to its rules, chains, sets, elements, and to all of it.

use kernel::nft::{
    Chain, ChainKind, Element, Family, Field, Hook, HookPoint, Kernel as _, Operation, Policy, Rule, Set,
    Statement, Transaction, Value, Verdict,
};

use super::{Node, TABLE};
use crate::sim::{Named, SimulatedMode};

/// The address of which an element goes, where a Service has it.
const SERVED: [u8; 4] = [10, 96, 0, 10];
const UNSERVED: [u8; 4] = [10, 96, 0, 99];

pub(super) fn damaged(node: &Node) -> Named<'_> {
    Box::new(damages().into_iter().map(|(name, operations)| {
        let mut node = node.clone();
        let mut transaction = Transaction::new(Family::V4, TABLE);
        transaction.extend(operations);
        let done = node.kernel().run(&transaction);
        (format!("{name} {done:?}"), Box::new(node) as Box<dyn SimulatedMode>)
    }))
}

fn damages() -> Vec<(&'static str, Vec<Operation>)> {
    use Operation::{
        AddChain, AddElements, AddRule, AddSet, AddTable, DeleteChain, DeleteElements, DeleteTable,
        FlushChain, FlushSet,
    };
    let rule = |chain: &str| AddRule(Rule::new(chain, [Statement::Verdict(Verdict::Drop)]));
    let elements = |ip: [u8; 4]| vec![Element::new(&[Value::Ipv4(ip.into())])];
    let addresses = || "cluster-addresses".into();
    vec![
        ("a rule more", vec![rule("route")]),
        ("no rules", vec![FlushChain("route".into())]),
        ("a chain more", vec![AddChain(Chain::new("theirs")), rule("theirs")]),
        ("another policy", vec![AddChain(base(Policy::Drop, -100))]),
        ("another hook", vec![DeleteChain("nat-prerouting".into()), AddChain(base(Policy::Accept, -50))]),
        ("a set more", vec![AddSet(Set::new("theirs", &[Field::Port]))]),
        ("an element more", vec![AddElements(addresses(), elements(UNSERVED))]),
        ("an element less", vec![DeleteElements(addresses(), elements(SERVED))]),
        ("no frontends", vec![FlushSet("frontends".into())]),
        ("no sticky numbers", vec![FlushSet("sticky-frontends".into())]),
        ("no endpoints", vec![FlushSet("endpoints".into())]),
        ("no table", vec![DeleteTable]),
        ("another table", vec![DeleteTable, AddTable(Some("portway layout 0".into()))]),
    ]
}

fn base(policy: Policy, priority: i32) -> Chain {
    let hook = Hook { kind: ChainKind::Nat, point: HookPoint::Prerouting, priority, policy };
    Chain::base("nat-prerouting", hook)
}
