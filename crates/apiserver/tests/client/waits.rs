//! How long the next try waits once the server answers again: what an outage taught is forgotten, and lists stay dear.

use std::time::{Duration, Instant};

use apiserver::{Pace, Watched};
use mockapi::objects::{service, slice};
use mockapi::{Fault, Offers, Requests, SERVICES, SLICES};

use crate::faults::{in_pages, server};
use crate::listener::{Listener, quick};

/// The waits of one kind.
fn waits_of_services(seen: &Listener) -> Vec<Duration> {
    let troubles = seen.troubles.iter().filter(|trouble| trouble.of == Watched::Services);
    troubles.map(|trouble| trouble.retry_in).collect()
}

#[test]
fn a_version_that_is_gone_after_an_outage_makes_us_list_at_once() {
    for streaming_lists in [true, false] {
        let mut server = server();
        server.offer(Offers { streaming_lists, ..Offers::default() });
        let mut seen = Listener::paced(&server, Pace { wait_max: Duration::from_secs(5), ..quick() });
        seen.until("all four are complete", |seen| seen.complete.len() == 4);
        server.stop();
        seen.until("a grown wait", |seen| {
            waits_of_services(seen).last().is_some_and(|wait| *wait >= quick().wait_min * 32)
        });
        server.put(SERVICES, service("db", "10.96.0.2"));
        server.compact();
        server.start_again().unwrap();
        let trouble = seen.until_trouble("410");
        assert!(trouble.retry_in <= quick().wait_min, "{trouble:?}");
        seen.until_services(&["db", "web"]);
    }
}

#[test]
fn a_server_that_forgets_each_of_its_lists_is_asked_for_them_ever_more_seldom() {
    for streaming_lists in [true, false] {
        let server = server();
        server.offer(Offers { streaming_lists, ..Offers::default() });
        let mut seen = Listener::paced(&server, Pace { wait_max: Duration::from_secs(5), ..quick() });
        seen.until("all four are complete", |seen| seen.complete.len() == 4);
        server.fault(Requests::Watches(SERVICES), Fault::GoneEvent, None);
        server.cut();
        seen.until("a grown wait after 410", |seen| {
            let gone = seen.troubles.iter().filter(|trouble| trouble.reason.contains("410"));
            gone.map(|trouble| trouble.retry_in).max() >= Some(quick().wait_min * 32)
        });
    }
}

#[test]
fn quiet_watches_for_a_while_make_the_next_failure_a_first_one() {
    let server = in_pages();
    let (calm, silence) = (Duration::from_millis(450), Duration::from_millis(200));
    let mut seen =
        Listener::paced(&server, Pace { wait_max: Duration::from_secs(5), calm, silence, ..quick() });
    seen.until("all four are complete", |seen| seen.complete.len() == 4);
    server.fault(Requests::Of(SERVICES), Fault::Status { code: 500, retry_after: None }, None);
    server.cut();
    seen.until("a grown wait", |seen| {
        waits_of_services(seen).last().is_some_and(|wait| *wait >= quick().wait_min * 32)
    });
    server.no_faults();
    seen.answered.clear();
    // Two of them have ended, without a word and without trouble, and none was as old as `calm`.
    seen.until("three watches", |seen| seen.answered.get(&Watched::Services) == Some(&3));
    seen.troubles.clear();
    server.cut();
    seen.until("the next failure", |seen| !waits_of_services(seen).is_empty());
    assert!(waits_of_services(&seen)[0] <= quick().wait_min, "{:?}", seen.troubles);
}

#[test]
fn after_a_list_in_pages_ended_the_trouble_the_next_failure_is_a_first_one() {
    let server = in_pages();
    server.fault(Requests::Of(SERVICES), Fault::Status { code: 500, retry_after: None }, None);
    let mut seen = Listener::paced(&server, Pace { wait_max: Duration::from_secs(5), ..quick() });
    seen.until("a grown wait", |seen| {
        waits_of_services(seen).last().is_some_and(|wait| *wait >= quick().wait_min * 32)
    });
    server.no_faults();
    seen.until("a watch", |seen| seen.answered.contains_key(&Watched::Services));
    seen.troubles.clear();
    server.fault(Requests::Watches(SERVICES), Fault::Hangup, Some(1));
    server.cut();
    seen.until("two failures", |seen| waits_of_services(seen).len() == 2);
    assert!(waits_of_services(&seen)[0] <= quick().wait_min, "{:?}", seen.troubles);
    assert!(waits_of_services(&seen)[1] <= quick().wait_min * 2, "{:?}", seen.troubles);
}

/// A long row of failures, as where a proxy cuts what is too long for it.
#[test]
fn kinds_whose_lists_are_all_cut_do_not_wake_each_other() {
    for streaming_lists in [true, false] {
        let server = server();
        server.offer(Offers { streaming_lists, ..Offers::default() });
        for number in 0..20 {
            let name = format!("more-{number}");
            server.put(SERVICES, service(&name, &format!("10.96.1.{number}")));
            server.put(SLICES, slice(&name, &["10.244.2.8"]));
        }
        server.fault(Requests::All, Fault::Cut { after: 3000 }, None);
        let begun = Instant::now();
        let mut seen = Listener::paced(&server, Pace { wait_max: Duration::from_secs(5), ..quick() });
        seen.until("ten failures", |seen| waits_of_services(seen).len() == 10);
        let waits = waits_of_services(&seen);
        // One of those before the last may have been ended by somebody who found the server.
        let waited = waits[..8].iter().sum::<Duration>();
        assert!(begun.elapsed() >= waited, "{waits:?} in {:?}", begun.elapsed());
    }
}

#[test]
fn a_list_that_takes_long_to_fail_is_asked_for_ever_more_seldom() {
    let server = in_pages();
    server.fault(Requests::Of(SERVICES), Fault::Silence, None);
    let (calm, silence) = (Duration::from_millis(20), Duration::from_millis(50));
    let mut seen = Listener::paced(
        &server,
        Pace { wait_max: Duration::from_secs(5), calm, silence, answer: silence, ..quick() },
    );
    seen.until("a grown wait", |seen| {
        waits_of_services(seen).last().is_some_and(|wait| *wait >= quick().wait_min * 16)
    });
}

#[test]
fn watches_that_are_cut_after_each_word_are_asked_for_ever_more_seldom() {
    let server = server();
    let mut seen = Listener::paced(&server, Pace { wait_max: Duration::from_secs(5), ..quick() });
    let mut names = vec!["web".to_owned()];
    for number in 0..8 {
        names.push(format!("x{number}"));
        server.put(SERVICES, service(&names[number + 1], &format!("10.96.2.{number}")));
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        seen.until_services(&names);
        let before = waits_of_services(&seen).len();
        server.cut();
        seen.until("it is cut", |seen| waits_of_services(seen).len() > before);
    }
    let waits = waits_of_services(&seen);
    assert!(waits.iter().max() >= Some(&(quick().wait_min * 16)), "{waits:?}");
}
