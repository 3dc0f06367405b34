//! The Pods and Nodes of the manifests, as `portway get -o json` tells them.
//!
//! Absent on purpose: what portway makes of them. The stage is built from the manifests alone.

use std::net::IpAddr;

use anyhow::{Context, Result};
use playground::Protocol;
use serde_json::Value;

use crate::portway::Portway;

/// Who is where.
#[derive(Debug)]
pub(crate) struct Facts {
    pub(crate) pods: Vec<Pod>,
    pub(crate) nodes: Vec<Node>,
}

/// A Pod, with what it serves.
#[derive(Debug)]
pub(crate) struct Pod {
    pub(crate) name: String,
    pub(crate) node: String,
    pub(crate) addresses: Vec<IpAddr>,
    pub(crate) ports: Vec<(Protocol, u16)>,
}

/// A Node, with the addresses under which the cluster knows it.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) addresses: Vec<IpAddr>,
}

impl Facts {
    pub(crate) fn read(portway: &Portway) -> Result<Self> {
        let items = |arguments: &str| -> Result<Vec<Value>> {
            let json = portway.read_manifests(arguments)?;
            let list: Value =
                serde_json::from_str(&json).with_context(|| format!("`portway {arguments}`"))?;
            Ok(list.get("items").and_then(Value::as_array).cloned().unwrap_or_default())
        };
        let pods = items("get pods -A -o json")?.iter().filter_map(pod).collect();
        let nodes = items("get nodes -o json")?.iter().filter_map(node).collect();
        Ok(Self { pods, nodes })
    }
}

/// A Pod on a node; one without a node or a name runs nowhere.
fn pod(object: &Value) -> Option<Pod> {
    let containers = list(object, "/spec/containers");
    let ports = containers.flat_map(|container| list(container, "/ports")).filter_map(port).collect();
    Some(Pod {
        name: text(object, "/metadata/name")?,
        node: text(object, "/spec/nodeName")?,
        addresses: list(object, "/status/podIPs").filter_map(|ip| text(ip, "/ip")?.parse().ok()).collect(),
        ports,
    })
}

/// A port that a server here can open.
fn port(port: &Value) -> Option<(Protocol, u16)> {
    let number = port.get("containerPort")?.as_u64()?.try_into().ok()?;
    match text(port, "/protocol").as_deref() {
        None | Some("TCP") => Some((Protocol::Tcp, number)),
        Some("UDP") => Some((Protocol::Udp, number)),
        Some(_) => None,
    }
}

fn node(object: &Value) -> Option<Node> {
    let internal = list(object, "/status/addresses")
        .filter(|address| text(address, "/type").as_deref() == Some("InternalIP"));
    let addresses = internal.filter_map(|address| text(address, "/address")?.parse().ok()).collect();
    Some(Node { name: text(object, "/metadata/name")?, addresses })
}

fn list<'a>(object: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    object.pointer(pointer).and_then(Value::as_array).into_iter().flatten()
}

fn text(object: &Value, pointer: &str) -> Option<String> {
    object.pointer(pointer)?.as_str().map(str::to_owned)
}
