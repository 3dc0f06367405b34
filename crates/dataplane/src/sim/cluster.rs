//! Clusters, said in few words: each object is a line.
//!
//! `svc NAMESPACE/NAME IP,… PORT,… KEY=VALUE …` is a Service, `ep NAMESPACE/NAME PORT,… ADDRESS …` are endpoints of one. A port is
//! `NAME:NUMBER/PROTOCOL@NODEPORT`, an address may have `@` and its node; only numbers and addresses must be there. Keys are those of
//! `set`; any other is an annotation.

#![allow(clippy::unwrap_used, clippy::missing_panics_doc, reason = "what a test says wrongly ends it")]

use std::collections::BTreeSet;
use std::net::SocketAddr;

use model::fate::Payload;
use model::net::parse_ip;
use model::object::{Read, read};
use model::{Cluster, Config, Event, ForwardingTable, Packet, Protocol, ServiceName, ServicePortId};
use serde_json::{Value, json};

use crate::{Dataplane, Scope, Synced};

/// The table of these objects, on the node of [`plain`].
pub fn table_of(text: &str) -> ForwardingTable {
    table(plain(), text)
}

pub fn table(config: Config, text: &str) -> ForwardingTable {
    let mut cluster = Cluster::new(config);
    for object in objects(text) {
        cluster.apply(Event::Apply(fact(&object)));
    }
    ForwardingTable::of(&cluster)
}

/// This node is `a`, at 192.168.0.1 and `fd00:1::1`. Nothing says which sources are pods.
pub fn plain() -> Config {
    at(&["192.168.0.1", "fd00:1::1"])
}

pub fn at(node_ips: &[&str]) -> Config {
    let node_ips = node_ips.iter().filter_map(|ip| parse_ip(ip)).collect();
    Config { node_name: "a".into(), node_ips, ..Config::default() }
}

/// A Service of one port, with a node port, and its endpoints.
pub fn web(name: &str, ip: &str, protocol: &str, endpoints: &[&str]) -> String {
    web_with(name, ip, protocol, endpoints, "")
}

/// The same with more keys.
pub fn web_with(name: &str, ip: &str, protocol: &str, endpoints: &[&str], keys: &str) -> String {
    let number = 30_000 + u16::from(name.as_bytes()[0]);
    let endpoints = endpoints.join(" ");
    format!("svc {name} {ip} 80/{protocol}@{number} {keys}\nep {name} 8080/{protocol} {endpoints}\n")
}

pub fn of(services: &[String]) -> ForwardingTable {
    table_of(&services.concat())
}

/// A service port whose port has no name.
pub fn id(name: &str, protocol: Protocol) -> ServicePortId {
    ServicePortId { service: ServiceName::new("default", name), port: "".into(), protocol }
}

/// A TCP packet to an address and port.
pub fn tcp(source: &str, to: &str, interface: Option<&str>) -> Packet {
    let to: SocketAddr = to.parse().unwrap();
    let payload = Payload::Transport { protocol: Protocol::Tcp, port: to.port() };
    let (source, interface) = (source.parse().unwrap(), interface.map(str::to_owned));
    Packet { source, destination: to.ip(), payload, interface }
}

fn fact(object: &Value) -> model::facts::Fact {
    let Read::Fact(fact) = read(object) else { panic!("no fact: {object}") };
    fact
}

fn objects(text: &str) -> Vec<Value> {
    text.lines().filter(|line| !line.trim().is_empty()).map(object).collect()
}

fn object(line: &str) -> Value {
    let words: Vec<&str> = line.split_whitespace().collect();
    let (namespace, name) = words[1].split_once('/').unwrap_or(("default", words[1]));
    match words[0] {
        "svc" => {
            let ports: Vec<Value> = words[3].split(',').map(port).collect();
            let kind = if words[3].contains('@') { "NodePort" } else { "ClusterIP" };
            let spec = json!({"clusterIPs": list(words[2]), "ports": ports, "type": kind});
            let metadata = json!({"name": name, "namespace": namespace, "annotations": {}});
            let mut object = json!({"kind": "Service", "metadata": metadata, "spec": spec});
            words[4..].iter().for_each(|word| set(&mut object, word));
            object
        }
        "ep" => {
            let ports: Vec<Value> = words[2].split(',').map(port).collect();
            let endpoints: Vec<Value> = words[3..].iter().map(|text| endpoint(text)).collect();
            let kind = if words[3..].iter().all(|ip| ip.contains('.')) { "IPv4" } else { "IPv6" };
            let labels = json!({"kubernetes.io/service-name": name});
            let metadata =
                json!({"name": format!("{kind}-{name:.200}"), "namespace": namespace, "labels": labels});
            json!({"kind": "EndpointSlice", "addressType": kind, "metadata": metadata, "ports": ports, "endpoints": endpoints})
        }
        kind => panic!("no such kind: {kind}"),
    }
}

fn list(text: &str) -> Vec<&str> {
    text.split(',').collect()
}

fn port(text: &str) -> Value {
    let (text, node_port) = text.split_once('@').unwrap_or((text, ""));
    let (text, protocol) = text.split_once('/').unwrap_or((text, "TCP"));
    let (name, number) = text.split_once(':').unwrap_or(("", text));
    let mut port = json!({"name": name, "protocol": protocol, "port": number.parse::<u16>().unwrap()});
    if let Ok(number) = node_port.parse::<u16>() {
        port["nodePort"] = json!(number);
    }
    port
}

fn endpoint(text: &str) -> Value {
    let (ip, node) = text.split_once('@').map_or((text, None), |(ip, node)| (ip, Some(node)));
    json!({"addresses": [ip], "nodeName": node})
}

fn set(service: &mut Value, word: &str) {
    let (key, value) = word.split_once('=').unwrap();
    let spec = &mut service["spec"];
    match key {
        "type" => spec["type"] = json!(value),
        "external" => spec["externalTrafficPolicy"] = json!(value),
        "internal" => spec["internalTrafficPolicy"] = json!(value),
        "ips" => spec["externalIPs"] = json!(list(value)),
        "ranges" => spec["loadBalancerSourceRanges"] = json!(list(value)),
        "health" => spec["healthCheckNodePort"] = json!(value.parse::<u16>().unwrap()),
        "affinity" => {
            spec["sessionAffinity"] = json!(if value == "None" { value } else { "ClientIP" });
            if let Ok(seconds) = value.parse::<u32>() {
                spec["sessionAffinityConfig"] = json!({"clientIP": {"timeoutSeconds": seconds}});
            }
        }
        "lb" => {
            spec["type"] = json!("LoadBalancer");
            service["status"] = json!({"loadBalancer": {"ingress": [{"ip": value}]}});
        }
        annotation => service["metadata"]["annotations"][annotation] = json!(value),
    }
}

/// A full sync.
pub fn everything(dataplane: &mut dyn Dataplane, table: &ForwardingTable) -> Synced {
    dataplane.sync(table, Scope::Everything).unwrap()
}

/// A sync of these service ports.
pub fn changed(dataplane: &mut dyn Dataplane, table: &ForwardingTable, ids: &[ServicePortId]) -> Synced {
    dataplane.sync(table, Scope::Changed(&ids.iter().cloned().collect())).unwrap()
}

/// A cluster, the table that follows it, and what changed since the last look.
#[derive(Debug)]
pub struct Small {
    cluster: Cluster,
    pub table: ForwardingTable,
    changed: BTreeSet<ServicePortId>,
}

impl Small {
    /// This node is `a`, at 192.168.0.1.
    #[allow(clippy::new_without_default, reason = "it is not nothing")]
    pub fn new() -> Self {
        let cluster = Cluster::new(at(&[]));
        let table = ForwardingTable::of(&cluster);
        let mut small = Self { cluster, table, changed: BTreeSet::new() };
        let addresses = json!([{"type": "InternalIP", "address": "192.168.0.1"}]);
        small.apply(&json!({"kind": "Node", "metadata": {"name": "a"}, "status": {"addresses": addresses}}));
        small
    }

    /// The objects of these lines.
    pub fn of(text: &str) -> Self {
        let mut small = Self::new();
        small.say(text);
        small
    }

    /// These objects are there from now on, or are as these lines say.
    pub fn say(&mut self, text: &str) {
        for object in objects(text) {
            self.apply(&object);
        }
    }

    /// A Service on port 80 of this address, sticky or not.
    pub fn service(&mut self, name: &str, ip: &str, affinity: &str) {
        self.say(&format!("svc {name} {ip} 80 affinity={affinity}"));
    }

    /// Its endpoints, all on this node, on port 8080.
    pub fn endpoints(&mut self, service: &str, addresses: &[&str]) {
        let addresses: Vec<String> = addresses.iter().map(|address| format!("{address}@a")).collect();
        self.say(&format!("ep {service} 8080 {}", addresses.join(" ")));
    }

    /// It is deleted.
    pub fn remove(&mut self, service: &str) {
        self.take(Event::DeleteService(ServiceName::new("default", service)));
    }

    pub fn apply(&mut self, object: &Value) {
        self.take(Event::Apply(fact(object)));
    }

    fn take(&mut self, event: Event) {
        let changed = self.cluster.apply(event);
        self.changed.extend(self.table.update(&self.cluster, &changed).before.into_keys());
    }

    /// A sync of what changed since this was last asked.
    pub fn follow(&mut self, dataplane: &mut dyn Dataplane) -> Synced {
        let changed = self.take_changed();
        dataplane.sync(&self.table, Scope::Changed(&changed)).unwrap()
    }

    /// What changed since this was last asked.
    pub fn take_changed(&mut self) -> BTreeSet<ServicePortId> {
        std::mem::take(&mut self.changed)
    }
}
