//! What is read and written: all of the table where another program may have written, else no more than what changed; of a family that
//! is not served nothing; and a table that somebody put to sleep is woken.

use kernel_sim::sysctl;

use super::*;

/// The mode as it has written this, on a kernel that counts how often it is listed.
fn counting(small: &Small) -> (Nftables<Faulty<Simulated>>, usize) {
    let mut mode = Nftables::new(Faulty::new(Simulated::default()), Options::default());
    everything(&mut mode, &small.table);
    // Table, new chains, services and base chains of IPv4; table and base chains of IPv6.
    assert_eq!(mode.kernel().writes(), 6);
    let read = mode.kernel().listings();
    (mode, read)
}

#[test]
fn a_kernel_that_nobody_else_wrote_to_is_not_read_again() {
    let mut small = web();
    let (mut mode, read) = counting(&small);
    let again = everything(&mut mode, &small.table);
    assert_eq!((again.operations, again.was_full, mode.kernel().listings()), (0, true, read));
    // What changed in the table is found all the same, and what waited is still deleted.
    small.endpoints("web", &["10.244.1.1"]);
    let changed = everything(&mut mode, &small.table);
    assert!(changed.operations > 0 && changed.settle_after.is_some(), "{changed:?}");
    mode.settle().unwrap();
    assert_eq!(mode.kernel().listings(), read);
    assert_no_differences(&mut mode, &small);
}

#[test]
fn what_somebody_else_wrote_is_found_by_the_next_full_pass() {
    let small = web();
    let (mut mode, read) = counting(&small);
    write(mode.kernel(), Family::V4, TABLE, [Operation::FlushSet("endpoints".into())]);
    // A change in part cannot know. The full pass that follows must.
    mode.sync(&small.table, Scope::Changed(&BTreeSet::new())).unwrap();
    let repaired = everything(&mut mode, &small.table);
    assert!(repaired.operations > 0 && mode.kernel().listings() > read, "{repaired:?}");
    assert_no_differences(&mut mode, &small);
}

#[test]
fn a_change_that_finds_the_table_gone_writes_all_of_it() {
    let mut small = web_and(&[("sticky", "10.96.0.11")]);
    for (endpoint, operation) in
        [("10.244.1.7", Operation::DeleteTable), ("10.244.1.8", Operation::FlushSet("endpoints".into()))]
    {
        let mut mode = written(&mut small);
        write(mode.kernel(), Family::V4, TABLE, [operation]);
        small.endpoints("web", &["10.244.1.1", endpoint]);
        let synced = small.follow(&mut mode);
        assert!(synced.was_full && synced.refused.is_empty(), "{synced:?}");
        mode.settle().unwrap();
        assert_eq!(everything(&mut mode, &small.table).operations, 0);
    }
}

#[test]
fn a_sync_of_one_port_writes_its_own_elements_alone() {
    let mut small = web();
    small.say("svc sticky 10.96.0.11 80 affinity=ClientIP\nep sticky 8080 10.244.1.1@a 10.244.1.2@a");
    for number in 0..500u16 {
        let [high, low] = number.to_be_bytes();
        small.service(&format!("s{number}"), &format!("10.97.{high}.{low}"), "None");
    }
    let mut mode = written(&mut small);
    small.endpoints("web", &["10.244.1.1", "10.244.1.9"]);
    let ids = small.take_changed();
    assert_eq!(ids.len(), 1);
    let synced = mode.sync(&small.table, Scope::Changed(&ids)).unwrap();
    // One slot deleted and added, one hairpin and one source of replies more.
    assert_eq!((synced.operations, synced.was_full), (4, false));
    // Nothing at all: no verdict map is written, which would be validated as a whole.
    assert_eq!(mode.sync(&small.table, Scope::Changed(&ids)).unwrap().operations, 0);
}

#[test]
fn a_family_that_is_not_served_is_neither_written_nor_compared_nor_removed() {
    let small = Small::of(
        "svc web 10.96.0.10 80
         ep web 8080 10.244.1.1@a
         svc web6 fd00::10 80
         ep web6 8080 fd00:1::1@a",
    );
    let beside = |kernel, families: &[model::Family]| {
        Nftables::beside(kernel, families, Options::default(), sysctl::Simulated::default())
    };
    let mut only_v4 = beside(Simulated::default(), &[model::Family::V4]);
    assert!(only_v4.differences(&small.table).unwrap().iter().all(|line| !line.contains("ip6")));
    everything(&mut only_v4, &small.table);
    assert!(only_v4.kernel().list(Family::V4, TABLE).unwrap().is_some());
    assert_eq!(only_v4.kernel().tables(Family::V6), Ok(Vec::new()));
    assert_no_differences(&mut only_v4, &small);

    let mut both = beside(only_v4.kernel().clone(), &model::Family::ALL);
    everything(&mut both, &small.table);
    let mut only_v4 = beside(both.kernel().clone(), &[model::Family::V4]);
    only_v4.cleanup().unwrap();
    assert_eq!(only_v4.kernel().tables(Family::V4), Ok(Vec::new()));
    assert_eq!(only_v4.kernel().tables(Family::V6).unwrap().len(), 1);
}

mod needs_root {
    use std::process::Command;

    use super::*;

    #[test]
    fn root_a_table_that_was_put_to_sleep_is_woken() {
        let Some(namespace) = Namespace::create_or_skip() else { return };
        namespace.run(put_to_sleep_and_sync).unwrap();
    }

    fn put_to_sleep_and_sync() {
        let (small, nft) = (web(), |command: &str| Command::new("nft").arg(command).output());
        let mut mode = Nftables::new(Netlink::open().unwrap(), Options::default());
        everything(&mut mode, &small.table);
        let Ok(asleep) = nft("add table ip kube-proxy { flags dormant; }") else {
            return eprintln!("skipped: there is no nft to put the table to sleep");
        };
        assert!(asleep.status.success());
        assert!(!mode.differences(&small.table).unwrap().is_empty(), "it is a difference");
        let synced = everything(&mut mode, &small.table);
        assert!(synced.operations > 0, "{synced:?}");
        let table = nft("list table ip kube-proxy").unwrap();
        let text = String::from_utf8_lossy(&table.stdout);
        assert!(table.status.success() && !text.contains("dormant"), "{text}");
        assert_no_differences(&mut mode, &small);
    }
}
