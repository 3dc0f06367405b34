//! What the pages of the metrics port say.

use serde_json::Value;

use crate::client::{ask, send};
use crate::place::Place;

#[test]
fn every_page_is_where_upstream_has_it() {
    let place = Place::new();
    let get = |path: &str| ask(place.metrics, path);
    assert_eq!(get("/proxyMode").body, "nftables");
    assert_eq!(get("/proxyMode").header("content-type"), Some("text/plain; charset=utf-8"));
    assert_eq!((get("/healthz").body, get("/healthz/ping").body), ("ok".to_owned(), "ok".to_owned()));
    let configz: Value = serde_json::from_str(&get("/configz").body).unwrap();
    assert_eq!(configz["kubeproxy.config.k8s.io"]["mode"], "nftables");
    assert!(get("/flagz").body.contains("\nmode=nftables\n"));
    assert!(get("/statusz").body.contains("/metrics"), "it says where to look");
    assert_eq!(get("/").code, 404);
    assert!(get("/debug/pprof/").body.contains("/metrics"), "and so does what is not there");
    assert_eq!(ask(place.health, "/metrics").code, 404, "the health port is open to the network");
}

#[test]
fn metrics_show_what_the_loop_and_the_relay_tell() {
    let place = Place::new();
    let answer = ask(place.metrics, "/metrics");
    assert_eq!(answer.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    for line in [
        "portway_service_ports 12",
        "portway_refused_service_ports 1",
        "portway_drift_repairs_total 3",
        "portway_healthy 1",
        "kubeproxy_nftables_localhost_nodeport_listeners{ip_family=\"IPv4\"} 1",
        "kubeproxy_nftables_localhost_nodeport_rejected_packets_total{ip_family=\"IPv4\",protocol=\"UDP\"} 9",
        "portway_service_connections_total{service_port=\"default/web:http/tcp\",ip_family=\"IPv4\",purpose=\"localhost\"} 7",
        "portway_endpoint_connections_total{endpoint=\"10.244.0.2:8080\",service_port=\"default/web:http/tcp\",ip_family=\"IPv4\",\
         purpose=\"localhost\"} 4",
    ] {
        assert!(answer.body.lines().any(|found| found == line), "no {line} in {}", answer.body);
    }
    let value = |name: &str| {
        let line = answer
            .body
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .unwrap_or_else(|| panic!("no {name}"));
        line.trim().parse::<f64>().unwrap()
    };
    assert!(value("process_resident_memory_bytes ") > 1e6);
    assert!(value("process_start_time_seconds ") > 1.7e9);
    assert!((1.0..1e6).contains(&value("process_open_fds ")));
}

#[test]
fn while_the_loop_is_busy_what_it_has_counted_before_is_shown() {
    let place = Place::new();
    let counted = "kubeproxy_nftables_localhost_nodeport_rejected_packets_total{ip_family=\"IPv4\",protocol=\"UDP\"} 9\n";
    for _ in 0..3 {
        assert!(ask(place.metrics, "/metrics").body.contains(counted));
    }
}

#[test]
fn checks_of_health_are_counted_as_upstream_does() {
    let place = Place::new();
    assert_eq!(ask(place.metrics, "/metrics/slis").body, "", "nobody has asked yet");
    for _ in 0..3 {
        ask(place.metrics, "/healthz");
    }
    let page = ask(place.metrics, "/metrics/slis");
    assert_eq!(page.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    assert_eq!(
        page.body,
        "# HELP kubernetes_healthcheck [STABLE] This metric records the result of a single healthcheck.\n\
         # TYPE kubernetes_healthcheck gauge\n\
         kubernetes_healthcheck{name=\"ping\",type=\"healthz\"} 1\n\
         # HELP kubernetes_healthchecks_total [STABLE] This metric records the results of all healthcheck.\n\
         # TYPE kubernetes_healthchecks_total counter\n\
         kubernetes_healthchecks_total{name=\"ping\",status=\"success\",type=\"healthz\"} 3\n"
    );
}

#[test]
fn state_is_streamed_whole_and_to_one_at_a_time() {
    let place = Place::new();
    let reader = crate::client::connect(place.metrics);
    std::io::Write::write_all(&mut &reader, b"GET /state HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    crate::client::until("the second is sent away", || ask(place.metrics, "/state").code == 503);
    drop(reader);
    crate::client::until("it is somebody else's turn", || ask(place.metrics, "/state").code == 200);
    let answer = ask(place.metrics, "/state");
    let state: Value = serde_json::from_str(&answer.body).unwrap();
    assert_eq!(state["answer"]["problems"].as_array().map(Vec::len), Some(20_000));
}

#[test]
fn nothing_can_be_changed() {
    let place = Place::new();
    for method in ["POST", "PUT", "DELETE"] {
        let answer = send(
            place.metrics,
            &format!(
                "{method} /configz HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{{}}"
            ),
        );
        assert_eq!((answer.code, answer.header("allow")), (405, Some("GET, HEAD")), "{method}");
    }
}
