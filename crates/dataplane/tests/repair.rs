//! Somebody else changes our table: a full sync puts it right, and then has nothing more to write.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "it is a test, helpers included")]

mod cluster;

use cluster::Small;
use dataplane::nftables::Options;
use dataplane::nftables::sim::{Nftables, comparable, lines};
use dataplane::sim::difference;
use dataplane::{Dataplane, Scope};
use kernel::nft::{
    Chain, ChainKind, Element, Family, Field, Hook, HookPoint, Kernel, Operation, Policy, Rule, Set,
    Statement, Transaction, Value, Verdict,
};
use kernel_sim::nft::Simulated;

fn cluster() -> Small {
    let mut small = Small::new();
    small.service("web", "10.96.0.10", "None");
    small.service("sticky", "10.96.0.11", "ClientIP");
    for service in ["web", "sticky"] {
        small.endpoints(service, &["10.244.1.1", "10.244.1.2"]);
    }
    small
}

fn base(policy: Policy, priority: i32) -> Chain {
    let hook = Hook { kind: ChainKind::Nat, point: HookPoint::Prerouting, priority, policy };
    Chain::base("nat-prerouting", hook)
}

#[test]
fn what_others_did_to_our_table_is_put_right() {
    let element = |ip: [u8; 4]| Element::new(&[Value::Ipv4(ip.into())]);
    let rule = |chain: &str| Operation::AddRule(Rule::new(chain, [Statement::Verdict(Verdict::Drop)]));
    let changes: Vec<(&str, Vec<Operation>)> = vec![
        ("a rule more", vec![rule("route")]),
        ("no rules", vec![Operation::FlushChain("route".into())]),
        ("a chain more", vec![Operation::AddChain(Chain::new("theirs")), rule("theirs")]),
        ("another policy", vec![Operation::AddChain(base(Policy::Drop, -100))]),
        (
            "another hook",
            vec![
                Operation::DeleteChain("nat-prerouting".into()),
                Operation::AddChain(base(Policy::Accept, -50)),
            ],
        ),
        ("a set more", vec![Operation::AddSet(Set::new("theirs", &[Field::Port]))]),
        (
            "an element more",
            vec![Operation::AddElements("cluster-addresses".into(), vec![element([10, 96, 0, 99])])],
        ),
        (
            "an element less",
            vec![Operation::DeleteElements("cluster-addresses".into(), vec![element([10, 96, 0, 10])])],
        ),
        ("no frontends", vec![Operation::FlushSet("frontends".into())]),
        ("no sticky numbers", vec![Operation::FlushSet("sticky-frontends".into())]),
        ("no table", vec![Operation::DeleteTable]),
        ("another table", vec![Operation::DeleteTable, Operation::AddTable(Some("portway layout 0".into()))]),
    ];
    let small = cluster();
    for (name, operations) in changes {
        let mut dataplane = Nftables::new(Simulated::default(), Options::default());
        dataplane.sync(&small.table, Scope::Everything).unwrap();
        let good = dataplane.kernel().list(Family::V4, "kube-proxy").unwrap().map(comparable);
        let mut transaction = Transaction::new(Family::V4, "kube-proxy");
        transaction.extend(operations);
        dataplane.kernel().run(&transaction).unwrap();
        assert!(!dataplane.differences(&small.table).unwrap().is_empty(), "{name} is told by `differences`");
        dataplane.sync(&small.table, Scope::Everything).unwrap();
        dataplane.settle().unwrap();
        let repaired = dataplane.kernel().list(Family::V4, "kube-proxy").unwrap().map(comparable);
        assert!(
            repaired == good,
            "{name}: {}",
            difference(&lines(&repaired.unwrap()), &lines(&good.unwrap()))
        );
        let again = dataplane.sync(&small.table, Scope::Everything).unwrap();
        assert_eq!((again.operations, again.settle_after), (0, None), "{name}");
    }
}

#[test]
fn a_change_that_finds_the_table_gone_writes_all_of_it() {
    let mut small = cluster();
    let damages =
        [("10.244.1.7", Operation::DeleteTable), ("10.244.1.8", Operation::FlushSet("endpoints".into()))];
    for (endpoint, operation) in damages {
        let mut dataplane = Nftables::new(Simulated::default(), Options::default());
        dataplane.sync(&small.table, Scope::Everything).unwrap();
        let mut transaction = Transaction::new(Family::V4, "kube-proxy");
        transaction.push(operation);
        dataplane.kernel().run(&transaction).unwrap();
        small.take_changed();
        small.endpoints("web", &["10.244.1.1", endpoint]);
        let changed = small.take_changed();
        let synced = dataplane.sync(&small.table, Scope::Changed(&changed)).unwrap();
        assert!(synced.was_full && synced.refused.is_empty(), "{synced:?}");
        dataplane.settle().unwrap();
        let again = dataplane.sync(&small.table, Scope::Everything).unwrap();
        assert_eq!(again.operations, 0);
    }
}

#[test]
fn a_sync_of_one_port_writes_its_own_elements_alone() {
    let mut small = cluster();
    for number in 0..500u16 {
        let [high, low] = number.to_be_bytes();
        small.service(&format!("s{number}"), &format!("10.97.{high}.{low}"), "None");
    }
    let mut dataplane = Nftables::new(Simulated::default(), Options::default());
    dataplane.sync(&small.table, Scope::Everything).unwrap();
    small.take_changed();
    small.endpoints("web", &["10.244.1.1", "10.244.1.9"]);
    let changed = small.take_changed();
    assert_eq!(changed.len(), 1);
    let synced = dataplane.sync(&small.table, Scope::Changed(&changed)).unwrap();
    // One slot deleted and added, one hairpin and one source of replies more.
    assert_eq!((synced.operations, synced.was_full), (4, false));
    // Nothing at all: no verdict map is written, which would be validated as a whole.
    let synced = dataplane.sync(&small.table, Scope::Changed(&changed)).unwrap();
    assert_eq!(synced.operations, 0);
}
