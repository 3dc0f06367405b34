//! Which numbers the ports of a Service have on a Pod.
//!
//! `targetPort` is a number, the name of a container's port, or missing: then it is the Service's own port.

use model::Protocol;
use serde_json::Value;

use super::pod::Pod;
use crate::ipam::allocate::demand::port_of;
use crate::json;

/// A port of a Service, before it is known where a Pod listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TargetPort {
    name: Box<str>,
    protocol: Protocol,
    target: Target,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Target {
    Number(u16),
    Name(Box<str>),
}

/// A port of a Service on some Pods.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ResolvedPort {
    pub(crate) name: Box<str>,
    pub(crate) protocol: Protocol,
    pub(crate) number: u16,
}

/// The ports of a Service. One that cannot be read is left out: the model reports it.
pub(crate) fn target_ports(spec: &Value) -> Vec<TargetPort> {
    json::items(&spec["ports"]).filter_map(target_port).collect()
}

fn target_port(port: &Value) -> Option<TargetPort> {
    let (protocol, number) = port_of(port)?;
    let target = match &port["targetPort"] {
        Value::Null => Target::Number(number),
        Value::String(text) => {
            text.parse().map_or_else(|_| Target::Name(text.as_str().into()), Target::Number)
        }
        // The API writes 0 for "none".
        other if other.as_u64() == Some(0) => Target::Number(number),
        other => Target::Number(json::port(other)?),
    };
    Some(TargetPort { name: port["name"].as_str().unwrap_or_default().into(), protocol, target })
}

/// Where a Pod listens for each port; ports whose name it does not know are left out.
pub(crate) fn resolve(ports: &[TargetPort], pod: &Pod) -> Vec<ResolvedPort> {
    let number = |port: &TargetPort| match &port.target {
        Target::Number(number) => Some(*number),
        Target::Name(name) => pod.named_ports.get(&(name.clone(), port.protocol)).copied(),
    };
    let resolved = |port: &TargetPort| {
        Some(ResolvedPort { name: port.name.clone(), protocol: port.protocol, number: number(port)? })
    };
    ports.iter().filter_map(resolved).collect()
}
