//! What we say to the cluster: it arrives, and it never costs more than it is worth.

use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use apiserver::{Access, Announcement, Announcer, Pace, Regarding, Sending, Settings, Tone, announce_now};
use mockapi::{EVENTS, Fault, MockApi, Options, Requests};
use model::ServiceName;
use serde_json::{Value, json};

use crate::listener::quick;

const PATIENCE: Duration = Duration::from_secs(20);

/// Who announces, and what a person was told.
struct Announcing {
    announcer: Announcer,
    told: Receiver<String>,
}

fn settings(server: &MockApi) -> Settings {
    let (access, pace) = (Access::Master(server.url()), Pace { answer: PATIENCE, ..quick() });
    Settings { access, node_name: "a".into(), service_proxy_name: None, pace }
}

fn announcing(server: &MockApi) -> Announcing {
    let (announcer, sending) = Sending::to(&settings(server));
    let (sender, told) = channel();
    thread::spawn(move || sending.serve(&mut |sentence| drop(sender.send(sentence.to_owned()))));
    Announcing { announcer, told }
}

fn server() -> MockApi {
    MockApi::start(Options::default()).unwrap()
}

fn started() -> Announcement {
    let (reason, action, regarding) = ("Starting", "StartKubeProxy", Regarding::Node);
    Announcement { reason, tone: Tone::Normal, action, regarding, note: String::new() }
}

fn refused(service: &str, note: &str) -> Announcement {
    let regarding = Regarding::Service(ServiceName::new("shop", service));
    let (reason, action, note) = ("ServicePortRefused", "Sync", note.to_owned());
    Announcement { reason, tone: Tone::Warning, action, regarding, note }
}

/// Waits until the Events at the server are so.
fn until(server: &MockApi, what: &str, is_so: impl Fn(&[Value]) -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so(&server.events()) {
        assert!(Instant::now() < deadline, "never came: {what}. {:#?}", server.events());
        thread::yield_now();
    }
}

fn requests(server: &MockApi) -> usize {
    server.seen().iter().filter(|seen| seen.resource == Some(EVENTS)).count()
}

#[test]
fn an_event_arrives_as_upstreams_recorder_writes_it() {
    let server = server();
    let saying = announcing(&server);
    assert!(saying.announcer.say(started()));
    assert!(saying.announcer.say(refused("web", "port shop/web:http/tcp is refused")));
    until(&server, "two Events", |events| events.len() == 2);
    let [start, refusal] = server.events().try_into().unwrap();
    assert_eq!(start["metadata"]["namespace"], "default");
    assert_eq!(start["regarding"], json!({"apiVersion": "v1", "kind": "Node", "name": "a"}));
    let words = ["reason", "type", "action", "reportingController", "reportingInstance"];
    assert_eq!(
        words.map(|word| start[word].as_str().unwrap()),
        ["Starting", "Normal", "StartKubeProxy", "kube-proxy", "kube-proxy-a"]
    );
    assert_eq!((&refusal["type"], &refusal["metadata"]["namespace"]), (&json!("Warning"), &json!("shop")));
    assert!(saying.told.try_recv().is_err(), "nobody needs to know");
}

#[test]
fn what_is_said_again_is_counted_in_the_event_that_is_there() {
    let server = server();
    let saying = announcing(&server);
    for _ in 0..20 {
        assert!(saying.announcer.say(refused("web", "again")));
    }
    until(&server, "a series", |events| events.iter().any(|event| event["series"]["count"] == 2));
    assert!(saying.announcer.say(started()));
    until(&server, "what was said after it", |events| events.len() == 2);
    assert_eq!(requests(&server), 3, "made, patched once, and another one made");
}

#[test]
fn a_series_whose_event_the_server_has_forgotten_is_made_anew() {
    let server = server();
    let saying = announcing(&server);
    assert!(saying.announcer.say(refused("web", "again")));
    until(&server, "an Event", |events| events.len() == 1);
    server.forget_events();
    assert!(saying.announcer.say(refused("web", "again")));
    until(&server, "the Event with its series", |events| {
        events.iter().any(|event| event["series"]["count"] == 2 && event["reason"] == "ServicePortRefused")
    });
}

#[test]
fn a_missing_permission_is_one_sentence_and_nothing_else() {
    let server = server();
    server.forbid("create", EVENTS);
    let saying = announcing(&server);
    for number in 0..5 {
        assert!(saying.announcer.say(refused(&format!("web-{number}"), "no")));
    }
    let said = saying.told.recv_timeout(PATIENCE).unwrap();
    assert!(said.contains("apiGroups: [\"events.k8s.io\"]") && said.contains("\"create\""), "{said}");
    until(&server, "five refusals, and three of the first letter before", |_| requests(&server) == 8);
    assert!(server.events().is_empty());
    server.forbid_nothing();
    assert!(saying.announcer.say(started()));
    until(&server, "the Event after the permission came", |events| {
        events.iter().any(|event| event["reason"] == "Starting")
    });
    assert_eq!(requests(&server), 9, "no other try is repeated");
    assert!(saying.told.try_recv().is_err(), "it is told once");
}

#[test]
fn a_storm_is_bounded_and_told_once() {
    let server = server();
    let saying = announcing(&server);
    let begun = Instant::now();
    let mut taken = 0;
    for number in 0..10_000 {
        taken += usize::from(saying.announcer.say(refused("web", &number.to_string())));
    }
    assert!(begun.elapsed() < Duration::from_secs(5), "saying waits for nobody");
    let said = saying.told.recv_timeout(PATIENCE).unwrap();
    assert!(said.contains("too many different Events"), "{said}");
    until(&server, "the first of them", |events| events.len() == 25);
    // One more for every ten seconds that this machine took.
    let more = usize::try_from(begun.elapsed().as_secs() / 10).unwrap() + 1;
    assert!(requests(&server) <= 25 + more, "{} requests for {taken} that were taken", requests(&server));
    assert!(saying.told.try_recv().is_err());
}

#[test]
fn a_server_that_is_away_is_tried_a_few_times_and_the_rest_is_dropped() {
    let server = server();
    let saying = announcing(&server);
    assert!(saying.announcer.say(started()));
    until(&server, "the server was there", |events| events.len() == 1);
    server.fault(Requests::Of(EVENTS), Fault::Hangup, Some(8));
    assert!(saying.announcer.say(refused("web", "lost after eight tries")));
    assert!(saying.announcer.say(refused("web", "the next one")));
    until(&server, "the next one", |events| events.len() == 2);
    assert_eq!(server.events()[1]["note"], "the next one");
    assert!(saying.told.try_recv().is_err(), "that the server is away is told by those who watch");
    server.fault(Requests::Of(EVENTS), Fault::Status { code: 503, retry_after: None }, Some(3));
    assert!(saying.announcer.say(refused("web", "taken at the fourth try")));
    until(&server, "it", |events| events.len() == 3);
}

#[test]
fn what_is_said_before_the_server_was_ever_there_waits_for_it() {
    let server = server();
    let saying = announcing(&server);
    server.fault(Requests::Of(EVENTS), Fault::Hangup, Some(20));
    assert!(saying.announcer.say(started()));
    until(&server, "twenty tries", |_| requests(&server) >= 20);
    // Much more is said meanwhile than can wait.
    let taken = (0..1000).filter(|n: &u32| saying.announcer.say(refused("web", &n.to_string()))).count();
    assert!(taken < 100, "{taken}");
    until(&server, "the first word", |events| events.iter().any(|event| event["reason"] == "Starting"));
    assert_eq!(server.events()[0]["reason"], "Starting");
}

#[test]
fn whoever_answers_for_a_server_that_is_away_or_is_only_starting_costs_no_first_word() {
    for (code, times) in [(503, 20), (401, 20), (403, 3)] {
        let server = server();
        let saying = announcing(&server);
        server.fault(Requests::Of(EVENTS), Fault::Status { code, retry_after: None }, Some(times));
        assert!(saying.announcer.say(started()));
        until(&server, "the first word", |events| events.iter().any(|event| event["reason"] == "Starting"));
        assert!(saying.told.try_recv().is_err(), "nobody needs to know of {code}");
    }
}

#[test]
fn a_server_that_restarts_and_does_not_know_our_permissions_for_a_moment_costs_no_word() {
    let server = server();
    let saying = announcing(&server);
    assert!(saying.announcer.say(started()));
    until(&server, "the first word", |events| events.len() == 1);
    server.fault(Requests::Of(EVENTS), Fault::Status { code: 403, retry_after: None }, Some(3));
    assert!(saying.announcer.say(refused("web", "no")));
    until(&server, "the word after the restart", |events| events.len() == 2);
    assert!(saying.told.try_recv().is_err(), "nobody needs to know of it");
}

#[test]
fn the_last_word_is_said_before_the_end_or_not_at_all() {
    let mut server = server();
    assert!(announce_now(&settings(&server), started(), PATIENCE));
    assert_eq!(server.events().len(), 1);
    server.stop();
    assert!(!announce_now(&settings(&server), started(), PATIENCE));
}
