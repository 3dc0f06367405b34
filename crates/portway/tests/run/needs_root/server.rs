//! `portway run` with an API server as its source: the real binary, the real kernel, and a server that goes away and comes back.

use std::net::TcpListener;
use std::time::Duration;

use mockapi::objects::{node, service, service_cidr, slice};
use mockapi::{
    Certificates, EVENTS, Fault, MockApi, NODES, Options, Requests, SERVICE_CIDRS, SERVICES, SLICES, User,
    kubeconfig,
};

use serde_json::{Value, json};

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
    server.forget_events();
    let second = start(&place, &server);
    second.wait_for_log("cannot be reached");
    assert!(rules(&place).contains("10.244.0.2"), "what an earlier life wrote stays");
    assert!(place.portway("status").ends_with(1).out.contains("has not told all"));
    server.remove(SERVICES, "default/web");
    place.inside(|| server.start_again().unwrap());
    second.wait_for("portway is in sync: 0 service ports");
    place.until("what nobody asks for is gone", || !rules(&place).contains("10.244.0.2"));
    place.until("the cluster hears of the start", || {
        server.events().iter().any(|event| event["reason"] == "Starting")
    });
}

#[test]
fn root_a_restart_writes_nothing_though_the_answer_about_service_cidrs_comes_late() {
    let Some(place) = place() else { return };
    let server = server(&place);
    server.put(SERVICE_CIDRS, service_cidr("kubernetes", "10.96.0.0/12"));
    let mut first = start(&place, &server);
    first.wait_for("portway is in sync");
    place.until("all is written", || {
        rules(&place).contains("10.96.0.0/12")
            && place.portway("status -o json").fine().contains("\"isInSync\": true")
    });
    first.kill();
    let before = place.generation();
    let slow = Fault::Slow { pause: Duration::from_millis(300) };
    server.fault(Requests::Of(SERVICE_CIDRS), slow, None);
    let second = start(&place, &server);
    second.wait_for("portway is in sync");
    place.until("all is in step", || place.portway("status -o json").fine().contains("\"isInSync\": true"));
    assert_eq!(place.generation(), before);
}

#[test]
fn root_a_node_that_never_had_rules_takes_no_clients_while_it_may_not_read_services() {
    let Some(place) = place() else { return };
    let server = server(&place);
    server.forbid("list", SERVICES);
    server.forbid("watch", SERVICES);
    let path = kubeconfig(&server, &User::Nobody, &place.path("")).unwrap();
    let options = "--sync-period 1s --healthz-bind-address 127.0.0.1:10256 --metrics-bind-address=";
    let running = place.start_plain(&format!("{options} --kubeconfig {}", path.display()));
    running.wait_for_log("does not let us");
    let get = |path: &str| place.get("127.0.0.1:10256", path).unwrap_or_default();
    place.until("the Node is known, and there are no rules", || {
        let told = get("/healthz");
        told.starts_with("HTTP/1.1 503") && told.contains("\"nodeEligible\":true,\"healthy\":false")
    });
    assert!(get("/livez").starts_with("HTTP/1.1 200"), "a restart would not help: {}", get("/livez"));
    server.forbid_nothing();
    running.wait_for("portway is in sync");
    place.until("clients may come", || get("/healthz").starts_with("HTTP/1.1 200"));
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

/// Puts a Service whose port for load balancers somebody else has.
fn put_unanswerable(place: &Place, server: &MockApi) -> TcpListener {
    let mut balanced = service("balanced", "10.96.0.90");
    balanced["spec"]["type"] = json!("LoadBalancer");
    balanced["spec"]["externalTrafficPolicy"] = json!("Local");
    balanced["spec"]["healthCheckNodePort"] = json!(32_000);
    server.put(SERVICES, balanced);
    place.inside(|| TcpListener::bind("0.0.0.0:32000").unwrap())
}

#[test]
fn root_the_cluster_hears_that_portway_started_and_of_a_port_that_cannot_be_had() {
    let Some(place) = place() else { return };
    let server = server(&place);
    let _taken = put_unanswerable(&place, &server);
    let running = start(&place, &server);
    running.wait_for("portway is in sync");
    place.until("both Events", || server.events().len() == 2);
    let word = |event: &Value| format!("{} {}", event["reason"], event["regarding"]["kind"]);
    let said: Vec<String> = server.events().iter().map(word).collect();
    assert_eq!(said, ["\"Starting\" \"Node\"", "\"FailedToStartServiceHealthcheck\" \"Service\""]);
}

#[test]
fn root_who_may_not_write_events_is_told_once_and_works() {
    let Some(place) = place() else { return };
    let server = server(&place);
    server.forbid("create", EVENTS);
    let _taken = put_unanswerable(&place, &server);
    let running = start(&place, &server);
    running.wait_for("portway is in sync");
    let tried = || server.seen().iter().filter(|seen| seen.resource == Some(EVENTS)).count();
    place.until("two Events were tried", || tried() == 2);
    running.wait_for_log("Events are not sent: the API server does not let us (403)");
    assert_eq!(running.logged("Events are not sent"), 1);
    assert!(place.portway("status").has_ended_with(0));
}

#[test]
fn root_a_portway_that_ends_because_its_port_is_taken_says_so_to_the_cluster() {
    let Some(place) = place() else { return };
    let server = server(&place);
    let _taken = place.inside(|| TcpListener::bind("127.0.0.1:10249").unwrap());
    let path = kubeconfig(&server, &User::Nobody, &place.path("")).unwrap();
    let words = format!(
        "run --bind-address-hard-fail --metrics-bind-address 127.0.0.1:10249 --kubeconfig {}",
        path.display()
    );
    place.portway(&words).refused(1, &["127.0.0.1:10249"]);
    let said: Vec<_> = server.events().iter().map(|event| event["reason"].clone()).collect();
    assert_eq!(said, ["FailedToStartMetricServer"]);
}

#[test]
fn root_the_time_from_a_change_in_the_cluster_to_the_kernel_is_measured() {
    let Some(place) = place() else { return };
    let server = server(&place);
    let running = start(&place, &server);
    running.wait_for("portway is in sync");
    let timed = |what: &str| {
        place.metric(&format!("kubeproxy_network_programming_duration_seconds_{what}{{ip_family=\"IPv4\"}}"))
    };
    let put = |at: jiff::Timestamp, address: &str| {
        let mut slice = slice("web", &[address]);
        slice["metadata"]["annotations"] =
            json!({"endpoints.kubernetes.io/last-change-trigger-time": at.to_string()});
        server.put(SLICES, slice);
        place.until("the new endpoint is there", || rules(&place).contains(address));
    };
    let now = jiff::Timestamp::now();
    put(now - Duration::from_secs(3600), "10.244.0.3");
    put(now, "10.244.0.4");
    place.until("the second is timed", || timed("count") == Some(1.0));
    assert!(timed("sum").is_some_and(|sum| sum < 60.0), "the first happened before portway was there");
}
