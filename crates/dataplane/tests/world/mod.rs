//! Random clusters that change step by step, and packets for them. The objects come from the model's own generator, with more
//! of what decides rules: both families, timeouts, ranges that overlap, addresses of this host.

#![allow(dead_code, reason = "each test uses its part")]

#[path = "../../../model/tests/support/mod.rs"]
mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use model::fate::Payload;
use model::net::{IpNet, parse_cidr, parse_ip};
use model::{
    Cluster, Config, Delta, DetectLocal, Event, ForwardingTable, Frontend, NodePortAddress, Packet, Protocol,
    ServicePortId,
};
use serde_json::{Value, json};
pub(crate) use support::Random;

/// A cluster on its way.
pub(crate) struct World {
    pub(crate) random: Random,
    pub(crate) cluster: Cluster,
    pub(crate) table: ForwardingTable,
    /// The facts that hold, by what would delete them.
    pub(crate) facts: BTreeMap<String, Event>,
    /// Services that were applied, for changes of one field.
    services: Vec<Value>,
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let cluster = Cluster::new(config(&mut random));
        let table = ForwardingTable::of(&cluster);
        let mut world = Self { random, cluster, table, facts: BTreeMap::new(), services: Vec::new() };
        for _ in 0..world.random.below(60) {
            world.step();
        }
        world
    }

    /// Something happens.
    pub(crate) fn step(&mut self) -> Delta {
        let event = self.event();
        let (key, is_there) = match &event {
            Event::Apply(fact) => (format!("{:?}", support::deletion(fact)), true),
            Event::LocalAddresses(_) => ("addresses".into(), true),
            deletion => (format!("{deletion:?}"), false),
        };
        self.facts.remove(&key);
        if is_there {
            self.facts.insert(key, event.clone());
        }
        let changed = self.cluster.apply(event);
        self.table.update(&self.cluster, &changed)
    }

    /// So many things happen, while the host stays the same: packets are sent to one host, before and after. Returns the table
    /// of before, and the service ports that may be different.
    pub(crate) fn change(&mut self, most: usize) -> (ForwardingTable, BTreeSet<ServicePortId>) {
        let (mut before, mut changed, mut steps) = (self.table.clone(), BTreeSet::new(), 0);
        while steps < most {
            changed.extend(self.step().before.into_keys());
            steps += 1;
            if self.table.node() != before.node() {
                (before, steps) = (self.table.clone(), 0);
                changed.clear();
            }
        }
        (before, changed)
    }

    fn event(&mut self) -> Event {
        let r = &mut self.random;
        if r.one_in(15) {
            return Event::LocalAddresses(addresses(r));
        }
        if !self.services.is_empty() && r.one_in(4) {
            let at = r.below(self.services.len());
            let object = &mut self.services[at];
            change(r, object);
            return Event::Apply(support::fact(object));
        }
        let mut object = support::any_object(r);
        match object["kind"].as_str() {
            Some("Service") => service(r, &mut object),
            Some("EndpointSlice") => slice(r, &mut object),
            Some("Node") => node(r, &mut object),
            _ => service_cidr(r, &mut object),
        }
        let fact = support::fact(&object);
        if r.one_in(10) {
            return support::deletion(&fact);
        }
        if object["kind"] == "Service" {
            self.services.push(object);
        }
        Event::Apply(fact)
    }

    /// Someone sends something.
    pub(crate) fn packet(&mut self) -> Packet {
        let (destination, payload) = self.destination();
        let r = &mut self.random;
        let sources = if destination.is_ipv4() { SOURCES } else { SOURCES_6 };
        let source = any_ip(r, sources);
        let interface = r.pick(&[None, Some("veth1"), Some("eth0"), Some("br0")]).map(str::to_owned);
        let interface = interface.filter(|_| !self.table.node().is_own(source));
        Packet { source, destination, payload, interface }
    }

    fn destination(&mut self) -> (IpAddr, Payload) {
        // Mostly where something can land.
        let is_any = self.random.one_in(4);
        let routes = self.table.ports().flat_map(|port| port.routes.iter());
        let wanted = routes.filter(|route| is_any || route.inside.pool().is_some());
        let frontends: Vec<Frontend> = wanted.map(|route| route.frontend).collect();
        let r = &mut self.random;
        let protocol = *r.pick(&Protocol::ALL);
        if r.one_in(25) {
            return (any_ip(r, DESTINATIONS), Payload::Ping);
        }
        if frontends.is_empty() || r.one_in(8) {
            let port = *r.pick(&[80, 53, 81, 30_000, 30_001, 30_002]);
            return (any_ip(r, DESTINATIONS), Payload::Transport { protocol, port });
        }
        match *r.pick(&frontends) {
            Frontend::Address { ip, protocol, port } => (ip, Payload::Transport { protocol, port }),
            Frontend::NodePort { family, protocol, port } => {
                let own = if family == model::Family::V4 { OWN } else { OWN_6 };
                (any_ip(r, own), Payload::Transport { protocol, port })
            }
        }
    }
}

const OWN: &str = "192.168.0.1 192.168.0.2 10.0.0.1 127.0.0.1 10.96.0.1";
const OWN_6: &str = "fd00:1::1 fd00:1::2 ::1";
const SOURCES: &str = "10.244.0.1 10.244.0.2 10.244.0.3 10.244.1.1 192.168.0.1 10.0.0.1 203.0.113.77 192.168.5.5 198.51.100.1 127.0.0.1";
const SOURCES_6: &str = "fd00:244::1 fd00:244::2 fd00:1::1 2001:db8::77 2001:db9::1 2001:db8::1";
const DESTINATIONS: &str = "10.96.0.1 10.96.0.2 10.96.0.4 10.96.0.200 10.97.0.9 198.51.100.1 192.168.0.1 10.244.0.3 8.8.8.8 \
                            fd00:96::1 fd00:96::99 fd00:1::1";
const MORE: &str = "10.244.0.4 10.244.0.5 10.244.2.1 10.244.2.2";
const MORE_6: &str = "fd00:244::5 fd00:244::6 fd00:244::7 fd00:244::8";
/// Ranges that hold, touch and repeat each other.
const RANGES: &str = "192.168.0.0/16 192.168.0.0/17 192.168.128.0/17 192.168.5.0/24 203.0.113.0/24 203.0.113.77/32 10.244.0.0/16 \
                      198.51.100.1/32 2001:db8::/32 2001:db8::/33 2001:db8:0:1::/64 fd00:1::/64 0.0.0.0/0";

/// One of these words.
fn any<'a>(r: &mut Random, words: &'a str) -> &'a str {
    let words: Vec<&str> = words.split(' ').collect();
    r.pick::<&str>(&words)
}

fn any_ip(r: &mut Random, from: &str) -> IpAddr {
    parse_ip(any(r, from)).expect("it is written so")
}

fn addresses(r: &mut Random) -> BTreeSet<IpAddr> {
    OWN.split(' ').chain(OWN_6.split(' ')).filter(|_| r.one_in(2)).filter_map(parse_ip).collect()
}

fn service(r: &mut Random, object: &mut Value) {
    meet(r, object);
    if r.one_in(2) {
        let seconds = *r.pick(&[1, 10, 600, 10_800, 86_400]);
        object["spec"]["sessionAffinity"] = json!("ClientIP");
        object["spec"]["sessionAffinityConfig"] = json!({"clientIP": {"timeoutSeconds": seconds}});
    }
    if r.one_in(8) {
        object["spec"]["clusterIPs"] = json!([r.pick(&["fd00:96::1", "fd00:96::2"])]);
    }
    if r.one_in(3) {
        object["spec"]["loadBalancerSourceRanges"] = ranges(r);
    }
    if r.one_in(4) {
        let ips = ["198.51.100.1", "198.51.100.2", "2001:db8::1", "2001:db8::2"];
        object["status"] = json!({"loadBalancer": {"ingress": [{"ip": r.pick(&ips)}, {"ip": r.pick(&ips)}]}});
    }
}

/// One field is another one.
fn change(r: &mut Random, object: &mut Value) {
    let spec = &mut object["spec"];
    match r.below(6) {
        0 => spec["externalTrafficPolicy"] = json!(r.pick(&["Cluster", "Local"])),
        1 => spec["internalTrafficPolicy"] = json!(r.pick(&["Cluster", "Local"])),
        2 => spec["sessionAffinity"] = json!(r.pick(&["None", "ClientIP"])),
        _ => {
            spec["type"] = json!("LoadBalancer");
            spec["loadBalancerSourceRanges"] = ranges(r);
            object["status"] = json!({"loadBalancer": {"ingress": [{"ip": "198.51.100.2"}]}});
        }
    }
}

/// Most objects meet: else there would be more refusals than landings.
fn meet(r: &mut Random, object: &mut Value) {
    if !r.one_in(5) {
        object["metadata"]["namespace"] = json!("default");
    }
}

fn ranges(r: &mut Random) -> Value {
    (0..=r.below(3)).map(|_| json!(any(r, RANGES))).collect()
}

/// An address is one pod's, which is on one node: the hairpin is known by the address.
fn slice(r: &mut Random, object: &mut Value) {
    meet(r, object);
    let is_v4 = object["addressType"] == "IPv4";
    if !r.one_in(5) {
        object["ports"] = every_port(r);
    }
    let Some(endpoints) = object["endpoints"].as_array_mut() else { return };
    if r.one_in(4) {
        let host = if is_v4 { "192.168.0.1" } else { "fd00:1::1" };
        endpoints.push(json!({"addresses": [host]}));
    }
    for _ in 0..=r.below(4) {
        endpoints.push(json!({"addresses": [any(r, if is_v4 { MORE } else { MORE_6 })]}));
    }
    for endpoint in endpoints {
        let node = match endpoint["addresses"][0].as_str() {
            Some("192.168.0.1" | "10.244.1.1" | "fd00:244::1" | "fd00:1::1" | "fd00:244::5") => json!("a"),
            Some("10.244.0.2" | "10.244.0.5" | "198.51.100.1") => json!(null),
            Some(ip) if ip.starts_with("10.244.0.") => json!("a"),
            _ => json!("b"),
        };
        endpoint["nodeName"] = node;
    }
}

fn every_port(r: &mut Random) -> Value {
    let number = 8080 + r.below(2);
    let names = ["", "http", "dns"];
    let port = |(name, protocol)| json!({"name": name, "protocol": protocol, "port": number});
    let all = names.into_iter().flat_map(|name| ["TCP", "UDP", "SCTP"].map(|protocol| (name, protocol)));
    all.map(port).collect()
}

fn node(r: &mut Random, object: &mut Value) {
    object["metadata"]["name"] = json!("a");
    let v6 = r.pick(&["fd00:1::1", "fd00:1::2"]);
    if let Some(addresses) = object["status"]["addresses"].as_array_mut() {
        addresses.push(json!({"type": "InternalIP", "address": v6}));
    }
    if r.one_in(4) {
        object["spec"]["podCIDRs"] = json!([r.pick(&["10.244.0.0/24", "10.244.1.0/24", "fd00:244::/64"])]);
    }
}

/// Ranges that hold each other, too.
fn service_cidr(r: &mut Random, object: &mut Value) {
    if r.one_in(2) {
        let all = ["10.96.0.0/24", "10.96.0.0/16", "10.96.0.0/25", "10.97.0.0/24", "fd00:96::/112"];
        object["spec"]["cidrs"] = json!([r.pick(&all), r.pick(&all)]);
    }
}

fn networks(all: &[&str]) -> impl Iterator<Item = IpNet> {
    all.iter().filter_map(|network| parse_cidr(network))
}

fn config(r: &mut Random) -> Config {
    let node_port_addresses = match r.below(7) {
        0 => vec![NodePortAddress::All],
        1 => vec![NodePortAddress::Localhost],
        2 => vec![NodePortAddress::Primary, NodePortAddress::Localhost],
        3 => networks(&["192.168.0.0/16"]).map(NodePortAddress::Within).collect(),
        4 => networks(&["10.0.0.0/8", "fd00::/8"]).map(NodePortAddress::Within).collect(),
        _ => Vec::new(),
    };
    let mut config = Config { node_port_addresses, ..support::config(r) };
    if r.one_in(5) {
        config.detect_local = DetectLocal::BridgeInterface("br0".into());
    }
    if r.one_in(6) {
        let nets = ["10.244.0.0/17", "10.244.0.0/24", "10.244.1.0/24", "fd00:244::/64"];
        config.detect_local = DetectLocal::ClusterCidr(networks(&nets).collect());
    }
    if r.one_in(8) {
        config.allowed_external_ips = parse_cidr("198.51.100.0/24").into_iter().collect();
    }
    if r.one_in(10) {
        config.service_proxy_name = Some("other".into());
    }
    config
}

/// Whose frontend the packet is sent to.
pub(crate) fn owner(table: &ForwardingTable, packet: &Packet) -> Option<ServicePortId> {
    let frontends = dataplane::sim::frontends(packet);
    frontends.iter().find_map(|frontend| table.route(frontend)).map(|(port, _)| port.id().clone())
}

/// A fresh table of some facts.
pub(crate) fn table_of<'a>(config: &Config, facts: impl Iterator<Item = &'a Event>) -> ForwardingTable {
    let mut cluster = Cluster::new(config.clone());
    for event in facts {
        cluster.apply(event.clone());
    }
    ForwardingTable::of(&cluster)
}

/// One below the other.
pub(crate) fn show(facts: &BTreeMap<String, Event>) -> String {
    facts.values().map(|event| format!("{event:?}")).collect::<Vec<_>>().join("\n")
}
