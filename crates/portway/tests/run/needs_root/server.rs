//! `portway run` with an API server as its source: the real binary, the real kernel, and a server that goes away and comes back.

use mockapi::objects::{node, service, slice};
use mockapi::{Certificates, Fault, MockApi, NODES, Options, Requests, SERVICES, SLICES, User, kubeconfig};

use super::place;
use crate::common::{Place, Running};

/// A server in the namespace of the place, with one Service and with TLS.
fn server(place: &Place) -> MockApi {
    place.ip("link set lo up");
    let tls = Some(Certificates::generate().unwrap());
    let server = place.inside(|| MockApi::start(Options { tls, ..Options::default() }).unwrap());
    server.put(NODES, node("a", "192.0.2.1"));
    server.put(SERVICES, service("web", "10.96.0.80"));
    server.put(SLICES, slice("web", &["10.244.0.1", "10.244.0.2"]));
    server
}

fn start(place: &Place, server: &MockApi) -> Running {
    server.need_certificate();
    let path = kubeconfig(server, &User::Certificate, &place.path("")).unwrap();
    place.start_plain(&format!("--kubeconfig {}", path.display()))
}

fn rules(place: &Place) -> String {
    place.nft("list table ip kube-proxy")
}

#[test]
fn root_the_kernel_follows_an_api_server() {
    let Some(place) = place() else { return };
    let server = server(&place);
    let running = start(&place, &server);
    let line = running.wait_for("portway is in sync");
    assert!(line.contains("1 service ports"), "{line}");
    assert!(rules(&place).contains("10.244.0.2"));
    server.put(SLICES, slice("web", &["10.244.0.1", "10.244.0.77"]));
    place.until("the new endpoint is there", || rules(&place).contains("10.244.0.77"));
    server.put(SERVICES, service("db", "10.96.0.81"));
    place.until("the new Service is there", || rules(&place).contains("10.96.0.81"));
    server.remove(SERVICES, "default/web");
    place.until("the Service is gone", || !rules(&place).contains("10.96.0.80 "));
}

#[test]
fn root_what_changes_nothing_here_writes_nothing_to_the_kernel() {
    let Some(place) = place() else { return };
    let server = server(&place);
    let running = start(&place, &server);
    running.wait_for("portway is in sync");
    place.until("what waited is done", || {
        place.portway("status -o json").fine().contains("\"isInSync\": true")
    });
    let before = place.generation();
    for number in 0..20 {
        let mut same = slice("web", &["10.244.0.1", "10.244.0.2"]);
        same["metadata"]["annotations"] = serde_json::json!({"changed": number.to_string()});
        server.put(SLICES, same);
        server.put(SLICES, slice("nobodys", &[&format!("10.244.9.{number}")]));
        let mut beat = node("a", "192.0.2.1");
        beat["status"]["conditions"] =
            serde_json::json!([{"type": "Ready", "lastHeartbeatTime": number.to_string()}]);
        server.put(NODES, beat);
    }
    let seen = server.seen().len();
    server.put(SERVICES, service("db", "10.96.0.81"));
    place.until("what came after all of it is there", || rules(&place).contains("10.96.0.81"));
    let written = place.generation() - before;
    assert!(written <= 2, "{written} transactions for one new Service; {seen} requests");
}

#[test]
fn root_while_the_server_is_away_the_rules_stay_and_the_status_tells() {
    let Some(place) = place() else { return };
    let mut server = server(&place);
    let running = start(&place, &server);
    running.wait_for("portway is in sync");
    server.stop();
    running.wait_for_log("cannot be reached");
    let status = place.portway("status").ends_with(1).out;
    for words in ["API server:", "Trouble:", "cannot be reached", "In sync:    yes"] {
        assert!(status.contains(words), "no {words:?} in\n{status}");
    }
    assert!(rules(&place).contains("10.244.0.2"));
    place.inside(|| server.start_again().unwrap());
    server.put(SERVICES, service("db", "10.96.0.81"));
    place.until("the new Service is there", || rules(&place).contains("10.96.0.81"));
    running.wait_for_log("answers again");
    place.until("all is well", || place.portway("status").has_ended_with(0));
}

#[test]
fn root_portway_starts_before_its_server_and_leaves_old_rules_alone_until_then() {
    let Some(place) = place() else { return };
    let mut server = server(&place);
    let mut first = start(&place, &server);
    first.wait_for("portway is in sync");
    first.kill();
    server.stop();
    let second = start(&place, &server);
    second.wait_for_log("cannot be reached");
    assert!(rules(&place).contains("10.244.0.2"), "what an earlier life wrote stays");
    assert!(place.portway("status").ends_with(1).out.contains("has not told all"));
    server.remove(SERVICES, "default/web");
    place.inside(|| server.start_again().unwrap());
    second.wait_for("portway is in sync: 0 service ports");
    place.until("what nobody asks for is gone", || !rules(&place).contains("10.244.0.2"));
}

#[test]
fn root_a_missing_permission_is_in_the_log_and_in_the_status() {
    let Some(place) = place() else { return };
    let server = server(&place);
    server.forbid("watch", SLICES);
    server.fault(Requests::Watches(SERVICES), Fault::Status { code: 422, retry_after: None }, Some(1));
    let running = start(&place, &server);
    running.wait_for_log("verbs: [\"list\", \"watch\"]");
    let status = place.portway("status").ends_with(1).out;
    assert!(status.contains("does not let us watch endpointslices"), "{status}");
    server.forbid_nothing();
    running.wait_for("portway is in sync");
}

#[test]
fn root_people_can_look_at_the_picture_of_a_cluster() {
    let Some(place) = place() else { return };
    let server = server(&place);
    let running = start(&place, &server);
    running.wait_for("portway is in sync");
    let services = place.portway("get services").fine();
    assert!(services.contains("web") && services.contains("10.96.0.80"), "{services}");
    let endpoints = place.portway("get endpoints").fine();
    assert!(endpoints.contains("10.244.0.1:8080"), "{endpoints}");
    let why = place.portway("explain 10.244.0.9 10.96.0.80:80").fine();
    assert!(why.contains("10.244.0.2:8080"), "{why}");
}

#[test]
fn root_a_kubeconfig_that_cannot_be_used_is_said_at_once() {
    let Some(place) = place() else { return };
    place.portway("run --kubeconfig nowhere").refused(1, &["`nowhere` of --kubeconfig cannot be used"]);
}
