//! Random objects for the tests, from a small world in which names and addresses meet often.

#![allow(dead_code, reason = "each test uses its part")]

use model::facts::Fact;
use model::net::parse_cidr;
use model::object::{self, Read};
use model::{Config, DetectLocal, Event};
use serde_json::{Value, json};

/// The `SplitMix64` generator: a seed gives the same numbers on every machine.
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.next() % n as u64).expect("it is below a usize")
    }

    pub(crate) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }

    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i + 1));
        }
    }
}

pub(crate) const NODES: [&str; 3] = ["a", "b", "c"];
const ZONES: [&str; 2] = ["z1", "z2"];
const CLUSTER_IPS: [&str; 5] = ["10.96.0.1", "10.96.0.2", "10.96.0.3", "10.244.0.3", "10.96.0.4"];
const CLUSTER_IPS_6: [&str; 3] = ["fd00:96::1", "fd00:96::2", "fd00:96::3"];
const OUTER_IPS: [&str; 4] = ["198.51.100.1", "198.51.100.2", "203.0.113.1", "2001:db8::1"];
const POD_IPS: [&str; 6] =
    ["10.244.0.1", "10.244.0.2", "10.244.0.3", "10.244.1.1", "127.0.0.1", "198.51.100.1"];
const POD_IPS_6: [&str; 3] = ["fd00:244::1", "fd00:244::2", "fe80::1"];
const PORT_NAMES: [&str; 3] = ["", "http", "dns"];
const PROTOCOLS: [&str; 3] = ["TCP", "UDP", "SCTP"];
const PORTS: [u16; 2] = [80, 53];

pub(crate) fn service(r: &mut Random) -> Value {
    let name = format!("svc-{}", r.below(4));
    let kind = *r.pick(&["ClusterIP", "NodePort", "LoadBalancer", "ExternalName"]);
    let mut ips = vec![*r.pick(&CLUSTER_IPS)];
    if r.one_in(3) {
        ips.push(*r.pick(&CLUSTER_IPS_6));
    }
    if r.one_in(10) {
        ips = vec!["None"];
    }
    let ports: Vec<Value> = (0..=r.below(3)).map(|_| service_port(r, kind)).collect();
    let mut object = json!({
        "kind": "Service", "metadata": {"name": name, "namespace": r.pick(&["default", "other"])},
        "spec": {
            "type": kind, "clusterIPs": ips, "ports": ports,
            "internalTrafficPolicy": r.pick(&["Cluster", "Cluster", "Local"]),
            "externalTrafficPolicy": r.pick(&["Cluster", "Local"]),
            "sessionAffinity": r.pick(&["None", "None", "ClientIP"]),
        },
    });
    if r.one_in(2) {
        object["metadata"]["creationTimestamp"] = json!(format!("2026-01-0{}T00:00:00Z", 1 + r.below(3)));
    }
    decorate_service(r, &mut object);
    object
}

fn service_port(r: &mut Random, kind: &str) -> Value {
    let mut port =
        json!({"name": r.pick(&PORT_NAMES), "protocol": r.pick(&PROTOCOLS), "port": r.pick(&PORTS)});
    if kind != "ClusterIP" && !r.one_in(4) {
        port["nodePort"] = json!(30_000 + r.below(3));
    }
    port
}

fn decorate_service(r: &mut Random, object: &mut Value) {
    if r.one_in(4) {
        object["spec"]["externalIPs"] = json!([r.pick(&OUTER_IPS)]);
    }
    if r.one_in(2) {
        let mode = r.pick(&["VIP", "Proxy"]);
        object["status"] = json!({"loadBalancer": {"ingress": [{"ip": r.pick(&OUTER_IPS), "ipMode": mode}]}});
        object["spec"]["healthCheckNodePort"] = json!(31_000 + r.below(3));
    }
    if r.one_in(3) {
        object["spec"]["loadBalancerSourceRanges"] =
            json!([r.pick(&["192.168.0.0/16", "0.0.0.0/0", "2001:db8::/32", "bad"])]);
    }
    if r.one_in(4) {
        let weights = r.pick(&[
            "pod-0=3,10.244.0.1=0",
            "pod-1=100,pod-2=99",
            "pod-0=0,pod-1=0,pod-2=0",
            "x",
            "pod-1=999",
        ]);
        object["metadata"]["annotations"] = json!({"portway.io/weights": weights});
    }
    if r.one_in(12) {
        object["metadata"]["labels"] = json!({"service.kubernetes.io/service-proxy-name": "other"});
    }
    if r.one_in(12) {
        object["metadata"]["labels"] = json!({"service.kubernetes.io/headless": ""});
    }
}

pub(crate) fn slice(r: &mut Random) -> Value {
    let v6 = r.one_in(4);
    let addresses: &[&str] = if v6 { &POD_IPS_6 } else { &POD_IPS };
    let endpoints: Vec<Value> = (0..r.below(5)).map(|_| endpoint(r, addresses)).collect();
    let port = |r: &mut Random| json!({"name": r.pick(&PORT_NAMES), "protocol": r.pick(&PROTOCOLS), "port": 8080 + r.below(2)});
    let ports: Vec<Value> = (0..=r.below(3)).map(|_| port(r)).collect();
    let mut labels = json!({"kubernetes.io/service-name": format!("svc-{}", r.below(4))});
    if r.one_in(15) {
        labels = json!({});
    }
    json!({
        "kind": "EndpointSlice", "addressType": if v6 { "IPv6" } else { "IPv4" },
        "metadata": {"name": format!("slice-{}", r.below(6)), "namespace": r.pick(&["default", "other"]), "labels": labels},
        "endpoints": endpoints, "ports": ports,
    })
}

fn endpoint(r: &mut Random, addresses: &[&str]) -> Value {
    let mut endpoint = json!({
        "addresses": [r.pick(addresses)],
        "conditions": {"ready": !r.one_in(3), "serving": !r.one_in(4), "terminating": r.one_in(3)},
        "targetRef": {"kind": "Pod", "name": format!("pod-{}", r.below(3))},
    });
    if !r.one_in(5) {
        endpoint["nodeName"] = json!(r.pick(&NODES));
    }
    if r.one_in(2) {
        endpoint["hints"] =
            json!({"forZones": [{"name": r.pick(&ZONES)}], "forNodes": [{"name": r.pick(&NODES)}]});
    }
    endpoint
}

pub(crate) fn node(r: &mut Random) -> Value {
    let name = *r.pick(&NODES);
    json!({
        "kind": "Node", "metadata": {"name": name, "labels": {"topology.kubernetes.io/zone": r.pick(&ZONES)}},
        "spec": {"podCIDRs": ["10.244.0.0/24", "fd00:244::/64"]},
        "status": {"addresses": [{"type": "InternalIP", "address": format!("192.168.0.{}", 1 + r.below(2))}]},
    })
}

pub(crate) fn service_cidr(r: &mut Random) -> Value {
    let cidr = r.pick(&["10.96.0.0/24", "10.97.0.0/24", "fd00:96::/112"]);
    json!({"kind": "ServiceCIDR", "metadata": {"name": format!("cidr-{}", r.below(2))}, "spec": {"cidrs": [cidr]}})
}

pub(crate) fn any_object(r: &mut Random) -> Value {
    match r.below(10) {
        0..=3 => service(r),
        4..=7 => slice(r),
        8 => node(r),
        _ => service_cidr(r),
    }
}

pub(crate) fn fact(object: &Value) -> Fact {
    match object::read(object) {
        Read::Fact(fact) => fact,
        other => panic!("not a fact: {other:?}"),
    }
}

pub(crate) fn deletion(fact: &Fact) -> Event {
    match fact {
        Fact::Service(service) => Event::DeleteService(service.name.clone()),
        Fact::EndpointSlice(slice) => Event::DeleteSlice(slice.name.clone()),
        Fact::Node(node) => Event::DeleteNode(node.name.clone()),
        Fact::ServiceCidr(cidr) => Event::DeleteServiceCidr(cidr.name.clone()),
    }
}

pub(crate) fn config(r: &mut Random) -> Config {
    let detect_local = match r.below(4) {
        0 => DetectLocal::ClusterCidr(
            ["10.244.0.0/16", "fd00:244::/32"].iter().filter_map(|n| parse_cidr(n)).collect(),
        ),
        1 => DetectLocal::NodeCidr,
        2 => DetectLocal::InterfaceNamePrefix("veth".into()),
        _ => DetectLocal::default(),
    };
    Config { node_name: "a".into(), detect_local, masquerade_all: r.one_in(5), ..Config::default() }
}
