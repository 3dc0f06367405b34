//! The same steps on the real iptables programs and on their simulated twin end alike: same tables, same refusals.
//!
//! The real ones run in a network namespace of their own.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "it is a test, helpers included")]

use kernel::xtables::{Family, Legacy, Programs, Saved, Table, Variant, Xtables};
use kernel_sim::xtables::Simulated;

/// Each is one restore, whether it goes, and on which table.
const STEPS: &[(&str, bool)] = &[
    (
        "*nat\n:KUBE-A - [0:0]\n:KUBE-B - [0:0]\n-A KUBE-A -p tcp -j KUBE-B\n-I PREROUTING -j KUBE-A\nCOMMIT\n",
        true,
    ),
    // What is not named stays; a chain that is named again is emptied.
    (
        "*nat\n:OTHER - [0:0]\n-A PREROUTING -m comment --comment \"mine, not \\\"yours\\\"\" -j OTHER\nCOMMIT\n",
        true,
    ),
    ("*nat\n:KUBE-B - [0:0]\n-A KUBE-B -j ACCEPT\nCOMMIT\n", true),
    // Somebody leads to it, and nothing else of the text counts.
    ("*nat\n:KUBE-B - [0:0]\n-X KUBE-B\nCOMMIT\n", false),
    ("*nat\n-F OTHER\n-D PREROUTING -j KUBE-NONE\nCOMMIT\n", false),
    ("*nat\n:PREROUTING - [0:0]\n-A NOWHERE -j ACCEPT\nCOMMIT\n", false),
    // The jump, the contents, the chains: in this order it goes.
    ("*nat\n:KUBE-A - [0:0]\n:KUBE-B - [0:0]\n-D PREROUTING -j KUBE-A\n-X KUBE-A\n-X KUBE-B\nCOMMIT\n", true),
    ("*filter\n:FORWARD DROP [0:0]\n:KUBE-F - [0:0]\n-A FORWARD -j KUBE-F\nCOMMIT\n", true),
    ("*filter\n:KUBE-F - [0:0]\n-D FORWARD -j KUBE-F\n-X KUBE-F\nCOMMIT\n", true),
];

fn contents(door: &mut impl Xtables) -> Vec<Saved> {
    let tables = [Table::Nat, Table::Filter];
    let saved =
        tables.map(|table| door.save(table).unwrap().map(|text| Saved::parse(&text)).unwrap_or_default());
    let sorted = |mut saved: Saved| {
        // The programs sort chains in their own way, and print one that is only there by itself.
        saved.chains.retain(|chain| chain.policy.as_deref() != Some("ACCEPT") || !chain.rules.is_empty());
        saved.chains.sort_by(|a, b| a.name.cmp(&b.name));
        saved
    };
    saved.map(sorted).into()
}

/// The real programs of one kind, one family after the other.
fn against_the_twin(variant: Variant) {
    let doors: Vec<_> =
        Programs::find().programs.into_iter().filter(|door| door.variant() == variant).collect();
    if doors.is_empty() {
        eprintln!("skipped: {variant} is not installed");
    }
    for mut real in doors {
        let mut twin = Simulated::new(variant, real.family());
        assert_eq!(contents(&mut real), contents(&mut twin), "{variant} {}: nothing is there", real.family());
        for (text, goes) in STEPS {
            let results = [real.restore(text), twin.restore(text)];
            for result in &results {
                assert_eq!(result.is_ok(), *goes, "{variant} {}: {text}{result:?}", real.family());
            }
            assert_eq!(contents(&mut real), contents(&mut twin), "{variant} {}: {text}", real.family());
        }
    }
}

mod needs_root {
    use playground::namespace::Namespace;

    use super::*;

    fn inside(test: &str, work: impl FnOnce() + Send) {
        match Namespace::create() {
            Ok(namespace) => namespace.run(work).unwrap(),
            Err(error) => eprintln!("skipped: {test} needs root to make a namespace: {error}"),
        }
    }

    #[test]
    fn root_iptables_nft_and_its_twin_end_alike() {
        inside("root_iptables_nft", || against_the_twin(Variant::Nft));
    }

    #[test]
    fn root_iptables_legacy_and_its_twin_end_alike() {
        inside("root_iptables_legacy", || against_the_twin(Variant::Legacy));
    }

    /// A table that was only looked at would have its hooks in the kernel from then on.
    #[test]
    fn root_looking_makes_no_table() {
        inside("root_looking", || {
            for mut door in Programs::find().programs {
                for table in [Table::Nat, Table::Filter, Table::Mangle] {
                    door.save(table).unwrap();
                }
            }
            for family in Family::ALL {
                assert_eq!(kernel::xtables::legacy_tables(family), Ok(Vec::new()));
            }
            let mut nft = kernel::nft::Netlink::open().unwrap();
            for family in [kernel::nft::Family::V4, kernel::nft::Family::V6] {
                assert_eq!(kernel::nft::Kernel::tables(&mut nft, family), Ok(Vec::new()));
            }
        });
    }

    /// Also without the right to open raw sockets, which the programs need.
    #[test]
    fn root_chains_in_legacy_tables_are_seen_without_a_program() {
        inside("root_chains_in_legacy_tables", || {
            assert_eq!(Programs::find_in(&[]).legacy, [], "nobody has used them");
            let doors = Programs::find().programs.into_iter();
            let mut made = Vec::new();
            for mut door in doors.filter(|door| door.variant() == Variant::Legacy) {
                door.restore("*nat\n:KUBE-A - [0:0]\n:B - [0:0]\n-A PREROUTING -p tcp -m tcp --dport 80 -j KUBE-A\n-A KUBE-A -j B\nCOMMIT\n")
                    .unwrap();
                door.restore("*mangle\n:KUBE-C - [0:0]\nCOMMIT\n").unwrap();
                made.push(door.family());
            }
            if made.is_empty() {
                return eprintln!("skipped: iptables-legacy is not installed");
            }
            let chains = [(Table::Nat, "B"), (Table::Nat, "KUBE-A"), (Table::Mangle, "KUBE-C")];
            let chains: Vec<_> = chains.map(|(table, name)| (table, name.to_owned())).into();
            let expected: Vec<_> =
                made.iter().map(|family| Legacy { family: *family, chains: Some(chains.clone()) }).collect();
            assert_eq!(Programs::find_in(&[]).legacy, expected);
        });
    }

    #[test]
    fn root_chains_in_a_legacy_table_filter_alone_are_seen_and_removed_without_a_program() {
        inside("root_legacy_filter_alone", || {
            let doors = Programs::find().programs.into_iter();
            for mut door in doors.filter(|door| door.variant() == Variant::Legacy) {
                door.restore("*filter\n:KUBE-A - [0:0]\n-A FORWARD -j KUBE-A\nCOMMIT\n").unwrap();
                let mut found = Programs::find_in(&[]).waiting_for_lock();
                let family = door.family();
                let seen = found.legacy.iter().find(|legacy| legacy.family == family);
                let expected = vec![(Table::Filter, "KUBE-A".to_owned())];
                assert_eq!(seen.and_then(|legacy| legacy.chains.as_ref()), Some(&expected));
                let tables = found.legacy_tables.iter_mut().find(|tables| tables.family() == family).unwrap();
                tables
                    .restore("*filter\n:KUBE-A - [0:0]\n-D FORWARD -j KUBE-A\n-X KUBE-A\nCOMMIT\n")
                    .unwrap();
                assert!(!door.save(Table::Filter).unwrap().unwrap().contains("KUBE-"));
            }
        });
    }
}
