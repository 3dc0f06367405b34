//! A fresh process meets a kernel: of an earlier life, of another layout, of another program, of a crash in between.
use dataplane::registry::serving_signs;
use dataplane::served::is_served;
use kernel::nft::{Chain, Field, Set, Value};
use kernel::xtables::{self, Legacy, Table};
use model::Frontend;

use super::*;

/// A kernel that holds this, written by a process that is gone.
fn held(mut small: Small) -> Simulated {
    let mut before = written(&mut small);
    before.settle().unwrap();
    before.kernel().clone()
}

#[test]
fn rules_of_an_earlier_life_are_seen_and_so_is_a_kernel_without_any() {
    assert!(!is_served(serving_signs(), &mut Simulated::default(), &[]).unwrap());
    assert!(is_served(serving_signs(), &mut held(web()), &[]).unwrap());
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
    let kernel = held(all);
    // Of the file that cannot be read, `one` is missing; `three` is new and sticky, and may not get the number of `one`.
    let known = web_and(&[("two", "10.96.0.22"), ("three", "10.96.0.23")]);
    let mut mode = fresh(&kernel);
    let before = listed(&mut mode);
    let synced = mode.sync(&known.table, Scope::AllThatIsKnown).unwrap();
    assert!(synced.left_behind.is_empty() && synced.operations > 0, "{synced:?}");
    let kept = synced.kept;
    mode.settle().unwrap();
    let now = listed(&mut mode);
    for (part, lines) in before {
        let now = now.get(&part).unwrap_or_else(|| panic!("{part} is lost"));
        let is_there = |line: &&String| !part.contains(" set ") || now.contains(line);
        assert_eq!(lines.iter().find(|line| !is_there(line)), None, "{part} lost it");
    }
    let again = mode.sync(&known.table, Scope::AllThatIsKnown).unwrap();
    assert_eq!(again.operations, 0);

    let synced = everything(&mut mode, &known.table);
    mode.settle().unwrap();
    let is_one = |frontend: &Frontend| matches!(frontend, Frontend::Address { ip, .. } if ip.to_string() == "10.96.0.21");
    assert!(synced.left_behind.len() == 1 && synced.left_behind.iter().all(is_one), "{synced:?}");
    assert_eq!(kept, synced.left_behind, "what stayed was told as kept");
    assert!(synced.kept.is_empty(), "{synced:?}");
    assert_as_from_scratch(&mut mode, &known.table);
}

#[test]
fn what_is_not_known_yet_is_no_reason_to_touch_the_table_of_another() {
    let mut mode = fresh(&strangers());
    let list = |mode: &mut Mode| mode.kernel().list(Family::V4, TABLE).unwrap();
    let before = list(&mut mode);
    let synced = mode.sync(&web().table, Scope::AllThatIsKnown).unwrap();
    assert!(synced.waits[0].contains("rules for kube-proxy") && synced.replaced.is_empty(), "{synced:?}");
    assert_eq!(list(&mut mode), before);
    let synced = everything(&mut mode, &web().table);
    assert!(synced.waits.is_empty() && synced.replaced[0].contains("rules for kube-proxy"), "{synced:?}");
    assert_eq!(tables(&mut mode), ["kube-proxy"]);
}

/// A table as upstream has it, in few words.
fn strangers() -> Simulated {
    let mut kernel = Simulated::default();
    let elements = vec![Element::new(&[Value::Ipv4([10, 96, 0, 10].into())])];
    let operations = [
        Operation::AddTable(Some("rules for kube-proxy".into())),
        Operation::AddSet(Set::new("cluster-ips", &[Field::Destination])),
        Operation::AddChain(Chain::new("services")),
        Operation::AddElements("cluster-ips".into(), elements),
    ];
    write(&mut kernel, Family::V4, TABLE, operations);
    kernel
}

/// Layouts before and after this one, and a table that carries no mark at all.
#[test]
fn another_layout_is_replaced_with_ours_beside_it() {
    let small = web_and(&[("one", "10.96.0.21")]);
    for comment in [Some("portway layout 0"), Some("portway layout 2"), None] {
        let mut kernel = Simulated::default();
        write(&mut kernel, Family::V4, TABLE, [Operation::AddTable(comment.map(Into::into))]);
        let mut mode = fresh(&kernel);
        let before = mode.kernel().generation().unwrap();
        everything(&mut mode, &small.table);
        assert_as_from_scratch(&mut mode, &small.table);
        assert_eq!(tables(&mut mode), ["kube-proxy"]);
        // Beside, in its place, and the two steps of its going; the other family begins with an empty table.
        assert!(mode.kernel().generation().unwrap() - before <= 6);
    }
}

#[test]
fn a_table_beside_ours_that_a_crash_left_goes_with_the_first_sync_and_by_cleanup() {
    let mut kernel = held(web());
    let ours = Operation::AddTable(Some("portway layout 1".into()));
    write(&mut kernel, Family::V4, "kube-proxy-beside", [ours]);

    let mut cleaned = fresh(&kernel);
    cleaned.cleanup().unwrap();
    assert_eq!(tables(&mut cleaned), [""; 0]);

    let mut mode = fresh(&kernel);
    assert_eq!(tables(&mut mode), ["kube-proxy", "kube-proxy-beside"]);
    everything(&mut mode, &web().table);
    assert_eq!(tables(&mut mode), ["kube-proxy"]);
}

#[test]
fn cleanup_leaves_what_does_not_carry_our_mark() {
    let mut mode = fresh(&strangers());
    mode.cleanup().unwrap();
    assert_eq!(tables(&mut mode), ["kube-proxy"]);
}

#[test]
fn an_upgrade_adds_the_set_that_a_previous_version_did_not_have_and_keeps_the_table() {
    let small = web_and(&[("one", "10.96.0.21")]);
    let mut kernel = held(web_and(&[("one", "10.96.0.21")]));
    let newer =
        || [Operation::DeleteChain("stray-replies".into()), Operation::DeleteSet("reply-sources".into())];
    for family in Family::ALL {
        write(&mut kernel, family, TABLE, newer());
    }
    let mut mode = fresh(&kernel);
    assert!(!mode.differences(&small.table).unwrap().is_empty());
    let synced = everything(&mut mode, &small.table);
    assert!(synced.replaced.is_empty(), "{synced:?}");
    // Two sets, two chains with a rule each, and five endpoints.
    assert_eq!(synced.operations, 2 + 4 + 5, "{synced:?}");
    assert_as_from_scratch(&mut mode, &small.table);
    assert_no_differences(&mut mode, &small);
}

#[test]
fn stray_replies_pass_where_the_tracker_is_strict_and_the_setting_is_read_at_each_full_sync() {
    let small = web();
    let loose = |value| kernel_sim::sysctl::Simulated::new([("net/netfilter/nf_conntrack_tcp_loose", value)]);
    let mut mode =
        Nftables::beside(Simulated::default(), &model::Family::ALL, Options::default(), loose("0"));
    let has_rule = |mode: &mut Mode| {
        mode.settle().unwrap();
        let listed = mode.kernel().list(Family::V4, "kube-proxy").unwrap().unwrap();
        listed.rules.get("stray-replies").is_some_and(|rules| rules.len() == 1)
    };
    for value in ["0", "1", "0"] {
        *mode.settings() = loose(value);
        everything(&mut mode, &small.table);
        assert_eq!(has_rule(&mut mode), value == "1", "nf_conntrack_tcp_loose={value}");
        assert_no_differences(&mut mode, &small);
    }
}

#[test]
fn an_endpoint_of_two_services_stays_a_source_of_replies_until_both_are_gone() {
    let mut small = web();
    small.say("svc twice 10.96.0.30 80\nep twice 8080 10.244.1.1@a");
    let mut mode = empty();
    let sources = |mode: &mut Mode, small: &Small| {
        everything(mode, &small.table);
        mode.settle().unwrap();
        elements(mode.kernel(), "reply-sources").len()
    };
    assert_eq!(sources(&mut mode, &small), 2);
    small.endpoints("web", &["10.244.1.2"]);
    assert_eq!(sources(&mut mode, &small), 2, "`twice` still has it");
    small.endpoints("twice", &["10.244.1.2"]);
    assert_eq!(sources(&mut mode, &small), 1);
}
