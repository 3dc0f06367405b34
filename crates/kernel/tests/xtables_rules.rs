//! Typed rules, their text, and what the iptables programs make of it: what is written comes back as the same rules, and the
//! twin saves the very text that the programs save.
//!
//! The real programs run in a network namespace of their own.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "it is a test, helpers included")]

mod xtables_common;

use kernel::xtables::{Family, FoundRule, FoundTable, Table, Variant, Xtables};
use kernel_sim::xtables::Simulated;
use xtables_common::{Random, random_rule};

const CASES: usize = 20_000;

#[test]
fn what_is_printed_is_parsed_as_the_same_rule() {
    let mut random = Random::new(1);
    for case in 0..CASES {
        let family = Family::ALL[case % 2];
        let table = [Table::Nat, Table::Filter, Table::Mangle][case % 3];
        let rule = random_rule(&mut random, family, table);
        let parsed = FoundRule::parse(&rule.to_string());
        assert_eq!(parsed, FoundRule::Known(rule.clone()), "{rule}");
        let parsed = FoundRule::parse(&rule.canonical().to_string());
        assert_eq!(parsed, FoundRule::Known(rule.clone()), "{rule}");
    }
    eprintln!("counted: {CASES} random rules, seed 1");
}

#[test]
fn rules_that_print_differently_once_sorted_are_not_equal() {
    let mut random = Random::new(2);
    let rules: Vec<_> = (0..300).map(|_| random_rule(&mut random, Family::V4, Table::Nat)).collect();
    for one in &rules {
        for other in &rules {
            let alike = one.canonical().to_string() == other.canonical().to_string();
            assert_eq!(one == other, alike, "`{one}` and `{other}`");
        }
    }
}

#[test]
fn broken_text_is_kept_and_never_panics() {
    let mut random = Random::new(3);
    for _ in 0..CASES {
        let rule = random_rule(&mut random, Family::V4, Table::Nat).to_string();
        let mut words: Vec<&str> = rule.split(' ').collect();
        for _ in 0..=random.below(2) {
            let (at, other) = (random.below(words.len()), random.below(words.len()));
            match random.below(3) {
                0 => words.swap(at, other),
                1 if words.len() > 1 => drop(words.remove(at)),
                _ => words.insert(at, ["!", "-m", "--weird", "\"", "0x", "\u{e9}"][random.below(6)]),
            }
        }
        let text = words.join(" ");
        match FoundRule::parse(&text) {
            FoundRule::Unknown(kept) => assert_eq!(kept, text),
            FoundRule::Known(rule) => {
                assert_eq!(FoundRule::parse(&rule.to_string()), FoundRule::Known(rule), "{text}");
            }
        }
    }
    eprintln!("counted: {CASES} broken rules, seed 3");
}

/// Texts, and whether they go; one after the other into the same tables.
const STEPS: &[(&str, bool)] = &[
    ("*nat\n:A - [0:0]\n:B - [0:0]\n-A A -j B\n-A A -j ACCEPT\n-A PREROUTING -j A\nCOMMIT\n", true),
    // Places and numbers.
    ("*nat\n-I A -m comment --comment first\n-I A 3 -m comment --comment third\nCOMMIT\n", true),
    ("*nat\n-I A 6 -m comment --comment far\nCOMMIT\n", false),
    ("*nat\n-D A 9\nCOMMIT\n", false),
    ("*nat\n-D A 1\n-D A -j ACCEPT\nCOMMIT\n", true),
    ("*nat\n-D A -j ACCEPT\nCOMMIT\n", false),
    // Chains.
    ("*nat\n-N B\nCOMMIT\n", false),
    ("*nat\n-N C\n-A C -j B\nCOMMIT\n", true),
    ("*nat\n-X B\nCOMMIT\n", false),
    ("*nat\n-X C\nCOMMIT\n", false),
    ("*nat\n-F C\n-X C\nCOMMIT\n", true),
    ("*nat\n-X C\nCOMMIT\n", false),
    ("*nat\n-F NOWHERE\nCOMMIT\n", false),
    ("*nat\n-A A -j NOWHERE\nCOMMIT\n", false),
    ("*nat\n-A A -j LATER\n:LATER - [0:0]\nCOMMIT\n", false),
    ("*nat\n-A A -j OUTPUT\nCOMMIT\n", false),
    ("*nat\n:THIS-NAME-IS-LONGER-THAN-28-B - [0:0]\nCOMMIT\n", false),
    // Declared twice is emptied once more.
    ("*nat\n:B - [0:0]\n-A B -j RETURN\n:B - [0:0]\nCOMMIT\n", true),
    // What leads to itself.
    ("*nat\n-A B -j A\nCOMMIT\n", false),
    ("*nat\n:L - [0:0]\n-A L -j L\nCOMMIT\n", true),
    ("*nat\n-A A -j L\nCOMMIT\n", false),
    ("*nat\n:L - [0:0]\n-X L\nCOMMIT\n", true),
    // Targets in the wrong place.
    ("*filter\n:F - [0:0]\n-A F -j MASQUERADE\nCOMMIT\n", false),
    ("*nat\n-A B -j REJECT\nCOMMIT\n", false),
    ("*nat\n-A B -j DROP\nCOMMIT\n", false),
    ("*nat\n-A B -j MASQUERADE\nCOMMIT\n", false),
    ("*nat\n:M - [0:0]\n-A M -j MASQUERADE\n-A POSTROUTING -j M\nCOMMIT\n", true),
    ("*nat\n-A INPUT -j M\nCOMMIT\n", false),
    // All at once.
    ("*nat\n-X\nCOMMIT\n", false),
    ("*nat\n-F\nCOMMIT\n", true),
    ("*nat\n-X\nCOMMIT\n", true),
    // Policies; the last line is missing.
    ("*filter\n:FORWARD DROP [0:0]\n:INPUT - [0:0]\nCOMMIT\n", true),
    ("*filter\n-P FORWARD ACCEPT\nCOMMIT\n", true),
    ("*filter\n:F - [0:0]\n", false),
    ("*mangle\n:M - [0:0]\n[3:4] -A M -j MARK --set-mark 0x1/0x3\nCOMMIT\n", true),
];

mod needs_root {
    use super::*;
    use xtables_common::{for_each_door, saved_lines};

    const RULES: usize = 150;

    /// Random rules in chains of their own, restored as we print them.
    fn text(family: Family, table: Table) -> String {
        let mut random = Random::new(4);
        let chains = ["KUBE-TARGET", "KUBE-A", "KUBE-B"].map(|chain| format!(":{chain} - [0:0]\n")).concat();
        let rule = |at: usize| {
            let rule = random_rule(&mut random, family, table);
            format!("-A {} {rule}", ["KUBE-A", "KUBE-B"][at % 2])
        };
        let rules: Vec<String> = (0..RULES).map(rule).collect();
        format!("*{table}\n{chains}{}\nCOMMIT\n", rules.join("\n"))
    }

    /// What is written stands in the kernel as the same typed rules, and the twin says it in the same words.
    fn every_rule_comes_back(variant: Variant) {
        for_each_door(variant, |real, family| {
            let mut twin = Simulated::new(variant, family);
            for table in [Table::Nat, Table::Filter, Table::Mangle] {
                let text = text(family, table);
                real.restore(&text).unwrap_or_else(|error| panic!("{variant} {family}: {error}\n{text}"));
                twin.restore(&text).unwrap();
                let saved = real.save(table).unwrap().unwrap();
                let (written, found) = (FoundTable::parse(&text), FoundTable::parse(&saved));
                for chain in &written.chains {
                    let there = found.chain(&chain.name).unwrap();
                    assert_eq!(chain.rules.len(), there.rules.len(), "{variant} {family} {table}");
                    for (one, other) in chain.rules.iter().zip(&there.rules) {
                        assert!(other.known().is_some(), "{variant} {family} {table}: {other}");
                        assert_eq!(one, other, "{variant} {family} {table}: `{one}` and `{other}`");
                    }
                }
                let twins = twin.save(table).unwrap().unwrap();
                assert_eq!(saved_lines(&saved), saved_lines(&twins), "{variant} {family} {table}");
            }
            eprintln!("counted: {} random rules of {variant} {family}, seed 4", 3 * RULES);
        });
    }

    fn refusals_are_alike(variant: Variant) {
        for_each_door(variant, |real, family| {
            let mut twin = Simulated::new(variant, family);
            for (text, goes) in STEPS {
                let (one, other) = (real.restore(text), twin.restore(text));
                assert_eq!(one.is_ok(), *goes, "{variant} {family}: {text}{one:?}");
                assert_eq!(other.is_ok(), *goes, "the twin of {variant} {family}: {text}{other:?}");
                for table in [Table::Nat, Table::Filter, Table::Mangle] {
                    let lines = |door: &mut dyn Xtables| {
                        let saved = door.save(table).unwrap().unwrap_or_default();
                        // A table that was only tried is there without rules, or is not there.
                        let says_something = |line: &String| !line.starts_with(['*', 'C', '#']);
                        let is_plain = |line: &String| line.starts_with(':') && line.contains(" ACCEPT ");
                        let lines = saved_lines(&saved).into_iter();
                        lines.filter(|line| says_something(line) && !is_plain(line)).collect::<Vec<_>>()
                    };
                    assert_eq!(lines(real), lines(&mut twin), "{variant} {family} {table}: after {text}");
                }
            }
        });
    }

    #[test]
    fn root_every_rule_comes_back_from_iptables_nft() {
        every_rule_comes_back(Variant::Nft);
    }

    #[test]
    fn root_every_rule_comes_back_from_iptables_legacy() {
        every_rule_comes_back(Variant::Legacy);
    }

    #[test]
    fn root_iptables_nft_and_the_twin_refuse_the_same() {
        refusals_are_alike(Variant::Nft);
    }

    #[test]
    fn root_iptables_legacy_and_the_twin_refuse_the_same() {
        refusals_are_alike(Variant::Legacy);
    }

    /// A family whose rules the other program or an unknown module wrote is read without loss.
    #[test]
    fn root_rules_of_others_are_kept_as_text() {
        let rules = [
            "-p tcp -m multiport --dports 80,81 -j ACCEPT",
            "-p tcp -m tcp --sport 80 -j REJECT --reject-with tcp-reset",
            "-m limit --limit 5/min -j LOG --log-prefix \"a b\" --log-level 7",
        ];
        for variant in Variant::ALL {
            for_each_door(variant, |real, family| {
                let lines: String = rules.map(|rule| format!("-A INPUT {rule}\n")).concat();
                real.restore(&format!("*filter\n{lines}COMMIT\n")).unwrap();
                let found = FoundTable::parse(&real.save(Table::Filter).unwrap().unwrap());
                let found: Vec<_> = found.chain("INPUT").unwrap().rules.clone();
                let expected = rules.map(|rule| FoundRule::Unknown(rule.to_owned()));
                assert_eq!(found, expected, "{variant} {family}");
            });
        }
    }
}
