//! An EndpointSlice as it is kept: an endpoint takes 28 bytes and the end of its pod's name.
//!
//! What is asked of an endpoint is known when it is stored, because this node's name never changes: whether it is here, and
//! whether it is meant for us. Only the zone can change, so hints for zones stay as names, each list once per slice.

use std::net::IpAddr;
use std::sync::Arc;

use super::node_names::NodeNames;
use crate::facts::{EndpointFact, EndpointSlice, SlicePort};
use crate::name::SliceName;
use crate::net::Protocol;
use crate::place::Place;
use crate::report::Report;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct StoredSlice {
    pub(crate) name: SliceName,
    /// Whether a controller keeps it in step with Pods.
    pub(super) follows_pods: bool,
    pub(super) ports: Arc<[SlicePort]>,
    endpoints: Box<[StoredEndpoint]>,
    /// What all pod names begin with, then the rest of each, one after the other.
    pods: Box<str>,
    pod_prefix: u32,
    rare: Option<Box<Rare>>,
}

/// What few slices have.
#[derive(Debug, Default, PartialEq, Eq)]
struct Rare {
    zone_lists: Vec<Box<[Box<str>]>>,
    reports: Vec<Report>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct StoredEndpoint {
    pub(crate) address: IpAddr,
    /// The number of its node's name.
    pub(super) node: u16,
    conditions: u8,
    weight: Option<u8>,
    zone_list: u16,
    pod_end: u32,
}

const READY: u8 = 1;
const SERVING: u8 = 2;
const TERMINATING: u8 = 4;
const HAS_NODE_HINT: u8 = 8;
const MEANT_FOR_THIS_NODE: u8 = 16;
const HERE: u8 = 32;
const ELSEWHERE: u8 = 64;
const NO_ZONES: u16 = u16::MAX;
const MOST_ZONE_LISTS: usize = 1000;

impl StoredEndpoint {
    pub(crate) fn place(&self) -> Place {
        match self.conditions & (HERE | ELSEWHERE) {
            HERE => Place::Here,
            ELSEWHERE => Place::Elsewhere,
            _ => Place::Unknown,
        }
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.conditions & READY != 0
    }

    pub(crate) fn is_serving(&self) -> bool {
        self.conditions & SERVING != 0
    }

    pub(crate) fn is_terminating(&self) -> bool {
        self.conditions & TERMINATING != 0
    }

    pub(crate) fn has_node_hint(&self) -> bool {
        self.conditions & HAS_NODE_HINT != 0
    }

    pub(crate) fn is_meant_for_this_node(&self) -> bool {
        self.conditions & MEANT_FOR_THIS_NODE != 0
    }

    pub(crate) fn weight(&self) -> Option<u8> {
        self.weight
    }
}

impl StoredSlice {
    pub(super) fn new(slice: EndpointSlice, this_node: &str, nodes: &mut NodeNames) -> Self {
        let names = || slice.endpoints.iter().map(|e| e.pod.as_deref().unwrap_or_default());
        let prefix = common_prefix(names());
        let mut pods = String::from(prefix);
        let pod_prefix = length(prefix);
        let mut zone_lists: Vec<Box<[Box<str>]>> = Vec::new();
        let endpoints = slice.endpoints.iter().zip(names()).map(|(endpoint, name)| {
            pods.push_str(&name[prefix.len()..]);
            StoredEndpoint {
                address: endpoint.address,
                node: nodes.number(endpoint.node.as_ref()),
                conditions: conditions(endpoint, this_node),
                weight: endpoint.weight,
                zone_list: zone_list(endpoint, &mut zone_lists),
                pod_end: length(&pods),
            }
        });
        let endpoints = endpoints.collect();
        let rare = Rare { zone_lists, reports: slice.reports };
        Self {
            name: slice.name,
            follows_pods: slice.follows_pods,
            ports: slice.ports.into(),
            endpoints,
            pods: pods.into(),
            pod_prefix,
            rare: (rare != Rare::default()).then(|| Box::new(rare)),
        }
    }

    pub(crate) fn endpoints(&self) -> &[StoredEndpoint] {
        &self.endpoints
    }

    pub(crate) fn reports(&self) -> &[Report] {
        self.rare.as_ref().map_or(&[], |rare| &rare.reports)
    }

    pub(crate) fn has_port(&self, name: &str, protocol: Protocol) -> bool {
        self.ports.iter().any(|port| *port.name == *name && port.protocol == protocol)
    }

    /// The numbers under which this slice offers the port `name`.
    pub(crate) fn numbers_of(&self, name: &str, protocol: Protocol) -> impl Iterator<Item = u16> {
        self.ports
            .iter()
            .filter(move |port| *port.name == *name && port.protocol == protocol)
            .map(|port| port.port)
    }

    /// The name of the pod behind the endpoint at `index`; empty when it has none.
    pub(crate) fn pod(&self, index: usize) -> String {
        let start = index.checked_sub(1).map_or(self.pod_prefix, |before| self.endpoints[before].pod_end);
        let part = |from: u32, to: u32| self.pods.get(from as usize..to as usize).unwrap_or_default();
        [part(0, self.pod_prefix), part(start, self.endpoints[index].pod_end)].concat()
    }

    /// The zones that the endpoint is meant for.
    pub(crate) fn zones(&self, endpoint: &StoredEndpoint) -> Option<&[Box<str>]> {
        self.rare.as_ref()?.zone_lists.get(endpoint.zone_list as usize).map(|zones| &**zones)
    }
}

/// What all names begin with: pods of one workload share most of theirs.
fn common_prefix<'a>(mut names: impl Iterator<Item = &'a str>) -> &'a str {
    let first = names.next().unwrap_or_default();
    let shared = |a: &str, b: &str| a.bytes().zip(b.bytes()).take_while(|(x, y)| x == y).count();
    let length = names.fold(first.len(), |length, name| length.min(shared(first, name)));
    first.get(..length).unwrap_or_default()
}

fn length(text: &str) -> u32 {
    u32::try_from(text.len()).unwrap_or(u32::MAX)
}

fn conditions(endpoint: &EndpointFact, this_node: &str) -> u8 {
    let nodes = endpoint.hints.as_ref().map(|hints| &hints.nodes[..]).unwrap_or_default();
    let flag = |claim: bool, bit: u8| if claim { bit } else { 0 };
    let place = match endpoint.node.as_deref() {
        None => 0,
        Some(node) if node == this_node => HERE,
        Some(_) => ELSEWHERE,
    };
    place
        | flag(endpoint.ready, READY)
        | flag(endpoint.serving, SERVING)
        | flag(endpoint.terminating, TERMINATING)
        | flag(!nodes.is_empty(), HAS_NODE_HINT)
        | flag(nodes.iter().any(|node| **node == *this_node), MEANT_FOR_THIS_NODE)
}

fn zone_list(endpoint: &EndpointFact, lists: &mut Vec<Box<[Box<str>]>>) -> u16 {
    let zones = endpoint.hints.as_ref().map(|hints| &hints.zones[..]).unwrap_or_default();
    if zones.is_empty() {
        return NO_ZONES;
    }
    if let Some(known) = lists.iter().position(|list| **list == *zones) {
        return u16::try_from(known).unwrap_or(NO_ZONES);
    }
    // A slice has as many lists as there are zones, or few more. One with thousands would only cost time: from here on its
    // endpoints count as having no hint, which turns hints off for the Service.
    if lists.len() == MOST_ZONE_LISTS {
        return NO_ZONES;
    }
    lists.push(zones.into());
    u16::try_from(lists.len() - 1).unwrap_or(NO_ZONES)
}
