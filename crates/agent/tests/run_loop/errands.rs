//! What is done beside the rules after a sync: flows that lead nowhere, and what upstream left.

use std::collections::BTreeSet;

use agent::{Done, Errand, Line};
use dataplane::{Dataplane, Scope, ServicePortIds, SyncError, Synced};
use model::flows::{StaleFlows, VanishedFlows};
use model::{Family, ForwardingTable};
use observe::metrics::Pass;
use serde_json::json;
use standalone::objects::{Change, Kind};

use crate::sim::{Sim, apply, endpoints, ms, service, sim, sim_leaving_vanished, sim_on};

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
    let pass = Pass { family: Family::V4, flows: 3, took: ms(1) };
    sim.errand_result = Ok(Done { passes: vec![pass], ..Done::default() });
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

/// The slice of Pods as a controller writes it; a name that ends with `!` is one that terminates.
fn pods(ips: &[&str]) -> Change {
    let endpoint = |ip: &&str| {
        let is_terminating = ip.ends_with('!');
        let ip = ip.trim_end_matches('!');
        json!({
            "addresses": [ip], "nodeName": "b", "targetRef": { "kind": "Pod", "name": format!("web-{ip}") },
            "conditions": { "ready": !is_terminating, "serving": true, "terminating": is_terminating },
        })
    };
    let endpoints: Vec<_> = ips.iter().map(endpoint).collect();
    apply(
        Kind::EndpointSlice,
        json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": {
                "name": "web-pods", "namespace": "default",
                "labels": {
                    "kubernetes.io/service-name": "web",
                    "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
                },
            },
            "ports": [{ "port": 8080, "protocol": "TCP" }], "endpoints": endpoints,
        }),
    )
}

impl<D: dataplane::Dataplane> Sim<D> {
    /// The connections that were to be ended, each time.
    fn ended(&self) -> Vec<&BTreeSet<VanishedFlows>> {
        let errands = self.errands.iter();
        errands
            .filter_map(|(_, errand)| if let Errand::End(all) = errand { Some(all) } else { None })
            .collect()
    }
}

#[test]
fn connections_of_a_vanished_pod_are_ended_after_the_sync_and_named() {
    let mut sim = sim();
    sim.files(vec![service("web"), pods(&["10.244.0.1", "10.244.0.2"])]);
    sim.pass(ms(1_000));
    sim.files(vec![pods(&["10.244.0.1", "10.244.0.2!"])]);
    sim.pass(ms(1_000));
    assert!(sim.ended().is_empty(), "it is still there");
    sim.files(vec![pods(&["10.244.0.1"])]);
    sim.pass(ms(1_000));
    let endpoint = ("10.244.0.2".parse().unwrap(), 8080);
    let ended: Vec<_> = sim.ended().into_iter().flatten().map(|flows| flows.endpoint).collect();
    assert_eq!(ended, [endpoint]);
    let (at, _) = sim.errands.last().unwrap();
    assert!(*at >= sim.syncs.last().unwrap().0, "rules are in force before connections end");
    sim.pass(ms(60_000));
    assert_eq!(sim.ended().len(), 1);
}

/// A mode that deletes what is left of a change a second later, as iptables does.
struct DeletesLater;

impl Dataplane for DeletesLater {
    fn sync(
        &mut self,
        _desired: &ForwardingTable,
        _scope: Scope<&ServicePortIds>,
    ) -> Result<Synced, SyncError> {
        Ok(Synced { settle_after: Some(ms(1_000)), ..Synced::default() })
    }

    fn settle(&mut self) -> Result<Synced, SyncError> {
        Ok(Synced::default())
    }

    fn differences(&mut self, _desired: &ForwardingTable) -> Result<Vec<String>, SyncError> {
        Ok(Vec::new())
    }
}

#[test]
fn clients_of_a_vanished_pod_do_not_wait_for_deletions() {
    let mut sim = sim_on(DeletesLater);
    sim.files(vec![
        service("web"),
        dns(),
        pods(&["10.244.0.1", "10.244.0.2!"]),
        dns_endpoints(&["10.244.0.9"]),
    ]);
    sim.pass(ms(3_000));
    let (settled, forgotten) = (sim.settled, sim.forgotten().len());
    sim.files(vec![pods(&["10.244.0.1"]), dns_endpoints(&["10.244.0.8"])]);
    sim.pass(ms(50));
    assert_eq!((sim.ended().len(), sim.forgotten().len()), (1, forgotten + 1));
    assert_eq!(sim.settled, settled, "deletions still wait");
    sim.pass(ms(1_000));
    assert_eq!(sim.settled, settled + 1);
}

#[test]
fn an_address_that_is_another_pods_when_an_errand_is_tried_again_is_left_alone() {
    let mut sim = sim();
    sim.errand_result = Err("busy".to_owned());
    sim.files(vec![service("web"), pods(&["10.244.0.1", "10.244.0.2!"])]);
    sim.pass(ms(1_000));
    sim.files(vec![pods(&["10.244.0.1"])]);
    sim.pass(ms(1_000));
    let tries = sim.ended().len();
    assert!(tries > 0);
    sim.files(vec![pods(&["10.244.0.1", "10.244.0.2"])]);
    sim.errand_result = Ok(Done::default());
    sim.pass(ms(60_000));
    assert_eq!(sim.ended().len(), tries);
}

#[test]
fn with_leave_no_connection_is_ended() {
    let mut sim = sim_leaving_vanished();
    sim.files(vec![service("web"), pods(&["10.244.0.1", "10.244.0.2!"])]);
    sim.pass(ms(1_000));
    sim.files(vec![pods(&["10.244.0.1"])]);
    sim.pass(ms(60_000));
    assert!(sim.ended().is_empty());
}
