//! A Pod object, reduced to what makes it an endpoint.
//!
//! A Pod written by hand has no kubelet to say that it is ready. So one without `status.conditions` counts as ready; one
//! that has conditions is ready when `Ready` is `True`, as in a cluster.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use model::object::{Field, Reader, pod_weight};
use model::time::Timestamp;
use model::{ByFamily, Family, ObjectRef, Protocol, Report};
use serde_json::Value;

use crate::objects::ObjectKey;

/// What makes a Pod an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pod {
    pub(crate) namespace: Box<str>,
    pub(crate) name: Box<str>,
    pub(crate) labels: BTreeMap<Box<str>, Box<str>>,
    /// The first address of each family in `status.podIPs`.
    pub(crate) ips: ByFamily<Option<IpAddr>>,
    pub(crate) node: Option<Arc<str>>,
    pub(crate) uid: Option<Box<str>>,
    pub(crate) is_ready: bool,
    pub(crate) is_terminating: bool,
    /// Its phase is `Succeeded` or `Failed`: nothing listens any more.
    pub(crate) has_ended: bool,
    /// The named ports of its containers, first come first served.
    pub(crate) named_ports: BTreeMap<(Box<str>, Protocol), u16>,
    pub(crate) weight: Option<u8>,
    pub(crate) reports: Vec<Report>,
}

impl Pod {
    /// Reads a Pod. What is malformed is left out and reported.
    pub(crate) fn read(key: &ObjectKey, object: &Value) -> Self {
        let shown = format!("{}/{}", key.namespace, key.name);
        let reader = Reader::new(ObjectRef { kind: "Pod", name: shown.into() });
        let root = reader.root(object);
        let (metadata, spec, status) = (root.at("metadata"), root.at("spec"), root.at("status"));
        let pod = Self {
            namespace: key.namespace.clone(),
            name: key.name.clone(),
            labels: labels(&metadata, object),
            ips: ips(&status),
            node: spec.at("nodeName").text().filter(|name| !name.is_empty()).map(Arc::from),
            uid: metadata.at("uid").text().map(Box::from),
            is_ready: is_ready(&status.at("conditions")),
            is_terminating: is_terminating(&metadata.at("deletionTimestamp")),
            has_ended: matches!(status.at("phase").text(), Some("Succeeded" | "Failed")),
            named_ports: named_ports(&spec),
            weight: pod_weight(&metadata),
            reports: Vec::new(),
        };
        Self { reports: reader.into_reports(), ..pod }
    }
}

fn labels(metadata: &Field<'_>, object: &Value) -> BTreeMap<Box<str>, Box<str>> {
    let field = metadata.at("labels");
    let keys = object.get("metadata").and_then(|metadata| metadata.get("labels")).and_then(Value::as_object);
    let Some(keys) = keys else {
        if field.is_there() {
            field.refuse::<()>("must be an object; it is left out");
        }
        return BTreeMap::new();
    };
    keys.keys().filter_map(|key| Some((key.as_str().into(), field.at(key).text()?.into()))).collect()
}

fn ips(status: &Field<'_>) -> ByFamily<Option<IpAddr>> {
    let mut ips = ByFamily::default();
    let mut take = |ip: Option<IpAddr>| {
        if let Some(ip) = ip {
            let place: &mut Option<IpAddr> = ips.get_mut(Family::of(ip));
            *place = place.or(Some(ip));
        }
    };
    let (list, single) = (status.at("podIPs"), status.at("podIP"));
    for item in list.items() {
        take(item.at("ip").ip());
    }
    if single.is_there() && !matches!(single.text(), Some("")) {
        take(single.ip());
    }
    ips
}

fn is_ready(conditions: &Field<'_>) -> bool {
    if !conditions.is_there() || conditions.is_empty_list() {
        return true;
    }
    conditions.items().any(|c| c.at("type").text() == Some("Ready") && c.at("status").text() == Some("True"))
}

fn is_terminating(field: &Field<'_>) -> bool {
    let outcome = "is no time such as 2026-01-31T12:00:00Z; the Pod counts as not terminating";
    let Some(text) = field.text() else { return false };
    Timestamp::parse(text).or_else(|| field.refuse(outcome)).is_some()
}

/// The ports of containers, and of init containers that stay (`restartPolicy: Always`).
fn named_ports(spec: &Field<'_>) -> BTreeMap<(Box<str>, Protocol), u16> {
    let mut named = BTreeMap::new();
    let (containers, init_containers) = (spec.at("containers"), spec.at("initContainers"));
    let stay = init_containers.items().filter(|c| c.at("restartPolicy").text() == Some("Always"));
    for container in containers.items().chain(stay) {
        let ports = container.at("ports");
        for port in ports.items() {
            if let Some((key, number)) = named_port(&port) {
                named.entry(key).or_insert(number);
            }
        }
    }
    named
}

fn named_port(port: &Field<'_>) -> Option<((Box<str>, Protocol), u16)> {
    let name = port.at("name").text()?.into();
    let field = port.at("protocol");
    let protocol = match field.text() {
        None if field.is_there() => return None,
        None => Protocol::Tcp,
        Some(text) => Protocol::parse(text)
            .or_else(|| field.refuse("must be TCP, UDP or SCTP; this port is left out"))?,
    };
    Some(((name, protocol), port.at("containerPort").port()?))
}
