//! A change of a Service that the kernel refuses: the Service stays as it was, in every mode, and the others follow.

#![allow(clippy::unwrap_used, reason = "it is a test, helpers included")]

mod cluster;

use std::collections::BTreeSet;
use std::net::IpAddr;

use cluster::Small;
use dataplane::sim::{End, Ends, SimulatedMode};
use dataplane::{ModeSettings, Scope, registry};
use model::fate::Payload;
use model::{Packet, Protocol};
use serde_json::json;

const REFUSED: &str = "198.51.100.7";

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn service(small: &mut Small, name: &str, cluster_ip: &str, external: &[&str]) {
    let spec = json!({"clusterIPs": [cluster_ip], "ports": [{"port": 80}], "type": "ClusterIP", "externalIPs": external});
    let metadata = json!({"name": name, "namespace": "default"});
    small.apply(&json!({"kind": "Service", "metadata": metadata, "spec": spec}));
}

/// Nowhere where the packet is led to nobody who listens.
fn ends(node: &mut dyn SimulatedMode, small: &Small, to: &str) -> Ends {
    let payload = Payload::Transport { protocol: Protocol::Tcp, port: 80 };
    let packet =
        Packet { source: ip("10.244.0.99"), destination: ip(to), payload, interface: Some("veth1".into()) };
    node.ends(&packet, &[&small.table]).unwrap_or_default()
}

fn lands_at(ends: &Ends, endpoint: &str) -> bool {
    let is_there = |end: &End| matches!(end, End::At { endpoint: (at, _), .. } if *at == ip(endpoint));
    ends.0.keys().all(is_there) && !ends.0.is_empty()
}

#[test]
fn a_service_whose_change_is_refused_stays_as_it_was_and_others_follow() {
    let mut asked = BTreeSet::new();
    for mode in registry::MODES {
        for mut node in mode.simulate(&ModeSettings::of(*mode)) {
            let mut small = Small::new();
            for (name, address, endpoint) in
                [("web", "10.96.0.1", "10.244.0.1"), ("other", "10.96.0.2", "10.244.0.2")]
            {
                service(&mut small, name, address, &[]);
                small.endpoints(name, &[endpoint]);
            }
            node.dataplane().sync(&small.table, Scope::Everything).unwrap();
            if !node.refuse(Some(ip(REFUSED))) {
                continue;
            }
            asked.insert(node.name());
            small.take_changed();
            service(&mut small, "web", "10.96.0.1", &[REFUSED]);
            small.endpoints("other", &["10.244.0.3"]);
            for is_full in [false, true] {
                let changed = small.take_changed();
                let scope = if is_full { Scope::Everything } else { Scope::Changed(&changed) };
                let synced = node.dataplane().sync(&small.table, scope).unwrap();
                let refused: Vec<String> = synced.refused.keys().map(ToString::to_string).collect();
                assert_eq!(refused, ["default/web/tcp"], "{}: {synced:?}", node.name());
                let name = node.name();
                let web = ends(&mut *node, &small, "10.96.0.1");
                assert!(lands_at(&web, "10.244.0.1"), "{name}, full: {is_full}: it stays as it was: {web:?}");
                let other = ends(&mut *node, &small, "10.96.0.2");
                assert!(lands_at(&other, "10.244.0.3"), "{name}, full: {is_full}: it follows: {other:?}");
            }
            node.refuse(None);
            let synced = node.dataplane().sync(&small.table, Scope::Everything).unwrap();
            assert!(synced.refused.is_empty(), "{}: {synced:?}", node.name());
            let web = ends(&mut *node, &small, REFUSED);
            assert!(lands_at(&web, "10.244.0.1"), "{}: it is tried again: {web:?}", node.name());
        }
    }
    assert!(asked.len() >= 5, "{asked:?}");
}

#[test]
fn after_a_restart_a_service_that_is_refused_at_once_is_still_served_by_what_the_process_before_left() {
    let mut asked = BTreeSet::new();
    for mode in registry::MODES {
        let settings = ModeSettings::of(*mode);
        for mut first in mode.simulate(&settings) {
            let mut small = Small::new();
            service(&mut small, "web", "10.96.0.1", &[]);
            small.endpoints("web", &["10.244.0.1"]);
            first.dataplane().sync(&small.table, Scope::Everything).unwrap();
            let mut node = first.restart(&settings);
            // What carries connections itself has died with them.
            let is_served = lands_at(&ends(&mut *node, &small, "10.96.0.1"), "10.244.0.1");
            if !is_served || !node.refuse(Some(ip(REFUSED))) {
                continue;
            }
            asked.insert(node.name());
            service(&mut small, "web", "10.96.0.1", &[REFUSED]);
            let synced = node.dataplane().sync(&small.table, Scope::Everything).unwrap();
            assert_eq!(synced.refused.len(), 1, "{}: {synced:?}", node.name());
            let web = ends(&mut *node, &small, "10.96.0.1");
            assert!(lands_at(&web, "10.244.0.1"), "{}: {web:?}", node.name());
            node.refuse(None);
            node.dataplane().sync(&small.table, Scope::Everything).unwrap();
            assert!(lands_at(&ends(&mut *node, &small, REFUSED), "10.244.0.1"), "{}", node.name());
        }
    }
    // nftables, and iptables by each program.
    assert!(asked.len() >= 4, "{asked:?}");
}

#[test]
fn while_a_refused_service_keeps_rules_that_no_service_asks_for_they_are_named_with_it_and_the_reason() {
    let mut asked = BTreeSet::new();
    for mode in registry::MODES {
        let settings = ModeSettings::of(*mode);
        for mut first in mode.simulate(&settings) {
            let mut small = Small::new();
            for (name, address) in [("web", "10.96.0.1"), ("gone", "10.96.0.2")] {
                service(&mut small, name, address, &[]);
                small.endpoints(name, &["10.244.0.1"]);
            }
            first.dataplane().sync(&small.table, Scope::Everything).unwrap();
            small.remove("gone");
            service(&mut small, "web", "10.96.0.1", &[REFUSED]);
            let mut node = first.restart(&settings);
            if !node.refuse(Some(ip(REFUSED))) {
                continue;
            }
            let early = node.copy().dataplane().sync(&small.table, Scope::AllThatIsKnown).unwrap();
            assert!(early.stays.is_empty(), "{}: it stays until all is known anyway: {early:?}", node.name());
            let synced = node.dataplane().sync(&small.table, Scope::Everything).unwrap();
            let reason = synced.refused.values().next().unwrap();
            if synced.kept.is_empty() {
                assert!(synced.stays.is_empty(), "{}: {synced:?}", node.name());
                continue;
            }
            asked.insert(node.name());
            let [told] = &synced.stays[..] else { panic!("{}: {synced:?}", node.name()) };
            for part in ["(10.96.0.2:80/tcp)", "the kernel refuses default/web/tcp,", reason] {
                assert!(told.contains(part), "{}: {told}", node.name());
            }
            node.refuse(None);
            let taken = node.dataplane().sync(&small.table, Scope::Everything).unwrap();
            let next = node.dataplane().sync(&small.table, Scope::Everything).unwrap();
            assert!(taken.stays.is_empty() && next.stays.is_empty(), "{}: {taken:?}", node.name());
            assert_eq!(
                (next.kept, next.left_behind),
                (BTreeSet::new(), synced.kept),
                "{}: it goes",
                node.name()
            );
        }
    }
    // iptables and userspace, by each program. nftables knows which rules the refused one had.
    assert!(asked.len() >= 4, "{asked:?}");
}
