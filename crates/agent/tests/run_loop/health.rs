//! When the node is called healthy, what is said to the cluster, and what is counted.

use std::collections::BTreeMap;
use std::time::Duration;

use agent::{Effect, Event};
use apiserver::{Regarding, Tone};
use dataplane::{Dataplane, Meddled, Scope, ServicePortIds, SyncError, Synced};
use model::{ForwardingTable, ServicePortId};
use observe::listeners::Listener;
use serde_json::{Value, json};
use standalone::objects::{Change, Kind};

use crate::sim::*;

const SECOND: Duration = Duration::from_secs(1);

impl<D: Dataplane> Sim<D> {
    fn is_healthy(&self) -> bool {
        self.state.health().judge(self.now).is_healthy
    }

    fn is_eligible(&self) -> bool {
        self.state.health().is_node_eligible
    }

    fn reasons(&self) -> Vec<&str> {
        self.announced.iter().map(|said| said.reason).collect()
    }
}

/// A dataplane that does nothing and says this.
struct Says(Synced);

impl Dataplane for Says {
    fn sync(&mut self, _: &ForwardingTable, scope: Scope<&ServicePortIds>) -> Result<Synced, SyncError> {
        Ok(Synced { was_full: scope.is_full(), ..self.0.clone() })
    }

    fn settle(&mut self) -> Result<Synced, SyncError> {
        Ok(Synced::default())
    }

    fn differences(&mut self, _: &ForwardingTable) -> Result<Vec<String>, SyncError> {
        Ok(Vec::new())
    }
}

fn node(metadata: &Value, spec: &Value) -> Change {
    let mut object = json!({ "kind": "Node", "apiVersion": "v1", "metadata": { "name": "a" }, "spec": spec });
    for (key, value) in metadata.as_object().unwrap() {
        object["metadata"][key] = value.clone();
    }
    object["status"] = json!({ "addresses": [{ "type": "InternalIP", "address": "192.0.2.1" }] });
    apply(Kind::Node, object)
}

fn local(name: &str, cluster_ip: &str, health_check: u16) -> Change {
    apply(
        Kind::Service,
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": { "name": name, "namespace": "default" },
            "spec": {
                "type": "LoadBalancer", "clusterIP": cluster_ip, "internalTrafficPolicy": "Local", "externalTrafficPolicy": "Local",
                "healthCheckNodePort": health_check, "ports": [{ "port": 80, "nodePort": 30_500 }],
            },
        }),
    )
}

#[test]
fn syncs_that_fail_for_two_periods_turn_red_and_one_that_goes_well_green() {
    let mut sim = sim();
    sim.files(vec![service("web"), endpoints("web", 1, 2)]);
    sim.pass(5 * SECOND);
    assert!(sim.is_healthy());
    sim.dataplane.kernel().refuse_next(12, libc::EBUSY);
    sim.files(vec![endpoints("web", 5, 2)]);
    sim.pass(59 * SECOND);
    assert!(sim.is_healthy(), "not yet");
    sim.pass(2 * SECOND);
    assert!(!sim.is_healthy(), "{:?}", sim.state.health());
    sim.pass(120 * SECOND);
    assert!(sim.is_healthy(), "{:?}", sim.status().failures);
}

#[test]
fn a_sync_that_hangs_turns_red() {
    let mut sim = sim();
    sim.files(vec![service("web"), endpoints("web", 1, 2)]);
    sim.pass(5 * SECOND);
    let now = sim.moment();
    let changes = vec![endpoints("web", 5, 2)];
    let effects =
        sim.state.step(Event::FilesChanged { changes, problems: Vec::new(), is_complete: true }, now);
    assert!(effects.iter().any(|effect| matches!(effect, Effect::Sync(_))));
    sim.now += 59 * SECOND;
    assert!(sim.is_healthy());
    sim.now += 2 * SECOND;
    assert!(!sim.is_healthy());
}

#[test]
fn a_storm_of_changes_is_no_illness() {
    let mut sim = sim();
    sim.files(vec![service("web"), endpoints("web", 1, 2)]);
    for n in 0..400_u16 {
        sim.files(vec![endpoints("web", 1, 1 + u8::try_from(n % 100).unwrap())]);
        sim.pass(ms(300));
        assert!(sim.is_healthy(), "after {n} changes");
    }
}

#[test]
fn before_the_source_was_read_what_an_earlier_life_left_is_well() {
    let mut sim = sim();
    sim.feed(Event::AddressesChanged(host("192.0.2.2")));
    sim.pass(3600 * SECOND);
    assert!(sim.is_healthy() && !sim.state.health().is_bare);
}

#[test]
fn a_node_that_never_had_rules_and_hears_nothing_is_bare_after_two_periods_until_the_first_sync() {
    let mut sim = sim();
    // Before the first look nobody knows; it fails, and says nothing.
    sim.look_result = Err(kernel::nft::Error::NotPermitted.into());
    sim.feed(Event::AddressesChanged(host("192.0.2.2")));
    sim.pass(61 * SECOND);
    assert_eq!(sim.looks.len(), 1);
    sim.look_result = Ok(false);
    sim.pass(58 * SECOND);
    let judged = |sim: &Sim<_>| sim.state.health().judge(sim.now);
    assert!(!judged(&sim).is_bare, "not yet");
    sim.pass(2 * SECOND);
    assert!(judged(&sim).is_bare);
    assert!(judged(&sim).is_healthy, "a restart would not help");
    sim.pass(3600 * SECOND);
    assert_eq!(sim.looks.len(), 2, "what is known is not looked at again");
    sim.files(vec![service("web"), endpoints("web", 1, 2)]);
    assert!(!judged(&sim).is_bare);
}

#[test]
fn a_refused_service_port_is_told_and_takes_no_node_out_of_the_load_balancer() {
    let mut sim = sim_on(Says(Synced::default()));
    sim.files(vec![service("web"), endpoints("web", 1, 2)]);
    let id = sim.state.table().ports().next().unwrap().id().clone();
    sim.dataplane.0.refused = [(id, "no room".to_owned())].into();
    sim.files(vec![endpoints("web", 1, 3)]);
    sim.pass(300 * SECOND);
    assert!(sim.is_healthy());
    assert_eq!(sim.state.gauges().refused, 1);
    assert_eq!(sim.reasons(), ["Starting", "ServicePortRefused"], "once, however often it is refused");
    let said = &sim.announced[1];
    assert_eq!(said.regarding, Regarding::Service(model::ServiceName::new("default", "web")));
    assert!(said.note.contains("no room"), "{said:?}");
}

#[test]
fn rules_that_wait_for_something_turn_red() {
    let mut sim =
        sim_on(Says(Synced { waits: vec!["upstream's table is in its place".into()], ..Synced::default() }));
    sim.files(vec![service("web"), endpoints("web", 1, 2)]);
    sim.pass(59 * SECOND);
    assert!(sim.is_healthy());
    sim.pass(2 * SECOND);
    assert!(!sim.is_healthy());
    sim.dataplane.0.waits.clear();
    sim.pass(31 * SECOND);
    assert!(sim.is_healthy());
}

#[test]
fn a_war_over_our_tables_turns_red_and_peace_green() {
    let mut sim = sim();
    sim.files(vec![service("web"), endpoints("web", 1, 2)]);
    let meddle = || Event::Meddled(Meddled::By { program: "nft".into(), process: 7 });
    sim.feed(meddle());
    sim.pass(SECOND);
    assert!(sim.is_healthy(), "once is put right at once");
    for _ in 0..70 {
        sim.feed(meddle());
        sim.pass(SECOND);
    }
    assert!(!sim.is_healthy());
    assert_eq!(sim.state.gauges().fighting, 1);
    sim.pass(60 * SECOND);
    assert!(sim.is_healthy());
}

#[test]
fn a_node_that_is_about_to_go_is_not_eligible_and_nothing_is_written_for_that() {
    let mut sim = sim();
    sim.files(vec![service("web"), endpoints("web", 1, 2), node(&json!({}), &json!({}))]);
    sim.pass(5 * SECOND);
    let syncs = sim.syncs.len();
    assert!(sim.is_eligible());
    sim.files(vec![node(&json!({}), &json!({ "taints": [{ "key": "other" }] }))]);
    assert!(sim.is_eligible());
    let taint = json!({ "taints": [{ "key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule" }] });
    sim.files(vec![node(&json!({}), &taint)]);
    assert!(!sim.is_eligible() && sim.is_healthy());
    sim.files(vec![node(&json!({ "deletionTimestamp": "2026-11-16T05:00:00Z" }), &json!({}))]);
    assert!(!sim.is_eligible() && sim.is_healthy());
    sim.files(vec![node(&json!({}), &json!({}))]);
    assert!(sim.is_eligible());
    assert_eq!(sim.syncs.len(), syncs, "it decides no packet");
}

#[test]
fn whoever_names_no_mode_is_told_of_upstreams_next_default_and_nobody_else_is() {
    let mut sim = sim();
    sim.files(vec![local("web", "10.96.0.7", 30_501)]);
    assert_eq!(sim.reasons(), ["Starting"]);
    let mut sim = sim_by_default();
    sim.files(vec![local("web", "10.96.0.7", 30_501)]);
    sim.pass(SECOND);
    assert_eq!(sim.reasons(), ["KubeProxyDefaultMode", "Starting"], "once");
    let said = &sim.announced[0];
    assert_eq!(
        (said.tone, said.action, &said.regarding),
        (Tone::Warning, "StartKubeProxy", &Regarding::Node)
    );
    assert_eq!(
        said.note,
        "No kube-proxy mode specified: defaulting to 'iptables'. Note that in Kubernetes 1.40 the default mode will switch to 'nftables'. If you \
         wish to continue using 'iptables' mode, you must explicitly specify 'mode: iptables' in the kube-proxy config file, or '--proxy-mode \
         iptables' on the kube-proxy command line."
    );
}

#[test]
fn a_port_that_cannot_be_had_is_told_once_and_so_is_its_recovery() {
    let mut sim = sim();
    sim.files(vec![local("web", "10.96.0.7", 30_501)]);
    let web = model::ServiceName::new("default", "web");
    let listener = Listener::Balancers(web.clone(), ([0, 0, 0, 0], 30_501).into());
    let failing: BTreeMap<_, _> = [(listener, "another program has this port".to_owned())].into();
    for _ in 0..3 {
        sim.feed(Event::NotListening(failing.clone()));
    }
    assert_eq!(sim.reasons(), ["Starting", "FailedToStartServiceHealthcheck"]);
    assert_eq!(
        (sim.announced[1].tone, &sim.announced[1].regarding),
        (Tone::Warning, &Regarding::Service(web))
    );
    let told = sim.status().not_listening;
    assert_eq!(
        told["the health check of Service default/web at 0.0.0.0:30501"],
        "another program has this port"
    );
    assert_eq!(sim.state.gauges().not_listening, 1);
    assert!(sim.is_healthy(), "a port of one Service takes no node away");
    sim.feed(Event::NotListening(BTreeMap::new()));
    assert!(sim.status().not_listening.is_empty());
    let told =
        |sim: &Sim<_>| sim.lines.iter().filter(|line| format!("{line:?}").contains("Listening")).count();
    assert_eq!(told(&sim), 2, "that it fails, and that it is over");
    sim.feed(Event::NotListening(failing));
    sim.files(vec![Change::Delete(key(&local("web", "10.96.0.7", 30_501)))]);
    sim.feed(Event::NotListening(BTreeMap::new()));
    assert_eq!(told(&sim), 3, "a Service that is gone is not answered for again");
}

#[test]
fn balancers_are_answered_anew_when_the_kernel_does_what_the_table_says() {
    let mut sim = sim();
    sim.files(vec![service("plain"), endpoints("plain", 1, 2)]);
    let before = sim.answered_balancers;
    sim.pass(5 * SECOND);
    sim.files(vec![endpoints("plain", 1, 3)]);
    assert_eq!(sim.answered_balancers, before, "nobody asks about this one");
    sim.pass(5 * SECOND);
    sim.dataplane.kernel().refuse_next(1, libc::EBUSY);
    sim.files(vec![local("web", "10.96.0.7", 30_501)]);
    assert_eq!(sim.answered_balancers, before, "it is not in the kernel");
    sim.pass(SECOND);
    assert_eq!(sim.answered_balancers, before + 1);
}

#[test]
fn what_is_counted_follows_the_table() {
    let mut sim = sim();
    let count = |sim: &Sim<_>| {
        let gauges = sim.state.gauges();
        assert_eq!(gauges.service_ports, sim.status().service_ports);
        (gauges.service_ports, gauges.without_local.internal.v4, gauges.without_local.external.v4)
    };
    sim.files(vec![service("plain"), local("web", "10.96.0.7", 30_501)]);
    assert_eq!(count(&sim), (2, 0, 0), "none anywhere is a refusal, and no want of local ones");
    sim.files(vec![endpoints("web", 1, 2)]);
    assert_eq!(count(&sim), (2, 1, 1), "two elsewhere");
    sim.files(vec![Change::Delete(key(&local("web", "10.96.0.7", 30_501)))]);
    assert_eq!(count(&sim), (1, 0, 0));
}

fn key(change: &Change) -> standalone::objects::ObjectKey {
    match change {
        Change::Apply(object) => object.key.clone(),
        Change::Delete(key) => key.clone(),
    }
}

/// Why the process is not ready; nothing if it is.
fn not_ready<D: Dataplane>(sim: &Sim<D>) -> String {
    sim.state.health().readiness(sim.now).reason.unwrap_or_default()
}

#[test]
fn a_process_whose_writes_fail_is_not_ready_before_its_first_good_sync_and_long_after_its_last() {
    let mut sim = sim();
    assert_eq!(not_ready(&sim), "the source was not read yet");
    sim.dataplane.kernel().refuse_next(2, libc::EBUSY);
    sim.files(vec![service("web"), endpoints("web", 1, 2)]);
    assert!(sim.is_healthy(), "a failure that is young is no reason to start the process anew");
    assert!(not_ready(&sim).contains("busy"), "{}", not_ready(&sim));
    sim.pass(5 * SECOND);
    assert_eq!(not_ready(&sim), "");
    sim.dataplane.kernel().refuse_next(100, libc::EBUSY);
    sim.files(vec![endpoints("web", 1, 3)]);
    sim.pass(30 * SECOND);
    assert_eq!(not_ready(&sim), "", "its rules are in force, and it tries again");
    sim.pass(40 * SECOND);
    assert!(not_ready(&sim).starts_with("its rules have been out of date for 70 s"), "{}", not_ready(&sim));
}

/// A dataplane that refuses the service ports of these Services.
struct Refuses(&'static [&'static str]);

impl Dataplane for Refuses {
    fn sync(&mut self, table: &ForwardingTable, scope: Scope<&ServicePortIds>) -> Result<Synced, SyncError> {
        let is_refused = |id: &ServicePortId| self.0.iter().any(|name| id.to_string().contains(name));
        let ids = table.ports().map(|port| port.id()).filter(|id| is_refused(id));
        let refused = ids.map(|id| (id.clone(), "no".to_owned())).collect();
        Ok(Synced { was_full: scope.is_full(), refused, ..Synced::default() })
    }

    fn settle(&mut self) -> Result<Synced, SyncError> {
        Ok(Synced::default())
    }

    fn differences(&mut self, _: &ForwardingTable) -> Result<Vec<String>, SyncError> {
        Ok(Vec::new())
    }
}

#[test]
fn a_process_is_not_ready_where_the_kernel_refuses_every_service_port() {
    for (refused, is_ready) in [(&[][..], true), (&["web"], true), (&["web", "other"], false)] {
        let mut sim = sim_on(Refuses(refused));
        sim.files(vec![service("web"), service("other")]);
        assert_eq!(not_ready(&sim).is_empty(), is_ready, "{refused:?}: {}", not_ready(&sim));
        assert!(sim.is_healthy(), "load balancers keep the node");
        if !is_ready {
            let words = "the kernel refuses every service port; default/other";
            assert!(not_ready(&sim).starts_with(words), "{}", not_ready(&sim));
        }
    }
}
