//! The loop with an API server as its source: when it begins, what it does while the server is away, and a Node that changes.

use std::time::Duration;

use agent::{Errand, Event, Line};
use apiserver::{News, Trouble, Watched};
use kernel::nft::Kernel as _;
use kernel_sim::nft::Simulated;
use mockapi::objects;
use model::object::Read;
use model::{Config, DetectLocal, Event as Fact, Family, ServiceName};
use observe::picture::Picture;
use observe::question::{Answer, Question};
use observe::status::NodeStanding;
use serde_json::{Value, json};

use dataplane::Scope;
use dataplane::nftables::sim::Nftables;

use super::sim::{Sim, host, ms, sim_of_server};

type ServerSim = Sim<Nftables<Simulated>>;

fn config() -> Config {
    Config { node_name: "a".into(), ..Config::default() }
}

fn applied(object: &Value) -> Fact {
    match model::object::read(object) {
        Read::Fact(fact) => Fact::Apply(fact),
        other => panic!("{other:?}"),
    }
}

fn changed(of: Watched, objects: &[Value]) -> Event {
    let events = objects.iter().map(applied).collect();
    Event::Told(News::Changed { of, events, triggers: Vec::new() })
}

fn complete(of: Watched) -> Event {
    Event::Told(News::Complete { of, unreadable: Vec::new() })
}

fn trouble(of: Watched, reason: &str) -> Event {
    Event::Told(News::Trouble(Trouble { of, reason: reason.into(), retry_in: ms(400), is_refusal: false }))
}

fn node_port_service() -> Value {
    let mut service = objects::service("web", "10.96.0.1");
    service["spec"]["type"] = json!("NodePort");
    service["spec"]["ports"][0]["nodePort"] = json!(30_080);
    service
}

fn has_no_cidrs() -> Event {
    Event::Told(News::Absent(Watched::ServiceCidrs))
}

/// A loop that is in step with a cluster of one Service.
fn running_with(config: Config) -> ServerSim {
    let mut sim = sim_of_server(config);
    sim.feed(has_no_cidrs());
    sim.feed(changed(Watched::Node, &[objects::node("a", "192.0.2.1")]));
    sim.feed(complete(Watched::Node));
    sim.feed(changed(Watched::Services, &[node_port_service()]));
    sim.feed(complete(Watched::Services));
    sim.feed(changed(Watched::EndpointSlices, &[objects::slice("web", &["10.244.2.7", "10.244.2.8"])]));
    sim.feed(complete(Watched::EndpointSlices));
    sim.pass(ms(5000));
    assert!(sim.status().is_in_sync, "{:#?}", sim.status());
    sim
}

fn running() -> ServerSim {
    running_with(config())
}

#[test]
fn nothing_is_written_before_services_and_slices_are_both_complete() {
    let mut sim = sim_of_server(config());
    sim.feed(has_no_cidrs());
    sim.feed(complete(Watched::Node));
    sim.feed(changed(Watched::Services, &[objects::service("web", "10.96.0.1")]));
    sim.feed(complete(Watched::Services));
    sim.feed(changed(Watched::EndpointSlices, &[objects::slice("web", &["10.244.2.7"])]));
    sim.pass(ms(60_000));
    assert_eq!(sim.syncs, []);
    let because = sim.status().pending.because.unwrap();
    assert!(because.contains("has not told all"), "{because}");
    sim.feed(complete(Watched::EndpointSlices));
    assert_eq!(sim.syncs.len(), 1);
    assert_eq!(sim.syncs[0].1, Scope::Everything, "all is known, so what nobody asks for goes");
}

#[test]
fn before_the_server_has_told_all_nobody_is_shown_an_empty_cluster() {
    let mut sim = sim_of_server(config());
    sim.feed(Event::AddressesChanged(host("192.0.2.2")));
    sim.feed(changed(Watched::Services, &[objects::service("web", "10.96.0.1")]));
    sim.pass(ms(200_000));
    let Answer::NotYet(reason) = sim.ask(Question::Picture) else { panic!("there is no picture yet") };
    assert!(reason.contains("has not told all Services"), "{reason}");
    assert_eq!(sim.status().picture_age_seconds, None);
    // A silence that lasts from the start on is one.
    let gauges = sim.state.gauges();
    assert_eq!((gauges.heard_at, gauges.changed_at), (Some(Duration::ZERO), None));
}

#[test]
fn the_node_is_waited_for_until_the_server_has_answered_somehow() {
    let mut sim = sim_of_server(config());
    sim.feed(has_no_cidrs());
    sim.feed(trouble(Watched::Node, "the API server cannot be reached"));
    sim.feed(complete(Watched::Services));
    sim.feed(complete(Watched::EndpointSlices));
    assert_eq!(sim.syncs, [], "by now it may be reached");
    sim.feed(trouble(Watched::Node, "the API server does not let us list nodes"));
    assert_eq!(sim.syncs.len(), 1, "a missing permission for Nodes keeps nobody from working");
}

/// A cluster that has told all but ServiceCIDRs, on this kernel.
fn without_cidrs(kernel: Simulated) -> ServerSim {
    let mut sim = sim_of_server(config());
    *sim.dataplane.kernel() = kernel;
    sim.feed(changed(Watched::Node, &[objects::node("a", "192.0.2.1")]));
    sim.feed(complete(Watched::Node));
    sim.feed(changed(Watched::Services, &[node_port_service()]));
    sim.feed(complete(Watched::Services));
    sim.feed(changed(Watched::EndpointSlices, &[objects::slice("web", &["10.244.2.7"])]));
    sim.feed(complete(Watched::EndpointSlices));
    sim
}

#[test]
fn a_restart_writes_nothing_though_service_cidrs_come_last() {
    let cidrs = || changed(Watched::ServiceCidrs, &[objects::service_cidr("kubernetes", "10.96.0.0/12")]);
    let mut first = without_cidrs(Simulated::default());
    first.feed(cidrs());
    first.feed(complete(Watched::ServiceCidrs));
    first.pass(ms(10_000));
    assert!(first.status().is_in_sync);
    let mut second = without_cidrs(first.dataplane.kernel().clone());
    let before = second.dataplane.kernel().generation().unwrap();
    second.pass(ms(2900));
    assert_eq!(second.syncs, [], "they are waited for");
    second.feed(cidrs());
    second.feed(complete(Watched::ServiceCidrs));
    second.pass(ms(10_000));
    assert!(second.status().is_in_sync);
    assert_eq!(second.dataplane.kernel().generation().unwrap(), before);
}

#[test]
fn service_cidrs_are_waited_for_as_long_as_that_may_help() {
    let begins = |event: Event| {
        let mut sim = without_cidrs(Simulated::default());
        assert_eq!(sim.syncs, []);
        sim.feed(event);
        !sim.syncs.is_empty()
    };
    assert!(begins(has_no_cidrs()), "this server has none");
    assert!(begins(trouble(Watched::ServiceCidrs, "the API server does not let us list servicecidrs")));
    assert!(!begins(Event::Told(News::Heard(Watched::Services))), "nothing was said of them");
    let mut sim = without_cidrs(Simulated::default());
    sim.pass(ms(3000));
    assert_eq!(sim.syncs.len(), 1, "nobody waits for ever");
}

fn refusal(of: Watched) -> Event {
    let (reason, retry_in) = ("403".to_owned(), ms(30_000));
    Event::Told(News::Trouble(Trouble { of, reason, retry_in, is_refusal: true }))
}

#[test]
fn who_may_not_read_a_kind_is_told_so_before_the_rest_comes_and_waits_a_second_for_it() {
    for refused in [Watched::ServiceCidrs, Watched::Node] {
        let mut sim = sim_of_server(config());
        sim.feed(refusal(refused));
        for of in [Watched::ServiceCidrs, Watched::Node, Watched::Services, Watched::EndpointSlices] {
            if of != refused {
                sim.feed(complete(of));
            }
        }
        sim.pass(ms(999));
        assert_eq!(sim.syncs, [], "a server that is only starting says no to everything");
        sim.pass(ms(2));
        assert_eq!(sim.syncs.len(), 1, "{refused:?}");
    }
}

#[test]
fn a_server_that_first_says_no_to_everything_gets_no_rules_of_a_node_without_addresses() {
    let mut sim = sim_of_server(config());
    for of in Watched::ALL {
        sim.feed(refusal(of));
    }
    sim.feed(changed(Watched::Services, &[node_port_service()]));
    sim.feed(complete(Watched::Services));
    sim.feed(complete(Watched::EndpointSlices));
    sim.pass(ms(200));
    sim.feed(changed(Watched::Node, &[objects::node("a", "192.0.2.1")]));
    sim.feed(complete(Watched::Node));
    assert_eq!(sim.syncs, [], "ServiceCIDRs may come, too");
    sim.feed(complete(Watched::ServiceCidrs));
    assert_eq!(sim.syncs.len(), 1);
}

#[test]
fn trouble_that_comes_and_goes_is_told_once_a_minute_and_when_it_stays() {
    let mut sim = running();
    sim.lines.clear();
    let blink = |sim: &mut ServerSim| {
        sim.feed(trouble(Watched::Services, "the connection ended"));
        sim.pass(ms(200));
        sim.feed(Event::Told(News::Heard(Watched::Services)));
        sim.pass(ms(300));
    };
    let told = |sim: &ServerSim| {
        let of_server =
            |line: &&Line| matches!(line, Line::ServerTrouble { .. } | Line::ServerAnswers { .. });
        sim.lines.iter().filter(of_server).count()
    };
    (0..100).for_each(|_| blink(&mut sim));
    assert_eq!(told(&sim), 2, "that it came, and that it went");
    (0..40).for_each(|_| blink(&mut sim));
    assert_eq!(told(&sim), 4, "a minute later the same");
    for _ in 0..3 {
        sim.feed(trouble(Watched::Services, "the connection ended"));
        sim.pass(ms(6000));
    }
    assert_eq!(told(&sim), 5, "it stays this time");
    sim.feed(Event::Told(News::Heard(Watched::Services)));
    assert_eq!(told(&sim), 6);
}

#[test]
fn service_cidrs_count_at_once_when_they_come() {
    let mut sim = running();
    let before = sim.syncs.len();
    sim.feed(changed(Watched::ServiceCidrs, &[objects::service_cidr("kubernetes", "10.96.0.0/12")]));
    assert_eq!(sim.syncs.len(), before + 1, "upstream waits for up to an hour");
    assert_eq!(sim.differences(), [""; 0]);
}

#[test]
fn one_slice_that_changes_is_written_at_once_and_alone() {
    let mut sim = running();
    sim.feed(changed(Watched::EndpointSlices, &[objects::slice("web", &["10.244.2.7"])]));
    assert_eq!(super::sim::changed(sim.last_work()), ["default/web:http/tcp"]);
    sim.pass(ms(1000));
    assert_eq!(sim.differences(), [""; 0]);
}

#[test]
fn what_changes_nothing_for_this_node_writes_nothing() {
    let mut sim = running();
    let before = sim.syncs.len();
    // The same again; an annotation; a zone that nobody asks for; a slice of nobody; a Node that only beats.
    sim.feed(changed(Watched::Services, &[node_port_service()]));
    let mut slice = objects::slice("web", &["10.244.2.7", "10.244.2.8"]);
    slice["metadata"]["annotations"] =
        json!({"endpoints.kubernetes.io/last-change-trigger-time": "2026-11-16T05:00:00Z"});
    slice["endpoints"][0]["zone"] = json!("z9");
    sim.feed(changed(Watched::EndpointSlices, &[slice, objects::slice("nobodys", &["10.244.3.1"])]));
    let mut node = objects::node("a", "192.0.2.1");
    node["status"]["conditions"] = json!([{"type": "Ready", "lastHeartbeatTime": "2026-11-16T05:00:00Z"}]);
    sim.feed(changed(Watched::Node, &[node]));
    sim.feed(Event::Told(News::Heard(Watched::Services)));
    assert_eq!(sim.syncs.len(), before, "{:?}", sim.syncs);
    assert!(sim.status().is_in_sync);
}

#[test]
fn while_the_server_is_away_the_rules_stay_and_the_status_says_how_old_the_picture_is() {
    let mut sim = running();
    let (slots, before) = (sim.slots(), sim.status().server.unwrap());
    assert_eq!(before.address, "https://192.0.2.100:6443/");
    assert!(before.troubles.is_empty() && before.incomplete.is_empty(), "{before:?}");
    for _ in 0..50 {
        sim.feed(trouble(Watched::Services, "the API server cannot be reached: connection refused"));
        sim.pass(ms(2000));
    }
    let status = sim.status();
    let server = status.server.clone().unwrap();
    assert_eq!(server.heard_seconds_ago, Some(105), "the oldest part counts");
    let told = &server.troubles["services"];
    assert_eq!(told.for_seconds, 100);
    assert!(told.reason.contains("connection refused"), "{told:?}");
    assert!(status.is_in_sync, "the kernel holds what we know");
    assert_eq!(sim.slots(), slots);
    let lines = sim.lines.iter().filter(|line| matches!(line, Line::ServerTrouble { .. })).count();
    assert_eq!(lines, 1, "the same trouble is logged once");
    sim.feed(Event::Told(News::Heard(Watched::Services)));
    assert!(sim.status().server.unwrap().troubles.is_empty());
    assert!(sim.lines.contains(&Line::ServerAnswers { of: "services" }), "{:?}", sim.lines);
}

#[test]
fn trouble_that_differs_in_figures_is_told_once_and_again_after_ten_minutes() {
    let mut sim = running();
    let told =
        |sim: &ServerSim| sim.lines.iter().filter(|line| matches!(line, Line::ServerTrouble { .. })).count();
    for version in 0..299 {
        let reason = format!("the API server has only an older picture (version {version}) than ours (500)");
        sim.feed(trouble(Watched::Services, &reason));
        sim.pass(ms(2000));
    }
    assert_eq!(told(&sim), 1);
    let told_now = &sim.status().server.unwrap().troubles["services"];
    assert!(told_now.reason.contains("version 298") && told_now.for_seconds == 598, "{told_now:?}");
    sim.pass(ms(2000));
    sim.feed(trouble(
        Watched::Services,
        "the API server has only an older picture (version 7) than ours (500)",
    ));
    assert_eq!(told(&sim), 2);
    sim.feed(trouble(Watched::Services, "the API server cannot be reached"));
    assert_eq!(told(&sim), 3, "this is something else");
}

#[test]
fn a_server_that_answers_and_says_nothing_does_not_make_the_picture_younger() {
    let mut sim = running();
    sim.feed(trouble(Watched::Services, "the API server cannot be reached"));
    for _ in 0..10 {
        sim.pass(ms(10_000));
        sim.feed(Event::Told(News::Answered(Watched::Services)));
        sim.feed(Event::Told(News::Heard(Watched::EndpointSlices)));
        sim.feed(Event::Told(News::Heard(Watched::Node)));
    }
    let server = sim.status().server.unwrap();
    assert_eq!(server.heard_seconds_ago, Some(105), "nothing was heard of Services since");
    assert!(server.troubles.is_empty(), "but it answers");
    let age = sim.state.gauges().heard_at.map(|at| sim.now.saturating_sub(at).as_secs());
    assert_eq!(age, Some(105), "for metrics, too");
    sim.feed(Event::Told(News::Heard(Watched::Services)));
    assert_eq!(sim.status().server.unwrap().heard_seconds_ago, Some(0));
}

#[test]
fn an_unusable_object_is_in_the_reports_until_it_is_gone() {
    let mut sim = running();
    let before = sim.status().reports;
    let report = match model::object::read(&json!({"kind": "Service", "metadata": {"name": 7}})) {
        Read::Refused(report) => report,
        other => panic!("{other:?}"),
    };
    for _ in 0..3 {
        sim.feed(Event::Told(News::Unreadable { of: Watched::Services, report: report.clone() }));
    }
    assert_eq!(sim.status().reports, before + 1);
    sim.feed(complete(Watched::Services));
    assert_eq!(sim.status().reports, before);
}

#[test]
fn an_object_that_comes_with_a_mistake_is_named_once_in_the_log() {
    let mut sim = running();
    let problems = |sim: &ServerSim| -> Vec<String> {
        let text = |line: &Line| match line {
            Line::Problem(text) => Some(text.clone()),
            _ => None,
        };
        sim.lines.iter().filter_map(text).collect()
    };
    let mut half = objects::service("half", "10.96.0.9");
    half["spec"]["ports"] = json!("no list");
    for label in ["a", "b", "c"] {
        half["metadata"]["labels"] = json!({ "changed": label });
        sim.feed(changed(Watched::Services, &[half.clone(), objects::service("good", "10.96.0.10")]));
    }
    let told = problems(&sim);
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].starts_with("Service default/half: spec.ports"), "{told:?}");
    assert!(sim.state.table().ports().any(|port| port.id().service.name() == "good"), "the rest goes on");
}

#[test]
fn another_process_sees_the_same_table() {
    let mut sim = running();
    let Answer::Picture(snapshot) = sim.ask(Question::Picture) else { panic!("a picture was asked for") };
    assert_eq!(Picture::of(*snapshot).table(), sim.state.table());
}

#[test]
fn the_nodes_addresses_are_followed() {
    let mut sim = running();
    assert_eq!(primary(&sim).as_deref(), Some("192.0.2.1"));
    sim.feed(changed(Watched::Node, &[objects::node("a", "192.0.2.77")]));
    assert_eq!(primary(&sim).as_deref(), Some("192.0.2.77"));
    assert!(!sim.has_exited, "upstream exits");
    assert_eq!(sim.differences(), [""; 0]);
}

/// The address that `primary` means in `--nodeport-addresses`.
fn primary(sim: &ServerSim) -> Option<String> {
    sim.state.table().node().primary.get(Family::V4).map(|address| address.to_string())
}

#[test]
fn the_nodes_pod_networks_are_followed() {
    let mut sim = running_with(Config { detect_local: DetectLocal::NodeCidr, ..config() });
    let before = sim.syncs.len();
    let mut node = objects::node("a", "192.0.2.1");
    node["spec"] = json!({"podCIDRs": ["10.244.9.0/24"]});
    sim.feed(changed(Watched::Node, &[node]));
    assert_eq!(sim.syncs.len(), before + 1);
    assert!(format!("{:?}", sim.state.table().node()).contains("10.244.9.0/24"));
    assert_eq!(sim.differences(), [""; 0]);
}

#[test]
fn the_nodes_zone_is_followed() {
    let mut sim = running();
    let mut slice = objects::slice("web", &["10.244.2.7", "10.244.2.8"]);
    slice["endpoints"][0]["hints"] = json!({"forZones": [{"name": "z1"}]});
    slice["endpoints"][1]["hints"] = json!({"forZones": [{"name": "z2"}]});
    sim.feed(changed(Watched::EndpointSlices, &[slice]));
    assert_eq!(targets(&sim), ["10.244.2.7"]);
    let mut node = objects::node("a", "192.0.2.1");
    node["metadata"]["labels"]["topology.kubernetes.io/zone"] = json!("z2");
    sim.feed(changed(Watched::Node, &[node]));
    sim.pass(ms(1000));
    assert_eq!(targets(&sim), ["10.244.2.8"]);
    assert_eq!(sim.differences(), [""; 0]);
}

/// The endpoints that packets to the Service may end at.
fn targets(sim: &ServerSim) -> Vec<String> {
    let port = sim
        .state
        .table()
        .ports()
        .find(|port| port.id().service == ServiceName::new("default", "web"))
        .unwrap();
    let frontend = port.frontends().next().unwrap();
    let shown = format!("{:?}", sim.state.table().route(&frontend).unwrap().1.inside);
    ["10.244.2.7", "10.244.2.8"].into_iter().filter(|ip| shown.contains(ip)).map(Into::into).collect()
}

#[test]
fn a_node_that_is_marked_for_removal_says_so_and_writes_nothing() {
    let mut sim = running();
    let before = sim.syncs.len();
    for spoil in [
        (
            "/spec",
            json!({"podCIDRs": ["10.244.1.0/24"], "taints": [{"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"}]}),
        ),
        ("/metadata/deletionTimestamp", json!("2026-11-16T05:00:00Z")),
    ] {
        let mut node = objects::node("a", "192.0.2.1");
        assert_eq!(sim.status().node_standing, NodeStanding::Known);
        node["metadata"]["deletionTimestamp"] = Value::Null;
        *node.pointer_mut(spoil.0).unwrap() = spoil.1;
        sim.feed(changed(Watched::Node, &[node]));
        assert_eq!(sim.status().node_standing, NodeStanding::Leaving);
        sim.feed(changed(Watched::Node, &[objects::node("a", "192.0.2.1")]));
    }
    assert_eq!(sim.syncs.len(), before);
}

#[test]
fn a_node_that_the_server_does_not_know_is_told_once_after_the_first_list() {
    let told = |sim: &ServerSim| sim.lines.iter().filter(|line| matches!(line, Line::NoNode(_))).count();
    let mut sim = sim_of_server(config());
    sim.feed(has_no_cidrs());
    sim.feed(complete(Watched::Services));
    sim.feed(complete(Watched::EndpointSlices));
    assert_eq!(told(&sim), 0, "nobody knows yet");
    sim.feed(complete(Watched::Node));
    assert!(sim.lines.contains(&Line::NoNode("a".into())), "{:?}", sim.lines);
    sim.feed(complete(Watched::Node));
    assert_eq!(told(&sim), 1, "the next list tells nothing new");
    assert_eq!(told(&running()), 0, "there is a Node");
}

#[test]
fn a_node_that_is_deleted_leaves_a_node_that_serves_on_with_the_hosts_addresses() {
    let mut sim = running();
    let events = vec![Fact::DeleteNode("a".into())];
    sim.feed(Event::Told(News::Changed { of: Watched::Node, events, triggers: Vec::new() }));
    sim.pass(Duration::from_secs(1));
    assert!(!sim.has_exited, "upstream exits");
    let told = |is_so| Line::NodeTakesClients { name: "a".into(), is_so };
    assert!(sim.lines.contains(&told(false)) && !sim.lines.contains(&told(true)), "{:?}", sim.lines);
    assert_eq!(primary(&sim).as_deref(), Some("192.0.2.1"), "those of the host");
    assert_eq!(sim.status().node_standing, NodeStanding::OfHost);
    assert_eq!(targets(&sim).len(), 2);
    sim.feed(changed(Watched::Node, &[objects::node("a", "192.0.2.50")]));
    assert_eq!(primary(&sim).as_deref(), Some("192.0.2.50"), "and it comes back");
    assert_eq!(sim.lines.iter().filter(|line| **line == told(true)).count(), 1);
    assert_eq!(sim.differences(), [""; 0]);
}

fn pods(nodes: &[&str]) -> Event {
    let mut slice = objects::slice("web", &[]);
    let endpoint = |(number, node): (usize, &&str)| json!({ "addresses": [format!("10.244.9.{number}")], "nodeName": node, "conditions": { "ready": true } });
    slice["endpoints"] = (1..).zip(nodes).map(endpoint).collect();
    changed(Watched::EndpointSlices, &[slice])
}

/// How often connections were to be ended.
fn ended(sim: &ServerSim) -> usize {
    sim.errands.iter().filter(|(_, errand)| matches!(errand, Errand::End(_))).count()
}

#[test]
fn a_pod_that_left_without_terminating_has_vanished_if_the_server_no_longer_has_its_node() {
    let mut sim = running();
    sim.feed(pods(&["b", "b", "c"]));
    sim.pass(ms(1_000));
    sim.feed(pods(&["b", "b"]));
    sim.feed(pods(&["b"]));
    sim.feed(pods(&[]));
    sim.pass(ms(1_000));
    assert_eq!(sim.asked_nodes.iter().map(|name| &**name).collect::<Vec<_>>(), ["b", "c"], "each once");
    assert_eq!(ended(&sim), 0, "nobody knows yet");
    sim.feed(Event::NodeAnswered { name: "c".into(), exists: Some(true) });
    sim.pass(ms(1_000));
    assert_eq!(ended(&sim), 0, "its node is there");
    sim.feed(Event::NodeAnswered { name: "b".into(), exists: None });
    sim.pass(ms(1_000));
    assert_eq!(ended(&sim), 0, "the server did not say");
    sim.feed(Event::NodeAnswered { name: "b".into(), exists: Some(false) });
    sim.pass(ms(1_000));
    assert_eq!(ended(&sim), 1);
}
