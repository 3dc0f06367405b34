//! A fresh process: what it finds in the kernel, and what it may remove.

use std::path::Path;

use agent::{Event, Line};
use dataplane::Scope;
use dataplane::nftables::Options;
use dataplane::nftables::sim::Nftables;
use kernel_sim::nft::Simulated;
use serde_json::json;
use standalone::manifests::{DoubtfulDocument, Doubts};
use standalone::objects::{Change, Kind, ObjectKey, Origin};

use crate::sim::{Sim, apply, changed, endpoints, ms, service, sim, sim_on};

#[test]
fn leftovers_go_only_when_all_files_could_be_read() {
    let mut before = sim();
    before.files(vec![service("web"), endpoints("web", 1, 2), service("api"), endpoints("api", 7, 3)]);
    before.pass(ms(1_000));
    let kernel = before.dataplane.kernel().clone();

    let mut sim = sim_on(Nftables::new(kernel, Options::default()));
    let changes = vec![service("web"), endpoints("web", 1, 2)];
    sim.feed(Event::FilesChanged { changes, problems: Vec::new(), is_complete: false });
    sim.pass(ms(100_000));
    assert_eq!(sim.slots(), 5, "the service in the file that cannot be read is served");
    assert!(sim.status().keeps_leftovers);
    assert!(sim.errands.is_empty(), "upstream's rules may be needed too");
    assert_eq!(sim.status().drift.repairs, 0);

    // It can be read now, and says something else.
    let changes = vec![service("api"), endpoints("api", 7, 1)];
    sim.feed(Event::FilesChanged { changes, problems: Vec::new(), is_complete: true });
    sim.pass(ms(1_000));
    assert_eq!(sim.slots(), 3);
    assert!(!sim.status().keeps_leftovers);
    assert_eq!(sim.differences(), [""; 0]);
    assert_eq!(sim.status().drift.repairs, 0, "leftovers are nobody's meddling");
}

#[test]
fn once_all_was_read_a_file_that_breaks_keeps_nothing_back() {
    let mut sim = sim();
    sim.files(vec![service("web"), endpoints("web", 1, 2)]);
    sim.feed(Event::FilesChanged { changes: Vec::new(), problems: Vec::new(), is_complete: false });
    sim.pass(ms(100_000));
    assert!(sim.syncs.iter().all(|(_, work)| *work != Scope::AllThatIsKnown));
    assert!(!sim.status().keeps_leftovers);
}

#[test]
fn while_a_file_cannot_be_read_the_others_are_followed() {
    let mut sim = sim();
    let changes = vec![service("web"), endpoints("web", 1, 2)];
    sim.feed(Event::FilesChanged { changes, problems: Vec::new(), is_complete: false });
    sim.pass(ms(1_000));
    let changes = vec![endpoints("web", 1, 4)];
    sim.feed(Event::FilesChanged { changes, problems: Vec::new(), is_complete: false });
    sim.pass(ms(1_000));
    assert_eq!(sim.slots(), 4);
    assert_eq!(changed(sim.last_work()), ["default/web/tcp"]);
}

/// A Service with its own address and this port.
fn service_at(name: &str, ip: &str, port: &serde_json::Value) -> Change {
    let value = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": { "name": name, "namespace": "default" },
        "spec": { "clusterIP": ip, "ports": [{ "port": port }] },
    });
    apply(Kind::Service, value)
}

/// The slice of `api` with an address that is none.
fn wrong_endpoints() -> Change {
    let value = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": { "name": "api-1", "namespace": "default", "labels": { "kubernetes.io/service-name": "api" } },
        "ports": [{ "port": 8080 }], "endpoints": [{ "addresses": ["10.244.0.777"] }],
    });
    apply(Kind::EndpointSlice, value)
}

/// A process that has just started where another one served `web` with two endpoints and `api` with three.
fn restarted() -> Sim<Nftables<Simulated>> {
    let mut before = sim();
    before.files(both());
    before.pass(ms(1_000));
    assert_eq!(before.slots(), 5);
    sim_on(Nftables::new(before.dataplane.kernel().clone(), Options::default()))
}

fn both() -> Vec<Change> {
    let (web, api) = (service_at("web", "10.96.0.1", &json!(80)), service_at("api", "10.96.0.2", &json!(80)));
    vec![web, endpoints("web", 1, 2), api, endpoints("api", 7, 3)]
}

fn in_doubt(kind: Kind, name: &str) -> Event {
    let key = ObjectKey { kind, namespace: "default".into(), name: name.into() };
    Event::SourceInDoubt(Doubts { objects: [key].into(), ..Doubts::default() })
}

fn empty_folder() -> Event {
    Event::SourceInDoubt(Doubts { empty: vec!["/etc/portway".into()], ..Doubts::default() })
}

#[test]
fn after_a_restart_a_service_with_a_quoted_port_is_served_as_before() {
    let mut sim = restarted();
    sim.feed(in_doubt(Kind::Service, "api"));
    let wrong = service_at("api", "10.96.0.2", &json!("80"));
    let web = service_at("web", "10.96.0.1", &json!(80));
    sim.files(vec![web, endpoints("web", 1, 4), wrong, endpoints("api", 7, 3)]);
    sim.pass(ms(100_000));
    assert_eq!(sim.slots(), 4 + 3, "the others are followed");
    let status = sim.status();
    assert!(status.keeps_leftovers && status.problems[0].starts_with("Service default/api: "), "{status:?}");
    let said =
        |line: &&Line| matches!(line, Line::Problem(text) if text.starts_with("Service default/api: "));
    assert_eq!(sim.lines.iter().filter(said).count(), 1);

    sim.feed(Event::SourceInDoubt(Doubts::default()));
    sim.files(vec![service_at("api", "10.96.0.2", &json!(80))]);
    sim.pass(ms(1_000));
    assert_eq!((sim.slots(), sim.differences()), (7, Vec::new()));
    assert!(!sim.status().keeps_leftovers && sim.status().problems.is_empty());
}

#[test]
fn after_a_restart_a_slice_with_a_wrong_address_refuses_no_client() {
    let mut sim = restarted();
    sim.feed(in_doubt(Kind::EndpointSlice, "api-1"));
    let mut changes = both();
    changes[3] = wrong_endpoints();
    sim.files(changes);
    sim.pass(ms(100_000));
    assert_eq!(sim.slots(), 5, "the endpoints that the kernel knows are dialled");

    // It is right, and has no endpoint: now that is meant.
    sim.feed(Event::SourceInDoubt(Doubts::default()));
    sim.files(vec![endpoints("api", 7, 0)]);
    sim.pass(ms(1_000));
    assert_eq!((sim.slots(), sim.differences()), (2, Vec::new()));
}

#[test]
fn after_a_restart_a_misspelt_kind_takes_no_service_away_and_refuses_no_client() {
    let misspelt = || {
        let origin = Origin { file: Path::new("/etc/portway/api.yaml").into(), line: 7 };
        let documents = [DoubtfulDocument { origin, namespace: "default".into() }];
        Event::SourceInDoubt(Doubts { documents: documents.into(), ..Doubts::default() })
    };
    // `kind: Servcie`, and in a second process `kind: EndpointSlic`.
    for missing in [2, 3] {
        let mut sim = restarted();
        sim.feed(misspelt());
        let mut changes = both();
        changes.remove(missing);
        sim.files(changes);
        sim.pass(ms(100_000));
        assert_eq!(sim.slots(), 5, "what the kernel knows is dialled");
        let problems = sim.status().problems;
        assert!(problems[0].starts_with("/etc/portway/api.yaml:7: "), "{problems:?}");
        sim.files(vec![both().remove(missing)]);
        sim.feed(Event::SourceInDoubt(Doubts::default()));
        sim.pass(ms(1_000));
        assert_eq!((sim.slots(), sim.differences()), (5, Vec::new()));
        assert!(!sim.status().keeps_leftovers && sim.status().problems.is_empty());
    }
}

#[test]
fn a_new_object_of_a_file_with_a_wrong_value_is_logged_while_running() {
    let mut sim = sim();
    sim.files(both());
    sim.pass(ms(1_000));
    let logged = |sim: &Sim<_>| {
        let is_about =
            |line: &&Line| matches!(line, Line::Problem(text) if text.starts_with("Service default/new: "));
        sim.lines.iter().filter(is_about).count()
    };
    let wrong = || service_at("new", "10.96.0.3", &json!("80"));
    sim.files(vec![wrong()]);
    assert_eq!(logged(&sim), 1);
    sim.files(vec![wrong()]);
    assert_eq!(logged(&sim), 1, "the same again");
    sim.files(vec![service_at("new", "10.96.0.3", &json!(80))]);
    sim.files(vec![wrong()]);
    assert_eq!(logged(&sim), 2, "it was right in between");
}

#[test]
fn a_wrong_object_for_which_the_kernel_has_no_rules_holds_nothing_back() {
    let mut sim = restarted();
    sim.feed(in_doubt(Kind::Service, "new"));
    let mut changes = both();
    changes.push(service_at("new", "10.96.0.3", &json!("80")));
    sim.files(changes);
    sim.pass(ms(1_000));
    assert!(!sim.status().keeps_leftovers, "nothing was left over");
    assert_eq!((sim.status().problems, sim.differences()), (Vec::new(), Vec::new()));
}

#[test]
fn an_empty_folder_at_the_start_leaves_the_rules_until_its_files_are_back() {
    let mut sim = restarted();
    sim.feed(empty_folder());
    sim.files(Vec::new());
    sim.pass(ms(100_000));
    assert_eq!(sim.slots(), 5);
    let status = sim.status();
    assert!(status.keeps_leftovers && status.problems[0].contains("--allow-empty"), "{status:?}");
    assert_eq!(sim.state.gauges().problems, 1);

    sim.feed(Event::SourceInDoubt(Doubts::default()));
    sim.files(both());
    sim.pass(ms(1_000));
    assert_eq!((sim.slots(), sim.differences()), (5, Vec::new()));
    assert!(!sim.status().keeps_leftovers && sim.status().problems.is_empty());
}

#[test]
fn an_empty_folder_waits_for_nothing_where_the_kernel_has_no_rules_or_it_is_allowed() {
    let mut bare = sim();
    bare.look_result = Ok(false);
    bare.feed(empty_folder());
    bare.files(Vec::new());
    bare.pass(ms(1_000));
    assert!(!bare.status().keeps_leftovers && bare.status().problems.is_empty());
    assert_eq!(bare.looks.len(), 1, "before anything was written");

    // With `--allow-empty` the source leaves nothing in doubt.
    let mut allowed = restarted();
    allowed.files(Vec::new());
    allowed.pass(ms(1_000));
    assert_eq!(allowed.slots(), 0);
}
