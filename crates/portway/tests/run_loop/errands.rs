//! What is done beside the rules after a sync: flows that lead nowhere, and what upstream left.

use std::collections::BTreeSet;

use model::flows::StaleFlows;
use portway::objects::{Change, Kind};
use portway::run::{Done, Errand, Line};
use serde_json::json;

use crate::sim::{Sim, apply, endpoints, ms, service, sim};

fn dns() -> Change {
    apply(
        Kind::Service,
        json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": { "name": "dns", "namespace": "default" },
            "spec": { "clusterIP": "10.96.0.53", "ports": [{ "port": 53, "protocol": "UDP" }] },
        }),
    )
}

fn dns_endpoints(ips: &[&str]) -> Change {
    let endpoints: Vec<_> = ips.iter().map(|ip| json!({ "addresses": [ip] })).collect();
    apply(
        Kind::EndpointSlice,
        json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": {
                "name": "dns-1", "namespace": "default", "labels": { "kubernetes.io/service-name": "dns" },
            },
            "ports": [{ "port": 53, "protocol": "UDP" }], "endpoints": endpoints,
        }),
    )
}

impl<D: dataplane::Dataplane> Sim<D> {
    /// The flows that were to be forgotten, each time.
    fn forgotten(&self) -> Vec<&BTreeSet<StaleFlows>> {
        let errands = self.errands.iter();
        errands
            .filter_map(|(_, errand)| if let Errand::Forget(stale) = errand { Some(stale) } else { None })
            .collect()
    }
}

#[test]
fn flows_to_an_endpoint_that_is_gone_are_forgotten_after_the_sync() {
    let mut sim = sim();
    sim.files(vec![dns(), dns_endpoints(&["10.244.0.1", "10.244.0.2"])]);
    sim.pass(ms(1_000));
    // The first sync looks at all that there is: nobody knows what happened before it.
    assert_eq!(sim.forgotten().len(), 1);
    sim.files(vec![dns_endpoints(&["10.244.0.2", "10.244.0.3"])]);
    sim.pass(ms(1_000));
    let last = sim.forgotten().pop().unwrap().first().unwrap().clone();
    assert_eq!(last.destination, ("10.96.0.53".parse().unwrap(), 53));
    let served: Vec<String> = last.still_served_by.iter().map(|(ip, port)| format!("{ip}:{port}")).collect();
    assert_eq!(served, ["10.244.0.2:53", "10.244.0.3:53"]);
    // One that only came takes nobody's flows.
    sim.files(vec![dns_endpoints(&["10.244.0.2", "10.244.0.3", "10.244.0.4"])]);
    sim.pass(ms(1_000));
    assert_eq!(sim.forgotten().len(), 2);
}

#[test]
fn tcp_needs_nothing_to_be_forgotten() {
    let mut sim = sim();
    sim.files(vec![service("web"), endpoints("web", 1, 2)]);
    sim.pass(ms(1_000));
    sim.files(vec![endpoints("web", 5, 1)]);
    sim.pass(ms(1_000));
    assert!(sim.forgotten().is_empty());
}

#[test]
fn an_errand_that_fails_is_said_once_and_tried_again_more_and_more_seldom() {
    let mut sim = sim();
    sim.errand_result = Err("no permission".to_owned());
    sim.files(vec![dns(), dns_endpoints(&["10.244.0.1"])]);
    sim.pass(ms(60_000));
    let tries = sim.forgotten().len();
    assert!((8..=16).contains(&tries), "{tries} tries in a minute");
    let failed = sim.lines.iter().filter(|line| matches!(line, Line::ErrandFailed { .. })).count();
    assert_eq!(failed, 2, "one line for each kind of errand");
    assert!(sim.status().is_in_sync, "the rules do not wait");
    assert!(sim.status().beside.failing.values().all(|reason| reason == "no permission"));
    sim.errand_result = Ok(Done { flows: 3, ..Done::default() });
    sim.pass(ms(31_000));
    let status = sim.status();
    assert!(status.beside.failing.is_empty() && status.beside.flows_forgotten >= 3, "{:?}", status.beside);
    let tries = sim.errands.len();
    sim.pass(ms(120_000));
    assert_eq!(sim.errands.len(), tries);
}

#[test]
fn what_changes_while_an_errand_fails_is_judged_by_what_is_true_then() {
    let mut sim = sim();
    sim.errand_result = Err("busy".to_owned());
    sim.files(vec![dns(), dns_endpoints(&["10.244.0.1"])]);
    sim.pass(ms(500));
    sim.files(vec![dns_endpoints(&["10.244.0.9"])]);
    sim.pass(ms(500));
    sim.errand_result = Ok(Done::default());
    sim.pass(ms(31_000));
    let last = sim.forgotten().pop().unwrap().first().unwrap().clone();
    assert_eq!(last.still_served_by, [("10.244.0.9".parse().unwrap(), 53)].into());
}

#[test]
fn upstreams_rules_go_once_after_ours_are_in_place() {
    let mut sim = sim();
    sim.errand_result = Ok(Done { removed: vec!["41 chains".to_owned()], ..Done::default() });
    sim.files(vec![service("web"), endpoints("web", 1, 2)]);
    sim.pass(ms(100_000));
    let taken = sim.errands.iter().filter(|(_, errand)| *errand == Errand::TakeOver).count();
    assert_eq!(taken, 1);
    assert!(sim.errands[0].0 >= sim.syncs[0].0);
    assert!(sim.lines.contains(&Line::TookOver("41 chains".to_owned())));
    assert_eq!(sim.status().beside.took_over, ["41 chains"]);
}

#[test]
fn what_waits_for_connections_is_looked_at_again_and_told_once() {
    let mut sim = sim();
    let waiting = Done { stays: vec!["two wait".to_owned()], come_back: Some(ms(30_000)), ..Done::default() };
    sim.errand_result = Ok(waiting);
    sim.files(vec![service("web"), endpoints("web", 1, 2)]);
    sim.pass(ms(95_000));
    let looks = |sim: &Sim<_>| sim.errands.iter().filter(|(_, errand)| *errand == Errand::TakeOver).count();
    assert_eq!(looks(&sim), 4);
    assert_eq!(sim.lines.iter().filter(|line| matches!(line, Line::Stays(_))).count(), 1);
    assert_eq!(sim.status().beside.stays, ["two wait"]);
    assert!(sim.status().beside.failing.is_empty(), "nothing is wrong");
    sim.errand_result = Ok(Done::default());
    sim.pass(ms(100_000));
    assert_eq!(looks(&sim), 5);
    assert!(sim.status().beside.stays.is_empty());
}
