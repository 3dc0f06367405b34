//! Each fault, one by one: what was told stays, trouble is told in words, and it goes on by itself.

use std::time::{Duration, Instant};

use apiserver::{Pace, Watched};
use mockapi::objects::{node, service, slice};
use mockapi::{Fault, MockApi, Offers, Options, Requests, SERVICES, SLICES};
use serde_json::json;

use crate::listener::{Listener, quick};

pub(crate) fn server() -> MockApi {
    let server = MockApi::start(Options::default()).unwrap();
    server.put(SERVICES, service("web", "10.96.0.1"));
    server.put(SLICES, slice("web", &["10.244.2.7"]));
    server
}

pub(crate) fn in_pages() -> MockApi {
    let server = server();
    server.offer(Offers { streaming_lists: false, ..Offers::default() });
    server
}

/// A fault while the list is read, and one while it is watched: each is told with these words, and each is survived.
fn survives(fault: &Fault, words: &str) {
    for streaming_lists in [true, false] {
        let server = server();
        server.offer(Offers { streaming_lists, ..Offers::default() });
        let requests = if streaming_lists { Requests::Watches(SERVICES) } else { Requests::Lists(SERVICES) };
        server.fault(requests, fault.clone(), Some(2));
        let mut seen = Listener::of(&server);
        let trouble = seen.until_trouble(words);
        assert_eq!(trouble.of, Watched::Services, "{trouble:?}");
        seen.until_services(&["web"]);
        seen.until_complete();
        seen.troubles.clear();
        server.fault(Requests::Watches(SERVICES), fault.clone(), Some(2));
        server.cut();
        seen.until_trouble(words);
        assert_eq!(seen.services(), ["default/web"], "what was told stays");
        server.put(SERVICES, service("db", "10.96.0.2"));
        seen.until_services(&["db", "web"]);
    }
}

#[test]
fn a_server_that_is_gone_at_the_start_is_waited_for() {
    let mut server = server();
    server.stop();
    let mut seen = Listener::of(&server);
    let trouble = seen.until_trouble("cannot be reached");
    assert!(trouble.reason.contains("refused"), "{}", trouble.reason);
    server.start_again().unwrap();
    seen.until_complete();
    assert_eq!(seen.services(), ["default/web"]);
}

#[test]
fn a_server_that_goes_away_later_takes_nothing_with_it() {
    let mut server = server();
    let mut seen = Listener::of(&server);
    seen.until_complete();
    server.stop();
    seen.until_trouble("cannot be reached");
    assert_eq!(seen.services(), ["default/web"]);
    server.start_again().unwrap();
    server.put(SERVICES, service("db", "10.96.0.2"));
    seen.until_services(&["db", "web"]);
    assert_eq!(seen.lists[&Watched::Services], 1, "it goes on from where it was, without a new list");
}

#[test]
fn a_connection_that_ends_without_an_answer_is_survived() {
    survives(&Fault::Hangup, "cannot be reached");
}

#[test]
fn a_server_that_fails_is_survived() {
    survives(&Fault::Status { code: 500, retry_after: None }, "the API server failed (500");
}

#[test]
fn an_account_that_is_refused_for_a_while_is_survived() {
    survives(&Fault::Status { code: 401, retry_after: None }, "401");
}

#[test]
fn a_missing_permission_is_named_with_what_to_add() {
    let server = in_pages();
    server.forbid("list", SERVICES);
    server.forbid("watch", SLICES);
    let mut seen = Listener::of(&server);
    let trouble = seen.until_trouble("list services");
    assert!(!trouble.is_refusal && !trouble.reason.contains("ClusterRole"), "it may pass: {trouble:?}");
    let trouble = seen.until_trouble("list services (403");
    assert!(trouble.is_refusal, "{trouble:?}");
    for words in [
        "(403",
        "cannot list resource \\\"services\\\"",
        "apiGroups: [\"\"], resources: [\"services\"], verbs: [\"list\", \"watch\"]",
    ] {
        assert!(trouble.reason.contains(&words.replace("\\\"", "\"")), "{words}: {}", trouble.reason);
    }
    let trouble = seen.until_trouble("watch endpointslices (403");
    assert!(
        trouble.reason.contains("apiGroups: [\"discovery.k8s.io\"], resources: [\"endpointslices\"]"),
        "{}",
        trouble.reason
    );
    server.forbid_nothing();
    seen.until_complete();
    assert_eq!(seen.services(), ["default/web"]);
}

#[test]
fn a_server_that_refuses_us_for_a_moment_while_it_starts_is_told_without_advice() {
    for code in [401, 403] {
        let mut server = server();
        let mut seen = Listener::of(&server);
        seen.until_complete();
        let mut troubles = Vec::new();
        for _ in 0..2 {
            server.stop();
            seen.until_trouble("cannot be reached");
            server.fault(Requests::All, Fault::Status { code, retry_after: None }, Some(2));
            server.start_again().unwrap();
            let trouble = seen.until_trouble("This is normal for a short time while it starts");
            assert!(trouble.reason.contains(&format!("({code}")), "{}", trouble.reason);
            server.put(SERVICES, service("db", "10.96.0.2"));
            seen.until_services(&["db", "web"]);
            server.remove(SERVICES, "default/db");
            seen.until_services(&["web"]);
            troubles.append(&mut seen.troubles);
        }
        let advice = |word: &str| troubles.iter().any(|trouble| trouble.reason.contains(word));
        assert!(!advice("ClusterRole") && !advice("expired"), "{troubles:?}");
        assert!(troubles.iter().all(|trouble| !trouble.is_refusal), "{troubles:?}");
    }
}

#[test]
fn a_version_that_is_gone_makes_us_list_anew_and_miss_nothing() {
    let gone = Fault::Status { code: 410, retry_after: None };
    for fault in [gone, Fault::GoneEvent] {
        let server = server();
        let mut seen = Listener::of(&server);
        seen.until_complete();
        server.fault(Requests::Watches(SERVICES), fault, Some(1));
        server.cut();
        server.put(SERVICES, service("db", "10.96.0.2"));
        server.remove(SERVICES, "default/web");
        seen.until_services(&["db"]);
        seen.until("a new list", |seen| seen.lists[&Watched::Services] == 2);
        assert!(seen.troubles.iter().any(|trouble| trouble.reason.contains("410")), "{:?}", seen.troubles);
    }
}

#[test]
fn what_happened_while_we_were_away_is_found_by_the_new_list() {
    for streaming_lists in [true, false] {
        let mut server = server();
        server.offer(Offers { streaming_lists, ..Offers::default() });
        for number in 0..700 {
            server.put(
                SERVICES,
                service(&format!("s{number:03}"), &format!("10.97.{}.{}", number / 250, number % 250 + 1)),
            );
        }
        let mut seen = Listener::of(&server);
        seen.until_complete();
        let told = seen.changes;
        server.stop();
        server.remove(SERVICES, "default/s000");
        server.put(SERVICES, service("db", "10.96.0.2"));
        server.compact();
        server.start_again().unwrap();
        seen.until("the new Service, and one less", |seen| {
            let services = seen.services();
            services.contains(&"default/db".to_owned()) && !services.contains(&"default/s000".to_owned())
        });
        assert_eq!(seen.changes, told + 2, "what is the same is not told again");
    }
}

#[test]
fn a_busy_server_is_given_the_time_that_it_asks_for() {
    let server = server();
    server.fault(Requests::Of(SERVICES), Fault::Status { code: 429, retry_after: Some(1) }, Some(1));
    let begun = Instant::now();
    let mut seen = Listener::of(&server);
    let trouble = seen.until_trouble("(429");
    assert!(trouble.retry_in >= Duration::from_secs(1), "{trouble:?}");
    assert!(trouble.reason.contains("asks us to wait 1 s"), "{}", trouble.reason);
    seen.until_complete();
    assert!(begun.elapsed() >= Duration::from_secs(1));
    let asked: Vec<Instant> =
        server.seen().iter().filter(|seen| seen.resource == Some(SERVICES)).map(|seen| seen.at).collect();
    assert!(asked[1] - asked[0] >= Duration::from_secs(1), "the second request came too soon");
}

#[test]
fn a_slow_server_is_no_trouble_as_long_as_it_says_something() {
    for streaming_lists in [true, false] {
        let server = server();
        server.offer(Offers { streaming_lists, ..Offers::default() });
        server.fault(Requests::Of(SERVICES), Fault::Slow { pause: Duration::from_millis(30) }, None);
        let mut seen = Listener::paced(&server, Pace { silence: Duration::from_secs(2), ..quick() });
        seen.until_complete();
        assert_eq!(seen.services(), ["default/web"]);
        assert!(seen.troubles.is_empty(), "{:?}", seen.troubles);
    }
}

#[test]
fn an_answer_that_is_cut_in_the_middle_of_an_object_is_survived() {
    survives(&Fault::Cut { after: 300 }, "ended in the middle of an answer");
}

#[test]
fn garbage_is_survived() {
    survives(&Fault::Garbage, "is no Kubernetes list or watch");
    survives(&Fault::NotHttp, "cannot be reached");
}

#[test]
fn garbage_in_place_of_a_list_is_called_so() {
    let server = in_pages();
    server.fault(Requests::Lists(SERVICES), Fault::Garbage, Some(1));
    let mut seen = Listener::of(&server);
    let trouble = seen.until_trouble("cannot be understood");
    for words in ["its answer about services is no Kubernetes list", "it begins with `", "(28 bytes; "] {
        assert!(trouble.reason.contains(words), "no {words:?} in {}", trouble.reason);
    }
    seen.until_complete();
}

#[test]
fn garbage_is_no_sign_that_the_server_answers_again() {
    let server = server();
    let mut seen = Listener::of(&server);
    seen.until("all four are complete", |seen| seen.complete.len() == 4);
    server.fault(Requests::Watches(SERVICES), Fault::Garbage, Some(3));
    server.cut();
    seen.until("three troubles", |seen| {
        seen.troubles.iter().filter(|trouble| trouble.reason.contains("is no Kubernetes list")).count() == 3
    });
    assert_eq!(seen.answered.get(&Watched::Services), None);
    server.put(SERVICES, service("db", "10.96.0.2"));
    seen.until_services(&["db", "web"]);
}

#[test]
fn a_line_that_is_no_json_makes_us_list_anew() {
    let server = server();
    let mut seen = Listener::of(&server);
    seen.until_complete();
    server.fault(Requests::Watches(SERVICES), Fault::BadLine, Some(1));
    server.cut();
    seen.until_trouble("cannot be understood");
    server.put(SERVICES, service("db", "10.96.0.2"));
    seen.until_services(&["db", "web"]);
}

#[test]
fn one_object_that_makes_no_sense_is_reported_and_the_rest_goes_on() {
    for streaming_lists in [true, false] {
        let server = server();
        server.offer(Offers { streaming_lists, ..Offers::default() });
        server.put(SERVICES, json!({"metadata": {"name": {"is": "no text"}, "namespace": "default"}}));
        let mut half = service("half", "10.96.0.9");
        half["spec"]["ports"] = json!("no list");
        server.put(SERVICES, half);
        let mut seen = Listener::of(&server);
        seen.until_complete();
        assert_eq!(seen.services(), ["default/half", "default/web"]);
        assert_eq!(seen.unreadable.len(), 1, "{:?}", seen.unreadable);
        assert!(seen.unreadable[0].contains("metadata.name"), "{:?}", seen.unreadable);
        let reports: Vec<String> = seen.cluster.reports().map(ToString::to_string).collect();
        assert!(reports.iter().any(|report| report.contains("default/half: spec.ports")), "{reports:?}");
        // One that comes later is reported, too.
        server.put(SERVICES, json!({"metadata": {"name": 7}}));
        server.put(SERVICES, service("db", "10.96.0.2"));
        seen.until_services(&["db", "half", "web"]);
        seen.until("the second report", |seen| seen.unreadable.len() == 2);
        assert!(seen.troubles.is_empty(), "{:?}", seen.troubles);
    }
}

#[test]
fn a_watch_that_goes_silent_is_noticed_and_asked_anew() {
    let server = server();
    let mut seen = Listener::paced(&server, Pace { silence: Duration::from_millis(300), ..quick() });
    seen.until_complete();
    server.fault(Requests::Watches(SERVICES), Fault::Silence, Some(1));
    server.cut();
    // This happens while nobody is told.
    server.put(SERVICES, service("db", "10.96.0.2"));
    seen.until_services(&["db", "web"]);
    assert_eq!(seen.lists[&Watched::Services], 1, "it is asked from where it was");
    let silent = seen.troubles.iter().filter(|trouble| trouble.reason.contains("silent")).count();
    assert_eq!(silent, 0, "a server that has nothing to say is no trouble: {:?}", seen.troubles);
}

#[test]
fn a_server_that_takes_watches_and_says_nothing_is_not_taken_for_a_sign_that_nothing_happened() {
    let server = server();
    let mut seen = Listener::paced(&server, Pace { silence: Duration::from_millis(300), ..quick() });
    seen.until("all four are complete", |seen| seen.complete.len() == 4);
    server.fault(Requests::Watches(SERVICES), Fault::Silence, Some(4));
    server.cut();
    // This happens while nobody is told.
    server.put(SERVICES, service("db", "10.96.0.2"));
    let heard = seen.heard;
    seen.until("four watches that the server took", |seen| seen.answered.get(&Watched::Services) == Some(&4));
    assert_eq!((seen.heard, seen.services()), (heard, vec!["default/web".to_owned()]), "nothing was heard");
    seen.until_services(&["db", "web"]);
    seen.until("a second list", |seen| seen.lists[&Watched::Services] == 2);
}

#[test]
fn a_watch_that_goes_silent_in_the_middle_of_a_line_is_trouble() {
    let server = server();
    let mut seen = Listener::paced(&server, Pace { silence: Duration::from_millis(300), ..quick() });
    seen.until_complete();
    server.fault(Requests::Watches(SERVICES), Fault::HalfLine, Some(1));
    server.cut();
    seen.until_trouble("silent for 0.");
    server.put(SERVICES, service("db", "10.96.0.2"));
    seen.until_services(&["db", "web"]);
}

#[test]
fn a_silence_is_told_as_long_as_it_was() {
    let server = in_pages();
    let silence = Duration::from_millis(400);
    let mut seen = Listener::paced(&server, Pace { silence, answer: silence, ..quick() });
    seen.until("all four are complete", |seen| seen.complete.len() == 4);
    let begun = Instant::now();
    // Four watches are taken and say nothing, and then a list is never answered.
    seen.answered.clear();
    server.fault(Requests::Watches(SERVICES), Fault::Silence, None);
    server.cut();
    seen.until("the first of them", |seen| seen.answered.contains_key(&Watched::Services));
    server.fault(Requests::Lists(SERVICES), Fault::Silence, None);
    let trouble = seen.until_trouble("silent for");
    let told = trouble.reason.split("silent for ").nth(1).and_then(|rest| rest.split(' ').next());
    let told: f32 = told.unwrap().parse().unwrap();
    assert!(told >= 1.9, "{}", trouble.reason);
    assert!(told <= begun.elapsed().as_secs_f32() + silence.as_secs_f32(), "{}", trouble.reason);
}

#[test]
fn bookmarks_keep_a_quiet_watch_from_being_taken_for_a_silent_one() {
    let server = server();
    let mut seen = Listener::paced(&server, Pace { silence: Duration::from_secs(2), ..quick() });
    // A watch that has not begun yet gets no bookmark: waiting for it would be the silence.
    seen.until("all four are complete", |seen| seen.complete.len() == 4);
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(3) {
        let heard = seen.heard;
        server.bookmark();
        seen.until("the bookmarks", |seen| seen.heard >= heard + 4);
        std::thread::park_timeout(Duration::from_millis(50));
    }
    assert!(seen.troubles.is_empty(), "{:?}", seen.troubles);
    let asked = server.seen().iter().filter(|seen| seen.resource == Some(SERVICES)).count();
    assert_eq!(asked, 1, "the first watch still lives");
}

#[test]
fn a_list_that_never_comes_is_noticed() {
    for streaming_lists in [true, false] {
        let server = server();
        server.offer(Offers { streaming_lists, ..Offers::default() });
        server.fault(Requests::Of(SERVICES), Fault::Silence, Some(1));
        let pace =
            Pace { silence: Duration::from_millis(300), answer: Duration::from_millis(300), ..quick() };
        let mut seen = Listener::paced(&server, pace);
        seen.until_trouble("silent");
        seen.until_complete();
        assert_eq!(seen.services(), ["default/web"]);
    }
}

#[test]
fn trouble_with_one_kind_leaves_the_others_alone() {
    let server = server();
    server.fault(Requests::Of(SLICES), Fault::Status { code: 500, retry_after: None }, None);
    let mut seen = Listener::of(&server);
    seen.until_services(&["web"]);
    seen.until_trouble("500");
    server.put(SERVICES, service("db", "10.96.0.2"));
    seen.until_services(&["db", "web"]);
    assert!(!seen.complete.contains(&Watched::EndpointSlices));
    server.put(mockapi::NODES, node("a", "192.0.2.1"));
    seen.until("the Node", |seen| seen.cluster.node().is_some());
}

#[test]
fn waits_grow_while_the_server_is_gone() {
    let mut server = server();
    server.stop();
    let mut seen = Listener::paced(&server, Pace { wait_max: Duration::from_secs(5), ..quick() });
    seen.until("six failures of one kind", |seen| {
        seen.troubles.iter().filter(|trouble| trouble.of == Watched::Services).count() >= 6
    });
    let of_services = seen.troubles.iter().filter(|trouble| trouble.of == Watched::Services);
    let waits: Vec<Duration> = of_services.map(|trouble| trouble.retry_in).collect();
    assert!(waits[5] > waits[0] * 4, "{waits:?}");
}

#[test]
fn after_something_went_well_the_next_failure_is_a_first_one() {
    for streaming_lists in [true, false] {
        let mut server = server();
        server.offer(Offers { streaming_lists, ..Offers::default() });
        server.stop();
        let mut seen = Listener::paced(&server, Pace { wait_max: Duration::from_secs(5), ..quick() });
        let of_services = |seen: &Listener| -> Vec<Duration> {
            let troubles = seen.troubles.iter().filter(|trouble| trouble.of == Watched::Services);
            troubles.map(|trouble| trouble.retry_in).collect()
        };
        seen.until("seven failures", |seen| of_services(seen).len() == 7);
        assert!(of_services(&seen)[6] >= quick().wait_min * 32);
        server.start_again().unwrap();
        seen.until_complete();
        seen.troubles.clear();
        server.fault(Requests::Watches(SERVICES), Fault::Hangup, Some(1));
        server.cut();
        seen.until("the first failure after it", |seen| !of_services(seen).is_empty());
        assert!(of_services(&seen)[0] <= quick().wait_min, "{:?}", seen.troubles);
    }
}

#[test]
fn who_waits_tries_at_once_when_another_kind_finds_the_server() {
    let mut server = server();
    server.stop();
    // From two to four seconds each.
    let (wait, begun) = (Duration::from_secs(4), Instant::now());
    let mut seen = Listener::paced(&server, Pace { wait_min: wait, wait_max: wait, ..quick() });
    seen.until("all four have failed", |seen| {
        Watched::ALL.iter().all(|of| seen.troubles.iter().any(|trouble| trouble.of == *of))
    });
    server.start_again().unwrap();
    seen.until("all four are complete", |seen| seen.complete.len() == 4);
    let longest = seen.troubles.iter().map(|trouble| trouble.retry_in).max().unwrap();
    assert!(begun.elapsed() < longest, "the last one has waited to its end: {:?}", seen.troubles);
}

#[test]
fn a_server_that_comes_back_with_nothing_to_say_is_found_by_all_at_once() {
    let mut server = server();
    // From four to eight seconds each, so that they seldom end together.
    let wait = Duration::from_secs(8);
    let mut seen = Listener::paced(&server, Pace { wait_min: wait, wait_max: wait, ..quick() });
    seen.until("all four are complete", |seen| seen.complete.len() == 4);
    let begun = Instant::now();
    server.stop();
    seen.until("all four have failed", |seen| {
        Watched::ALL.iter().all(|of| seen.troubles.iter().any(|trouble| trouble.of == *of))
    });
    seen.answered.clear();
    server.start_again().unwrap();
    seen.until("a watch of each", |seen| seen.answered.len() == 4);
    let longest = seen.troubles.iter().map(|trouble| trouble.retry_in).max().unwrap();
    assert!(begun.elapsed() < longest, "the last one has waited to its end: {:?}", seen.troubles);
}
