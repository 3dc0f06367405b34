//! The HTTP servers as clients meet them: real sockets on loopback, and clients that behave well, badly, or not at all.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed, and says where")]

mod balancers;
mod client;
mod crowds;
mod pages;
mod place;
mod upstream;

use std::time::Duration;

use observe::health::HealthFacts;
use serde_json::Value;

use client::{ask, until};
use place::Place;

fn healthy() -> HealthFacts {
    HealthFacts {
        is_bare: false,
        families: model::Family::ALL.to_vec(),
        updated: Some(model::time::Timestamp(1_700_000_000)),
        behind_since: None,
        patience: Duration::from_secs(60),
        is_node_eligible: true,
        is_in_force: true,
        behind_because: None,
    }
}

#[test]
fn health_is_answered_with_upstreams_body_and_headers() {
    let place = Place::new();
    for (path, has_node) in [("/healthz", true), ("/livez", false)] {
        let answer = ask(place.health, path);
        assert_eq!(answer.code, 200, "{answer:?}");
        assert_eq!(answer.header("content-type"), Some("application/json"));
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        let body: Value = serde_json::from_str(&answer.body).unwrap();
        assert_eq!((body["healthy"] == true, body.get("nodeEligible").is_some()), (true, has_node), "{body}");
        assert_eq!(body["status"]["IPv6"]["lastUpdated"], "2023-11-14T22:13:20Z");
    }
    place.board.publish(HealthFacts { is_node_eligible: false, ..healthy() }, place::counted());
    assert_eq!((ask(place.health, "/healthz").code, ask(place.health, "/livez").code), (503, 200));
    let late = HealthFacts { behind_since: Some(Duration::ZERO), patience: Duration::ZERO, ..healthy() };
    place.board.publish(late, place::counted());
    assert_eq!((ask(place.health, "/healthz").code, ask(place.health, "/livez").code), (503, 503));
    let metrics = ask(place.metrics, "/metrics").body;
    for line in [
        "kubeproxy_proxy_healthz_total{code=\"200\"} 1",
        "kubeproxy_proxy_healthz_total{code=\"503\"} 2",
        "kubeproxy_proxy_livez_total{code=\"200\"} 2",
        "kubeproxy_proxy_livez_total{code=\"503\"} 1",
        "portway_healthy 0",
    ] {
        assert!(metrics.lines().any(|found| found == line), "no {line} in {metrics}");
    }
}

#[test]
fn a_port_that_another_program_has_is_told_and_taken_when_it_is_free() {
    let squatter = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let at = squatter.local_addr().unwrap();
    let place = Place::at(at, client::free_port("127.0.0.1"));
    until("the failure is told", || {
        place.failing().iter().any(|failing| failing.contains("another program"))
    });
    assert_eq!(ask(place.metrics, "/proxyMode").body, "nftables", "all else is answered");
    drop(squatter);
    until("the recovery is told", || place.failing().is_empty());
    assert_eq!(ask(at, "/healthz").code, 200);
}

#[test]
fn they_listen_where_configured_and_nowhere_else() {
    let place = Place::new();
    for (port, other) in [
        (place.health.port(), "127.0.0.2"),
        (place.metrics.port(), "127.0.0.2"),
        (place.health.port(), "::1"),
    ] {
        let refused = std::net::TcpStream::connect((other, port));
        assert_eq!(refused.unwrap_err().kind(), std::io::ErrorKind::ConnectionRefused, "at {other}");
    }
    let nowhere = Place::nowhere();
    assert!(nowhere.failing().is_empty());
}

#[test]
fn all_addresses_are_those_of_both_families() {
    let port = client::free_port("0.0.0.0").port();
    let _place = Place::at(([0, 0, 0, 0], port).into(), client::free_port("127.0.0.1"));
    assert_eq!(ask(([127, 0, 0, 1], port).into(), "/healthz").code, 200);
    if std::net::TcpListener::bind("[::1]:0").is_err() {
        return eprintln!("skipped: this host has no IPv6");
    }
    assert_eq!(ask(format!("[::1]:{port}").parse().unwrap(), "/healthz").code, 200);
}

#[test]
fn after_closing_the_ports_are_free_at_once() {
    let place = Place::new();
    let (health, metrics) = (place.health, place.metrics);
    let idle = std::net::TcpStream::connect(health).unwrap();
    place.close();
    for at in [health, metrics] {
        kernel::socket::listen_tcp(at).unwrap_or_else(|error| panic!("{at}: {error}"));
    }
    drop(idle);
}
