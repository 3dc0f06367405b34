//! What is written is what changed, and no line more: texts of single changes, counted by chain.
use std::collections::BTreeMap;

use super::*;

const SERVICES: usize = 50;

/// Fifty Services with two endpoints each, written; the doors have forgotten what they were told.
fn written(variant: Variant) -> (Small, Iptables<Simulated>) {
    let mut small = Small::new();
    for n in 1..=SERVICES {
        small.say(&format!("svc s{n} 10.96.0.{n} 80\nep s{n} 8080 10.244.1.{n}@a 10.244.2.{n}@a"));
    }
    let mut mode = mode(variant, Options::default());
    everything(&mut mode, &small.table);
    small.take_changed();
    mode.doors().for_each(|door| door.restored.clear());
    (small, mode)
}

/// The texts that a sync of what changed gave the doors, and what it put off.
fn texts(small: &mut Small, mode: &mut Iptables<Simulated>) -> String {
    assert!(!small.follow(mode).was_full);
    mode.settle().unwrap();
    mode.doors().flat_map(|door| std::mem::take(&mut door.restored)).collect()
}

/// How many lines there are of each kind: `-A KUBE-SVC`, `: KUBE-SEP`, `*nat`.
fn count(text: &str) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for line in text.lines() {
        let mut words = line.split(' ');
        let first = words.next().unwrap();
        let (verb, chain) = match first.strip_prefix(':') {
            Some(chain) => (":", Some(chain)),
            None => (first, words.next()),
        };
        let kind = chain.map(|chain| match chain.get(..8) {
            Some("KUBE-SVC" | "KUBE-SEP" | "KUBE-EXT") => &chain[..8],
            _ => chain,
        });
        let key = kind.map_or(verb.to_owned(), |kind| format!("{verb} {kind}"));
        *counts.entry(key).or_default() += 1;
    }
    counts
}

/// `expected` says how many lines there are of each kind: `2 -A KUBE-SVC, 1 *nat`.
fn assert_counts(text: &str, expected: &str) {
    let found = count(text).into_iter().map(|(kind, count)| format!("{count} {kind}"));
    assert_eq!(found.collect::<BTreeSet<_>>(), expected.split(", ").map(str::to_owned).collect(), "{text}");
    eprintln!("counted: {} lines for one change among {SERVICES} Services", text.lines().count());
}

#[test]
fn a_replaced_endpoint_writes_its_own_chains() {
    let (mut small, mut mode) = written(Variant::Nft);
    small.endpoints("s7", &["10.244.1.7", "10.244.3.7"]);
    // An endpoint's chain is new, and another one goes.
    let expected =
        "1 *nat, 1 : KUBE-SVC, 2 : KUBE-SEP, 2 -A KUBE-SVC, 2 -A KUBE-SEP, 1 -X KUBE-SEP, 1 COMMIT";
    assert_counts(&texts(&mut small, &mut mode), expected);
}

#[test]
fn a_new_service_is_one_line_in_the_chain_that_all_share() {
    let (mut small, mut mode) = written(Variant::Nft);
    small.say("svc new 10.96.1.1 80\nep new 8080 10.244.9.1@a");
    let expected =
        "1 *nat, 1 : KUBE-SVC, 1 : KUBE-SEP, 1 -A KUBE-SVC, 2 -A KUBE-SEP, 1 -I KUBE-SERVICES, 1 COMMIT";
    assert_counts(&texts(&mut small, &mut mode), expected);
}

#[test]
fn a_service_that_loses_its_endpoints_is_refused_before_it_is_gone() {
    for variant in Variant::ALL {
        let (mut small, mut mode) = written(variant);
        small.endpoints("s7", &[]);
        let text = texts(&mut small, &mut mode);
        assert_eq!(tables(&text), ["*filter", "*nat"], "{text}");
        assert_eq!(count(&text)["-D KUBE-SERVICES"], 1);
        small.endpoints("s7", &["10.244.1.7"]);
        let text = texts(&mut small, &mut mode);
        assert_eq!(tables(&text), ["*nat", "*filter"], "let in again before it is no longer refused: {text}");
    }
}

/// The tables in their order; several parts of one, after each other, are one.
fn tables(text: &str) -> Vec<&str> {
    let mut tables: Vec<&str> = text.lines().filter(|line| line.starts_with('*')).collect();
    tables.dedup();
    tables
}

/// 5,000 Services that came at once were one text, which iptables-nft took a minute for.
#[test]
fn many_services_that_come_change_and_go_at_once_are_written_in_pieces() {
    const MANY: usize = 300;
    let options = Options { lines_at_once: 200, ..Options::default() };
    let mut mode = Iptables::new([Simulated::new(Variant::Nft, Family::V4)], options);
    let mut small = Small::new();
    everything(&mut mode, &small.table);
    let address = |net: u8, n: usize| format!("10.{net}.{}.{}", n / 200, n % 200 + 1);
    let all = |small: &mut Small, each: &dyn Fn(&mut Small, usize)| (0..MANY).for_each(|n| each(small, n));
    let mut follow = |small: &mut Small, what: &str| {
        mode.doors().for_each(|door| door.restored.clear());
        let text = texts(small, &mut mode);
        assert_eq!(everything(&mut mode, &small.table).operations, 0, "{what}");
        let pieces: Vec<String> = text.split_inclusive("COMMIT\n").map(str::to_owned).collect();
        for piece in pieces.iter().filter(|piece| !piece.contains("KUBE-SERVICES")) {
            // What must be at once is a line or so for each.
            assert!(piece.lines().count() < MANY + 10, "{what}: {} lines\n{piece}", piece.lines().count());
        }
        assert!(!text.contains("-D KUBE-SERVICES"), "{what}: one by one would take as long");
        (pieces.len(), text)
    };
    all(&mut small, &|small, n| {
        small.service(&format!("s{n}"), &address(96, n), "None");
        small.endpoints(&format!("s{n}"), &[&address(244, n), &address(245, n)]);
    });
    let (pieces, text) = follow(&mut small, "they come");
    assert!(pieces > 5, "{pieces} pieces");
    let (led, chain) = (text.find("-I KUBE-SERVICES").unwrap(), text.rfind("-A KUBE-SEP").unwrap());
    assert!(chain < led, "what leads to them comes last");
    all(&mut small, &|small, n| small.endpoints(&format!("s{n}"), &[&address(246, n)]));
    assert!(follow(&mut small, "endpoints change").0 > 5);
    all(&mut small, &|small, n| small.endpoints(&format!("s{n}"), &[]));
    follow(&mut small, "endpoints go");
    all(&mut small, &|small, n| small.endpoints(&format!("s{n}"), &[&address(247, n)]));
    follow(&mut small, "endpoints come back");
    all(&mut small, &|small, n| {
        if n % 2 == 0 {
            small.remove(&format!("s{n}"));
        }
    });
    assert!(follow(&mut small, "half of them go").0 > 3);
}

#[test]
fn no_change_writes_nothing() {
    let (mut small, mut mode) = written(Variant::Nft);
    small.endpoints("s7", &["10.244.1.7", "10.244.2.7"]);
    assert_eq!(texts(&mut small, &mut mode), "");
    everything(&mut mode, &small.table);
    assert!(mode.doors().all(|door| door.restored.is_empty()));
}

#[test]
fn the_same_state_is_the_same_text() {
    for seed in 0..10 {
        let texts = || {
            let (mut world, mut mode) = (World::new(seed), mode(Variant::Legacy, Options::default()));
            everything(&mut mode, &world.table);
            for _ in 0..20 {
                let ids = world.step().before.into_keys().collect();
                mode.sync(&world.table, Scope::Changed(&ids)).unwrap();
            }
            mode.doors().flat_map(|door| door.restored.clone()).collect::<Vec<_>>()
        };
        let first = texts();
        assert!(first.len() > 2 && first == texts(), "seed {seed}");
    }
}
