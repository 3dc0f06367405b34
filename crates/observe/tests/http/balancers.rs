//! What load balancers hear at health check node ports, and how these come and go.

use std::net::SocketAddr;
use std::time::Duration;

use model::object::Read;
use model::{Cluster, Config, Event, ForwardingTable, NodePortAddress};
use observe::http::Balancers;
use serde_json::{Value, json};

use crate::client::{ask, connect, free_port, until};
use crate::place::Place;
use crate::{healthy, place::counted};

fn service(name: &str, port: u16) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": { "name": name, "namespace": "shop" },
        "spec": {
            "type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": port,
            "clusterIPs": ["10.96.0.1", "fd00:96::1"], "ports": [{ "port": 80 }],
        },
    })
}

/// Endpoints on this node, ready or not.
fn slice(name: &str, kind: &str, addresses: &[(&str, bool)]) -> Value {
    let endpoint = |(address, is_ready): &(&str, bool)| json!({ "addresses": [address], "nodeName": "a", "conditions": { "ready": is_ready } });
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": kind,
        "metadata": {
            "name": format!("{name}-{}", kind.to_lowercase()), "namespace": "shop",
            "labels": { "kubernetes.io/service-name": name },
        },
        "ports": [{ "port": 8080 }], "endpoints": addresses.iter().map(endpoint).collect::<Vec<_>>(),
    })
}

/// Who is to be answered on this host, where node ports answer on localhost.
fn balancers(objects: &[Value]) -> Balancers {
    balancers_at(NodePortAddress::Localhost, objects)
}

fn balancers_at(at: NodePortAddress, objects: &[Value]) -> Balancers {
    let node_port_addresses = vec![at];
    let config = Config { node_name: "a".into(), node_port_addresses, ..Config::default() };
    let mut cluster = Cluster::new(config);
    for object in objects {
        let Read::Fact(fact) = model::object::read(object) else { panic!("no fact: {object}") };
        cluster.apply(Event::Apply(fact));
    }
    Balancers::of(&ForwardingTable::of(&cluster), NodePortAddress::All)
}

fn weight(at: SocketAddr) -> (u16, Option<String>) {
    let answer = ask(at, "/");
    (answer.code, answer.header("x-load-balancing-endpoint-weight").map(str::to_owned))
}

fn is_closed(at: SocketAddr) -> bool {
    std::net::TcpStream::connect(at).is_err()
}

#[test]
fn a_balancer_hears_how_many_endpoints_of_its_family_are_here() {
    let place = Place::new();
    let v4 = free_port("127.0.0.1");
    let v6: SocketAddr = format!("[::1]:{}", v4.port()).parse().unwrap();
    let web = service("web", v4.port());
    let ready = slice("web", "IPv4", &[("10.244.0.1", true), ("10.244.0.2", true), ("10.244.0.3", false)]);
    place.answer(balancers(&[web.clone(), ready, slice("web", "IPv6", &[("fd00:244::1", true)])]));
    until("it listens", || !is_closed(v4));
    let answer = ask(v4, "/whatever");
    assert_eq!((answer.code, answer.header("content-type")), (200, Some("application/json")));
    let body: Value = serde_json::from_str(&answer.body).unwrap();
    assert_eq!(
        body,
        json!({ "service": { "namespace": "shop", "name": "web" }, "localEndpoints": 2, "serviceProxyHealthy": true })
    );
    assert_eq!(weight(v4), (200, Some("2".into())));
    if std::net::TcpListener::bind("[::1]:0").is_ok() {
        assert_eq!(weight(v6), (200, Some("1".into())), "each family has its own");
    }
    let open = connect(v4);
    place.answer(balancers(&[web, slice("web", "IPv4", &[("10.244.0.3", false)])]));
    until("none is left", || weight(v4) == (503, Some("0".into())));
    drop(open);
}

#[test]
fn an_unhealthy_proxy_is_told_to_balancers_too() {
    let place = Place::new();
    let at = free_port("127.0.0.1");
    place.answer(balancers(&[service("web", at.port()), slice("web", "IPv4", &[("10.244.0.1", true)])]));
    let late = observe::health::HealthFacts {
        behind_since: Some(Duration::ZERO),
        patience: Duration::ZERO,
        ..healthy()
    };
    place.board.publish(late, counted());
    until("it listens", || !is_closed(at));
    assert_eq!(weight(at), (503, Some("1".into())));
}

#[test]
fn ports_are_opened_moved_and_closed_as_services_change() {
    let place = Place::new();
    let (first, second) = (free_port("127.0.0.1"), free_port("127.0.0.1"));
    let endpoints = slice("web", "IPv4", &[("10.244.0.1", true)]);
    place.answer(balancers(&[service("web", first.port()), endpoints.clone()]));
    until("it listens", || !is_closed(first));
    place.answer(balancers(&[service("web", second.port()), endpoints]));
    until("it listens elsewhere", || !is_closed(second));
    until("and no more where it was", || is_closed(first));
    place.answer(Balancers::default());
    until("nowhere", || is_closed(second));
    assert_eq!(place.failing(), [""; 0]);
}

#[test]
fn a_port_that_moves_from_one_address_to_all_and_back_is_not_in_its_own_way() {
    let place = Place::new();
    let at = free_port("127.0.0.1");
    let objects = [service("web", at.port()), slice("web", "IPv4", &[("10.244.0.1", true)])];
    let other = SocketAddr::from(([127, 0, 0, 2], at.port()));
    for _ in 0..5 {
        place.answer(balancers(&objects));
        until("one address", || !is_closed(at) && is_closed(other));
        place.answer(balancers_at(NodePortAddress::All, &objects));
        until("all addresses", || !is_closed(at) && !is_closed(other));
    }
    assert_eq!(place.failures(), 0, "{:?}", place.failing());
}

#[test]
fn a_port_in_use_is_told_by_name_and_costs_no_other_service_anything() {
    let place = Place::new();
    let squatter = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let (taken, free) = (squatter.local_addr().unwrap(), free_port("127.0.0.1"));
    let endpoints = |name| slice(name, "IPv4", &[("10.244.0.1", true)]);
    place.answer(balancers(&[
        service("blocked", taken.port()),
        endpoints("blocked"),
        service("web", free.port()),
        endpoints("web"),
    ]));
    until("the other one is answered", || !is_closed(free) && weight(free).0 == 200);
    until("it is told", || {
        place
            .failing()
            .iter()
            .any(|line| line.contains("Service shop/blocked") && line.contains("another program"))
    });
    drop(squatter);
    until("it is taken", || !is_closed(taken) && weight(taken).0 == 200);
    until("all is well", || place.failing().is_empty());
}
