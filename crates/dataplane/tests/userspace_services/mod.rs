//! Small clusters for userspace mode: Services of one port with a node port.

#![allow(dead_code, reason = "each test uses its part")]

use dataplane::relay::{ListenerId, Purpose};
use model::{ForwardingTable, Protocol, ServiceName, ServicePortId};
use serde_json::{Value, json};

use crate::iptables_guides::{plain, service, slice, table};

/// A Service of one port, with a node port, and its endpoints.
pub(crate) fn web(name: &str, ip: &str, protocol: &str, endpoints: &[&str]) -> [Value; 2] {
    let number = 30_000 + u16::from(name.as_bytes()[0]);
    let port = json!([{"port": 80, "protocol": protocol, "nodePort": number}]);
    let spec = json!({"type": "NodePort", "clusterIPs": [ip], "ports": port});
    let ports = json!([{"port": 8080, "protocol": protocol}]);
    [service("default", name, &spec), slice("default", name, &ports, endpoints)]
}

pub(crate) fn of(services: &[[Value; 2]]) -> ForwardingTable {
    table(plain(), &services.concat())
}

pub(crate) fn id(name: &str, protocol: Protocol) -> ServicePortId {
    ServicePortId { service: ServiceName::new("default", name), port: "".into(), protocol }
}

pub(crate) fn listener(name: &str, protocol: Protocol) -> ListenerId {
    ListenerId { port: id(name, protocol), family: model::Family::V4, purpose: Purpose::Cluster }
}
