//! When the host is checked, and how often a finding is told.

use agent::{Event, Line};
use dataplane::checks::{Finding, Severity};

use crate::sim::*;

fn finding(cause: &str, traffic: &str) -> Finding {
    Finding {
        severity: Severity::Error,
        check: "ip-forward",
        cause: cause.to_owned(),
        traffic: traffic.to_owned(),
        fix: "sysctl -w net.ipv4.ip_forward=1".to_owned(),
    }
}

/// What is told of the host, as `+` and `-` with the cause.
fn told(lines: &[Line]) -> Vec<String> {
    let told = |line: &Line| match line {
        Line::Found(found) => Some(format!("+ {}", found.cause)),
        Line::FindingOver(found) => Some(format!("- {}", found.cause)),
        _ => None,
    };
    lines.iter().filter_map(told).collect()
}

#[test]
fn the_host_is_checked_after_the_first_sync_and_then_every_minute() {
    let mut sim = sim();
    sim.files(vec![service("web"), endpoints("web", 1, 2)]);
    assert_eq!(sim.examined, [ms(1)], "as soon as the first sync went well");
    sim.pass(ms(200_000));
    assert_eq!(sim.examined.len(), 1, "one at a time");
    sim.feed(Event::Examined(Vec::new()));
    sim.feed(Event::Examined(Vec::new()));
    let begun = sim.examined.len();
    sim.pass(ms(59_000));
    assert_eq!(sim.examined.len(), begun, "nothing changed");
    sim.pass(ms(2_000));
    assert_eq!(sim.examined.len(), begun + 1);
}

#[test]
fn a_storm_of_changes_checks_the_host_every_ten_seconds_at_most() {
    let mut sim = sim();
    sim.files(vec![service("web"), endpoints("web", 1, 2)]);
    sim.feed(Event::Examined(Vec::new()));
    for n in 0..100_u8 {
        sim.files(vec![endpoints("web", 1, 1 + n % 50)]);
        sim.pass(ms(200));
        if sim.examined.len() > 1 {
            sim.feed(Event::Examined(Vec::new()));
        }
    }
    let gaps: Vec<_> = sim.examined.windows(2).map(|pair| pair[1].checked_sub(pair[0]).unwrap()).collect();
    assert!((2..=3).contains(&sim.examined.len()), "{:?}", sim.examined);
    assert!(gaps.iter().all(|gap| *gap >= ms(10_000)), "{gaps:?}");
}

#[test]
fn a_host_that_loses_packets_is_told_once_and_once_when_that_is_over() {
    let mut sim = sim();
    sim.files(vec![service("web"), endpoints("web", 1, 2)]);
    sim.feed(Event::Examined(vec![finding("it is 0", "pod 1")]));
    assert_eq!(told(&sim.lines), ["+ it is 0"]);
    sim.feed(Event::Examined(vec![finding("it is 0", "pod 2")]));
    assert_eq!(told(&sim.lines), ["+ it is 0"], "another example is no other finding");
    let status = sim.status();
    assert_eq!((status.findings.len(), &*status.findings[0].traffic), (1, "pod 2"));
    assert_eq!(sim.state.gauges().findings.get("ip-forward"), Some(&Severity::Error));
    sim.feed(Event::Examined(Vec::new()));
    assert_eq!(told(&sim.lines), ["+ it is 0", "- it is 0"]);
    assert!(sim.status().findings.is_empty() && sim.state.gauges().findings.is_empty());
}

#[test]
fn addresses_that_change_have_the_host_checked() {
    let mut sim = sim();
    sim.files(vec![service("web"), endpoints("web", 1, 2)]);
    sim.feed(Event::Examined(Vec::new()));
    sim.pass(ms(15_000));
    sim.feed(Event::AddressesChanged(host("192.0.2.2")));
    sim.pass(ms(100));
    assert_eq!(sim.examined.len(), 2, "{:?}", sim.examined);
}
