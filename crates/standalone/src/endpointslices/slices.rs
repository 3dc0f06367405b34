//! Pods → the EndpointSlices of a Service.
//!
//! One slice for each family and each distinct set of port numbers, of at most a thousand endpoints. Names are made from
//! what the slice is for, not from what is in it: it keeps its name while Pods come and go.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::IpAddr;
use std::sync::Arc;

use model::object::{
    EMBEDDED_CONTROLLER, HEADLESS_LABEL, MANAGED_BY_LABEL, SERVICE_NAME_LABEL, WEIGHTS_ANNOTATION,
};
use model::{Family, ServiceName};
use serde_json::{Value, json};

use super::hints::{Distribution, Hinting, Zones};
use super::pod::Pod;
use super::ports::{ResolvedPort, TargetPort, resolve};
use crate::ipam::ranges::hash;

/// What the API server accepts in one slice.
const MOST_ENDPOINTS: usize = 1000;
/// What the model accepts as a name, less a dash and five letters.
const LONGEST_BASE: usize = 247;

/// What a Service says about its endpoints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SliceSpec {
    pub(crate) families: Vec<Family>,
    pub(crate) ports: Vec<TargetPort>,
    pub(crate) is_headless: bool,
    pub(crate) publishes_not_ready: bool,
    pub(crate) distribution: Option<Distribution>,
}

/// The slices of a Service, by name.
pub(crate) fn slices(
    service: &ServiceName,
    spec: &SliceSpec,
    pods: &[&Pod],
    zones: &Zones,
) -> BTreeMap<Box<str>, Arc<Value>> {
    let mut slices = BTreeMap::new();
    for &family in &spec.families {
        let pods: Vec<_> =
            pods.iter().copied().filter(|pod| !pod.has_ended && pod.ips.get(family).is_some()).collect();
        let ready = pods.iter().copied().filter(|pod| conditions(spec, pod).ready);
        let hinting = Hinting::new(spec.distribution, zones, ready);
        for (ports, pods) in by_ports(spec, &pods) {
            for (number, pods) in pods.chunks(MOST_ENDPOINTS).enumerate() {
                let name = free_name(service, family, &ports, number, &slices);
                let group = Group { service, spec, family, ports: &ports, hinting: &hinting };
                let slice = group.slice(&name, pods);
                slices.insert(name, Arc::new(slice));
            }
        }
    }
    slices
}

/// Pods with the same numbers for all ports of the Service. One that has none of them is left out, unless the Service
/// itself has no ports, as a headless one may.
fn by_ports<'a>(spec: &SliceSpec, pods: &[&'a Pod]) -> BTreeMap<Vec<ResolvedPort>, Vec<&'a Pod>> {
    let mut groups: BTreeMap<_, Vec<&Pod>> = BTreeMap::new();
    for &pod in pods {
        let ports = resolve(&spec.ports, pod);
        if !ports.is_empty() || spec.ports.is_empty() {
            groups.entry(ports).or_default().push(pod);
        }
    }
    groups
}

/// `web-x7k2p`: the same for the same Service, family, ports and place in the row.
fn free_name(
    service: &ServiceName,
    family: Family,
    ports: &[ResolvedPort],
    number: usize,
    used: &BTreeMap<Box<str>, Arc<Value>>,
) -> Box<str> {
    let base = service.name().get(..LONGEST_BASE).unwrap_or(service.name());
    let mut purpose = format!("{service} {family} {number}");
    for port in ports {
        let _ = write!(purpose, " {}/{}/{}", port.name, port.protocol, port.number);
    }
    loop {
        let name: Box<str> = format!("{base}-{}", five_letters(hash(&purpose))).into();
        if !used.contains_key(&name) {
            return name;
        }
        purpose.push('+');
    }
}

/// Letters that make no words, as Kubernetes uses.
fn five_letters(mut number: u64) -> String {
    const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let count = LETTERS.len() as u64;
    let mut letter = || {
        let at = usize::try_from(number % count).unwrap_or_default();
        number /= count;
        char::from(LETTERS[at])
    };
    (0..5).map(|_| letter()).collect()
}

#[derive(Debug)]
struct Conditions {
    ready: bool,
    serving: bool,
    terminating: bool,
}

/// As the EndpointSlice controller judges. A terminating Pod is never ready, unless all are published anyway.
fn conditions(spec: &SliceSpec, pod: &Pod) -> Conditions {
    let (serving, terminating) = (pod.is_ready, pod.is_terminating);
    Conditions { ready: spec.publishes_not_ready || (serving && !terminating), serving, terminating }
}

/// What the endpoints of one slice share.
#[derive(Debug)]
struct Group<'a> {
    service: &'a ServiceName,
    spec: &'a SliceSpec,
    family: Family,
    ports: &'a [ResolvedPort],
    hinting: &'a Hinting<'a>,
}

impl Group<'_> {
    fn slice(&self, name: &str, pods: &[&Pod]) -> Value {
        let mut metadata = json!({
            "name": name,
            "namespace": self.service.namespace(),
            "labels": { SERVICE_NAME_LABEL: self.service.name(), MANAGED_BY_LABEL: EMBEDDED_CONTROLLER },
        });
        if self.spec.is_headless {
            metadata["labels"][HEADLESS_LABEL] = "".into();
        }
        if let Some(weights) = self.weights(pods) {
            metadata["annotations"] = json!({ WEIGHTS_ANNOTATION: weights });
        }
        json!({
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": metadata,
            "addressType": self.family.to_string(),
            "ports": self.ports.iter().map(port).collect::<Vec<_>>(),
            "endpoints": pods.iter().filter_map(|pod| self.endpoint(pod)).collect::<Vec<_>>(),
        })
    }

    fn endpoint(&self, pod: &Pod) -> Option<Value> {
        let conditions = conditions(self.spec, pod);
        let mut endpoint = json!({
            "addresses": [self.address(pod)?.to_string()],
            "conditions": {
                "ready": conditions.ready, "serving": conditions.serving, "terminating": conditions.terminating
            },
            "targetRef": { "kind": "Pod", "namespace": &*pod.namespace, "name": &*pod.name },
        });
        if let Some(uid) = &pod.uid {
            endpoint["targetRef"]["uid"] = (&**uid).into();
        }
        if let Some(node) = &pod.node {
            endpoint["nodeName"] = (&**node).into();
        }
        if let Some(zone) = self.hinting.zone(pod) {
            endpoint["zone"] = zone.into();
        }
        if let Some(hints) = self.hinting.hints(pod).filter(|_| conditions.ready) {
            endpoint["hints"] = hints;
        }
        Some(endpoint)
    }

    /// The weights that Pods gave themselves, as `address=weight`.
    fn weights(&self, pods: &[&Pod]) -> Option<String> {
        let entry = |pod: &&Pod| Some(format!("{}={}", self.address(pod)?, pod.weight?));
        let entries: Vec<String> = pods.iter().filter_map(entry).collect();
        (!entries.is_empty()).then(|| entries.join(","))
    }

    fn address(&self, pod: &Pod) -> Option<IpAddr> {
        *pod.ips.get(self.family)
    }
}

fn port(port: &ResolvedPort) -> Value {
    json!({ "name": &*port.name, "protocol": port.protocol.upper_name(), "port": port.number })
}
