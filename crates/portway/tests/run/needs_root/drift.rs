//! Somebody else writes to our tables: it is noticed by notification and put right, at the latest after five seconds.

use super::{WEB, place};
use crate::common::Place;

/// Comparing at the pace of an hour finds nothing: what is repaired was heard.
const HOURLY: &str = "--sync-period 1h";

/// What somebody may do to our table.
const DAMAGES: [(&str, &str); 10] = [
    ("the table is deleted", "delete table ip kube-proxy"),
    ("the other table is deleted", "delete table ip6 kube-proxy"),
    ("everything is flushed", "flush ruleset"),
    ("a chain is deleted", "delete chain ip kube-proxy nat-output"),
    ("a chain is emptied", "flush chain ip kube-proxy nat-prerouting"),
    ("a chain is added", "add chain ip kube-proxy theirs"),
    ("a rule is added", "add rule ip kube-proxy nat-prerouting counter"),
    ("an element is deleted", "delete element ip kube-proxy cluster-addresses { 10.96.0.80 }"),
    ("an element is added", "add element ip kube-proxy cluster-addresses { 10.96.0.99 }"),
    ("a set is added", "add set ip kube-proxy theirs { type ipv4_addr; }"),
];

/// The words of both tables, in order: elements of a map come in any.
fn rules(place: &Place) -> Vec<String> {
    let table = |family| place.try_nft(&format!("-n list table {family} kube-proxy")).unwrap_or_default();
    let text = ["ip", "ip6"].map(table).concat();
    let mut words: Vec<String> = text.split([' ', ',', '\n', '\t']).map(str::to_owned).collect();
    words.retain(|word| !word.is_empty());
    words.sort();
    words
}

#[test]
fn root_what_others_do_to_our_tables_is_noticed_and_repaired() {
    for (what, damage) in DAMAGES {
        let Some(place) = place() else { return };
        let running = place.start_with(HOURLY);
        running.wait_for("portway is in sync");
        let good = rules(&place);
        place.nft(damage);
        place.until(&format!("{what} and put right"), || rules(&place) == good);
        running.wait_for_log("somebody else changed our tables");
        place.until("it is counted", || {
            let status = place.portway("status -o json").ends_with(0).json();
            status["drift"]["repairs"].as_u64().unwrap() >= 1
                && status["drift"]["last"]["by"].as_str().is_some_and(|by| by.starts_with("nft (process "))
        });
        place.portway("diff").fine();
        place.portway("status").ends_with(0).says(&["Drift:", "repairs", "nft (process "]);
    }
}

#[test]
fn root_own_writes_are_no_drift() {
    let Some(place) = place() else { return };
    let running = place.start_with(HOURLY);
    running.wait_for("portway is in sync");
    for last in 10..40 {
        let ip = format!("10.244.0.{last}");
        place.write("web.yaml", &WEB.replace("10.244.0.2", &ip));
        place.until("it is written", || place.nft("list table ip kube-proxy").contains(&ip));
    }
    // Somebody else's table is none of ours either.
    place.nft("add table ip others");
    let status = place.portway("status -o json").ends_with(0).json();
    assert_eq!(
        (&status["drift"]["heard"], &status["drift"]["repairs"]),
        (&0.into(), &0.into()),
        "{status:#}"
    );
}

#[test]
fn root_a_rival_is_named_once_and_there_is_no_war() {
    let Some(place) = place() else { return };
    let running = place.start_with(HOURLY);
    running.wait_for("portway is in sync");
    let has_frontend =
        || place.try_nft("list map ip kube-proxy frontends").is_some_and(|map| map.contains("10.96.0.80"));
    for _ in 0..4 {
        place.until("the frontend is there", has_frontend);
        place.nft("flush map ip kube-proxy frontends");
    }
    let line = running.wait_for_log("changes our tables again and again");
    assert!(line.contains("nft"), "{line}");
    for _ in 0..5 {
        place.nft("flush map ip kube-proxy frontends");
    }
    let status = place.portway("status -o json").ends_with(1).json();
    assert_eq!(status["drift"]["repairs"], 3, "the fourth waits: {status:#}");
    assert_eq!(status["drift"]["fighting"][0], "nft");
    assert_eq!(running.logged("changes our tables again and again"), 1);
    // Work goes on: what is new is written, and what was broken comes back with it.
    place.write("web.yaml", &WEB.replace("10.244.0.2", "10.244.0.77"));
    place
        .until("the new endpoint is there", || place.nft("list table ip kube-proxy").contains("10.244.0.77"));
}
