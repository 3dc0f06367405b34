//! A fresh process meets a kernel: of an earlier life, of another layout, of another program, of a crash in between.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "it is a test, helpers included")]

mod cluster;

use cluster::Small;
use dataplane::nftables::Options;
use dataplane::nftables::sim::{Nftables, comparable, lines};
use dataplane::registry::serving_signs;
use dataplane::served::is_served;
use dataplane::sim::difference;
use dataplane::{Dataplane, Scope};
use kernel::nft::{Chain, Element, Family, Field, Kernel, Listed, Operation, Set, Transaction, Value};
use kernel::xtables::{self, Legacy, Table};
use kernel_sim::nft::Simulated;
use model::Frontend;

fn web_and(others: &[(&str, &str)]) -> Small {
    let mut small = Small::new();
    small.service("web", "10.96.0.10", "None");
    small.endpoints("web", &["10.244.1.1", "10.244.1.2"]);
    for (name, ip) in others {
        small.service(name, ip, "ClientIP");
        small.endpoints(name, &["10.244.1.3", "10.244.1.4", "10.244.1.5"]);
    }
    small
}

fn fresh(kernel: &Simulated) -> Nftables<Simulated> {
    Nftables::new(kernel.clone(), Options::default())
}

/// A kernel that holds this, written by a process that is gone.
fn held(small: &Small) -> Simulated {
    let mut before = fresh(&Simulated::default());
    before.sync(&small.table, Scope::Everything).unwrap();
    before.settle().unwrap();
    before.kernel().clone()
}

fn listed(dataplane: &mut Nftables<Simulated>) -> Option<Listed> {
    dataplane.kernel().list(Family::V4, "kube-proxy").unwrap().map(comparable)
}

fn tables(dataplane: &mut Nftables<Simulated>) -> Vec<String> {
    let tables = dataplane.kernel().tables(Family::V4).unwrap();
    tables.iter().map(|table| table.name.to_string()).collect()
}

#[test]
fn rules_of_an_earlier_life_are_seen_and_so_is_a_kernel_without_any() {
    assert!(!is_served(serving_signs(), &mut Simulated::default(), &[]).unwrap());
    assert!(is_served(serving_signs(), &mut held(&web_and(&[])), &[]).unwrap());
    let legacy = |table, chain: &str| Legacy {
        family: xtables::Family::V6,
        chains: Some(vec![(table, chain.to_owned())]),
    };
    let seen = |legacy| is_served(serving_signs(), &mut Simulated::default(), &[legacy]).unwrap();
    for (is_so, table, chain) in [
        (true, Table::Nat, "KUBE-SERVICES"),
        (true, Table::Nat, "PORTWAY-SERVICES"),
        (false, Table::Nat, "KUBE-PORTALS-CONTAINER"),
        (false, Table::Filter, "KUBE-SERVICES"),
        (false, Table::Nat, "DOCKER"),
    ] {
        assert_eq!(seen(legacy(table, chain)), is_so, "{table} {chain}");
    }
    assert!(seen(xtables::Family::V4.into()), "where nothing is known of a table, there may be");
}

#[test]
fn leftovers_stay_until_all_is_known_and_then_go() {
    let all = web_and(&[("one", "10.96.0.21"), ("two", "10.96.0.22")]);
    let kernel = held(&all);
    // Of the file that cannot be read, `one` is missing; `three` is new and sticky, and may not get the number of `one`.
    let known = web_and(&[("two", "10.96.0.22"), ("three", "10.96.0.23")]);
    let mut dataplane = fresh(&kernel);
    let before = listed(&mut dataplane).unwrap();
    let synced = dataplane.sync(&known.table, Scope::AllThatIsKnown).unwrap();
    assert!(synced.left_behind.is_empty() && synced.operations > 0, "{synced:?}");
    let kept = synced.kept;
    dataplane.settle().unwrap();
    let now = listed(&mut dataplane).unwrap();
    for (name, set) in &before.sets {
        for element in &set.elements {
            assert!(now.sets[name].elements.contains(element), "{name} lost {element:?}");
        }
    }
    assert!(before.chains.keys().all(|chain| now.chains.contains_key(chain)));

    let again = dataplane.sync(&known.table, Scope::AllThatIsKnown).unwrap();
    assert_eq!(again.operations, 0);

    let synced = dataplane.sync(&known.table, Scope::Everything).unwrap();
    dataplane.settle().unwrap();
    let is_one = |frontend: &Frontend| matches!(frontend, Frontend::Address { ip, .. } if ip.to_string() == "10.96.0.21");
    assert!(synced.left_behind.len() == 1 && synced.left_behind.iter().all(is_one), "{synced:?}");
    assert_eq!(kept, synced.left_behind, "what stayed was told as kept");
    assert!(synced.kept.is_empty(), "{synced:?}");
    let mut cold = fresh(&Simulated::default());
    cold.sync(&known.table, Scope::Everything).unwrap();
    let (found, wanted) = (listed(&mut dataplane), listed(&mut cold));
    assert!(found == wanted, "{}", difference(&lines(&found.unwrap()), &lines(&wanted.unwrap())));
}

#[test]
fn what_is_not_known_yet_is_no_reason_to_touch_the_table_of_another() {
    let mut dataplane = fresh(&strangers());
    let before = listed(&mut dataplane);
    let synced = dataplane.sync(&web_and(&[]).table, Scope::AllThatIsKnown).unwrap();
    assert!(synced.waits[0].contains("rules for kube-proxy") && synced.replaced.is_empty(), "{synced:?}");
    assert_eq!(listed(&mut dataplane), before);
    let synced = dataplane.sync(&web_and(&[]).table, Scope::Everything).unwrap();
    assert!(synced.waits.is_empty() && synced.replaced[0].contains("rules for kube-proxy"), "{synced:?}");
    assert_eq!(tables(&mut dataplane), ["kube-proxy"]);
}

/// A table as upstream has it, in few words.
fn strangers() -> Simulated {
    let mut kernel = Simulated::default();
    let mut transaction = Transaction::new(Family::V4, "kube-proxy");
    transaction.push(Operation::AddTable(Some("rules for kube-proxy".into())));
    transaction.push(Operation::AddSet(Set::new("cluster-ips", &[Field::Destination])));
    transaction.push(Operation::AddChain(Chain::new("services")));
    transaction
        .add_elements(&"cluster-ips".into(), vec![Element::new(&[Value::Ipv4([10, 96, 0, 10].into())])]);
    kernel.run(&transaction).unwrap();
    kernel
}

/// Layouts before and after this one, and a table that carries no mark at all.
#[test]
fn another_layout_is_replaced_with_ours_beside_it() {
    let small = web_and(&[("one", "10.96.0.21")]);
    let mut wanted = fresh(&Simulated::default());
    wanted.sync(&small.table, Scope::Everything).unwrap();
    let wanted = listed(&mut wanted);
    for comment in [Some("portway layout 0"), Some("portway layout 2"), None] {
        let mut kernel = Simulated::default();
        let mut transaction = Transaction::new(Family::V4, "kube-proxy");
        transaction.push(Operation::AddTable(comment.map(Into::into)));
        kernel.run(&transaction).unwrap();
        let mut dataplane = fresh(&kernel);
        let before = dataplane.kernel().generation().unwrap();
        dataplane.sync(&small.table, Scope::Everything).unwrap();
        let found = listed(&mut dataplane);
        assert!(
            found == wanted,
            "{comment:?}: {}",
            difference(&lines(&found.unwrap()), &lines(&wanted.unwrap()))
        );
        assert_eq!(tables(&mut dataplane), ["kube-proxy"]);
        // Beside, in its place, and the two steps of its going; the other family begins with an empty table.
        assert!(dataplane.kernel().generation().unwrap() - before <= 6);
    }
}

#[test]
fn a_table_beside_ours_that_a_crash_left_goes_with_the_first_sync_and_by_cleanup() {
    let small = web_and(&[]);
    let mut kernel = held(&small);
    let mut beside = Transaction::new(Family::V4, "kube-proxy-beside");
    beside.push(Operation::AddTable(Some("portway layout 1".into())));
    kernel.run(&beside).unwrap();

    let mut cleaned = fresh(&kernel);
    cleaned.cleanup().unwrap();
    assert_eq!(tables(&mut cleaned), [""; 0]);

    let mut dataplane = fresh(&kernel);
    assert_eq!(tables(&mut dataplane), ["kube-proxy", "kube-proxy-beside"]);
    dataplane.sync(&small.table, Scope::Everything).unwrap();
    assert_eq!(tables(&mut dataplane), ["kube-proxy"]);
}

#[test]
fn cleanup_leaves_what_does_not_carry_our_mark() {
    let mut dataplane = fresh(&strangers());
    dataplane.cleanup().unwrap();
    assert_eq!(tables(&mut dataplane), ["kube-proxy"]);
}

/// The kernel as a version without the set `reply-sources` left it.
fn of_a_version_without_reply_sources(small: &Small) -> Simulated {
    let mut kernel = held(small);
    for family in Family::ALL {
        let mut older = Transaction::new(family, "kube-proxy");
        older.push(Operation::DeleteChain("stray-replies".into()));
        older.push(Operation::DeleteSet("reply-sources".into()));
        kernel.run(&older).unwrap();
    }
    kernel
}

#[test]
fn an_upgrade_adds_the_set_that_a_previous_version_did_not_have_and_keeps_the_table() {
    let small = web_and(&[("one", "10.96.0.21")]);
    let mut dataplane = fresh(&of_a_version_without_reply_sources(&small));
    assert!(!dataplane.differences(&small.table).unwrap().is_empty());
    let synced = dataplane.sync(&small.table, Scope::Everything).unwrap();
    assert!(synced.replaced.is_empty(), "{synced:?}");
    // Two sets, two chains with a rule each, and five endpoints.
    assert_eq!(synced.operations, 2 + 4 + 5, "{synced:?}");
    let mut cold = fresh(&Simulated::default());
    cold.sync(&small.table, Scope::Everything).unwrap();
    let (found, wanted) = (listed(&mut dataplane), listed(&mut cold));
    assert!(found == wanted, "{}", difference(&lines(&found.unwrap()), &lines(&wanted.unwrap())));
    assert!(dataplane.differences(&small.table).unwrap().is_empty());
}

#[test]
fn stray_replies_pass_where_the_tracker_is_strict_and_the_setting_is_read_at_each_full_sync() {
    let small = web_and(&[]);
    let loose = |value| kernel_sim::sysctl::Simulated::new([("net/netfilter/nf_conntrack_tcp_loose", value)]);
    let mut dataplane =
        Nftables::beside(Simulated::default(), &model::Family::ALL, Options::default(), loose("0"));
    let has_rule = |dataplane: &mut Nftables<Simulated>| {
        dataplane.settle().unwrap();
        let listed = dataplane.kernel().list(Family::V4, "kube-proxy").unwrap().unwrap();
        listed.rules.get("stray-replies").is_some_and(|rules| rules.len() == 1)
    };
    for value in ["0", "1", "0"] {
        *dataplane.settings() = loose(value);
        dataplane.sync(&small.table, Scope::Everything).unwrap();
        assert_eq!(has_rule(&mut dataplane), value == "1", "nf_conntrack_tcp_loose={value}");
        assert!(dataplane.differences(&small.table).unwrap().is_empty());
    }
}

#[test]
fn an_endpoint_of_two_services_stays_a_source_of_replies_until_both_are_gone() {
    let mut small = web_and(&[]);
    small.service("twice", "10.96.0.30", "None");
    small.endpoints("twice", &["10.244.1.1"]);
    let mut dataplane = fresh(&Simulated::default());
    let sources = |dataplane: &mut Nftables<Simulated>, small: &Small| {
        dataplane.sync(&small.table, Scope::Everything).unwrap();
        dataplane.settle().unwrap();
        listed(dataplane).unwrap().sets["reply-sources"].elements.len()
    };
    assert_eq!(sources(&mut dataplane, &small), 2);
    small.endpoints("web", &["10.244.1.2"]);
    assert_eq!(sources(&mut dataplane, &small), 2, "`twice` still has it");
    small.endpoints("twice", &["10.244.1.2"]);
    assert_eq!(sources(&mut dataplane, &small), 1);
}
