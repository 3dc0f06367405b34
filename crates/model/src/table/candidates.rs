//! The endpoints that a service port could use, whatever its policies: out of all slices, each once, with its weight.
//!
//! Two slices may name one address and port, while a pod moves between them or when its address was used again. Then the
//! one that is not terminating counts, then the one that is ready, then the one in the slice whose name comes first.
//! Weight 0 drains: such an endpoint is gathered for the flows that it has, and then left out.

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::cluster::{Cluster, StoredEndpoint, StoredSlice, Vips};
use crate::facts::Weight;
use crate::name::{ObjectRef, ServicePortId};
use crate::net::{ByFamily, Family};
use crate::object::weight_of;
use crate::place::Place;
use crate::report::Report;

/// An endpoint that could be used.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate<'a> {
    pub(super) address: IpAddr,
    pub(super) port: u16,
    pub(super) weight: u8,
    endpoint: &'a StoredEndpoint,
    slice: &'a StoredSlice,
}

impl Candidate<'_> {
    pub(super) fn is_ready(&self) -> bool {
        self.endpoint.is_ready()
    }

    pub(super) fn is_serving(&self) -> bool {
        self.endpoint.is_serving()
    }

    pub(super) fn is_serving_while_terminating(&self) -> bool {
        self.endpoint.is_serving() && self.endpoint.is_terminating()
    }

    pub(super) fn place(&self) -> Place {
        self.endpoint.place()
    }

    pub(super) fn has_node_hint(&self) -> bool {
        self.endpoint.has_node_hint()
    }

    pub(super) fn is_meant_for_this_node(&self) -> bool {
        self.endpoint.is_meant_for_this_node()
    }

    pub(super) fn zones(&self) -> Option<&[Box<str>]> {
        self.slice.zones(self.endpoint)
    }

    /// Smaller is better, of two with the same address and port.
    fn rank(&self) -> (bool, bool) {
        (self.endpoint.is_terminating(), !self.endpoint.is_ready())
    }
}

/// The candidates of a service port, ordered by address and port.
pub(super) fn gather<'a>(
    cluster: &'a Cluster,
    id: &ServicePortId,
    reports: &mut Vec<Report>,
) -> ByFamily<Vec<Candidate<'a>>> {
    let Some(service) = cluster.service(&id.service) else { return ByFamily::default() };
    let weights = service.external.as_deref().map(|e| &e.weights[..]).unwrap_or_default();
    let mut found: BTreeMap<(IpAddr, u16), Candidate<'a>> = BTreeMap::new();
    for slice in cluster.slices(&id.service) {
        for port in slice.numbers_of(&id.port, id.protocol) {
            for (index, endpoint) in slice.endpoints().iter().enumerate() {
                if let Some(problem) = refusal(cluster.vips(), endpoint.address, id, port) {
                    reports.push(refused(slice, endpoint.address, problem));
                    continue;
                }
                let weight = weight(weights, slice, index, endpoint);
                let new = Candidate { address: endpoint.address, port, weight, endpoint, slice };
                let kept = found.entry((endpoint.address, port)).or_insert(new);
                if new.rank() < kept.rank() {
                    *kept = new;
                }
            }
        }
    }
    split(found.into_values())
}

/// No new connection goes to an endpoint of weight 0. Flows that it has go on: that is what draining means.
pub(super) fn leave_out_drained(candidates: &mut ByFamily<Vec<Candidate<'_>>>) {
    for family in Family::ALL {
        candidates.get_mut(family).retain(|candidate| candidate.weight > 0);
    }
}

fn split<'a>(candidates: impl Iterator<Item = Candidate<'a>>) -> ByFamily<Vec<Candidate<'a>>> {
    let mut by_family = ByFamily::default();
    for candidate in candidates {
        let list: &mut Vec<_> = by_family.get_mut(Family::of(candidate.address));
        list.push(candidate);
    }
    by_family
}

/// The Service's own annotation counts first, then what the slice or the pod says.
fn weight(weights: &[Weight], slice: &StoredSlice, index: usize, endpoint: &StoredEndpoint) -> u8 {
    let own = if weights.is_empty() { None } else { weight_of(weights, endpoint.address, &slice.pod(index)) };
    own.or(endpoint.weight()).unwrap_or(1)
}

/// Why an endpoint cannot be here, if so. Such an address would turn the node against itself or its cloud's metadata
/// service (CVE-2021-25737, CVE-2020-8554 and their kin), or send packets round in circles.
fn refusal(vips: &Vips, address: IpAddr, id: &ServicePortId, port: u16) -> Option<&'static str> {
    let is_broadcast = matches!(address, IpAddr::V4(ip) if ip.is_broadcast());
    if address.is_loopback() {
        Some("is a loopback address")
    } else if crate::object::is_link_local(address) {
        Some("is a link-local address")
    } else if address.is_multicast() || is_broadcast {
        Some("is a multicast or broadcast address")
    } else if address.is_unspecified() {
        Some("is the unspecified address")
    } else {
        vips.refuses(address, id.protocol, port)
    }
}

fn refused(slice: &StoredSlice, address: IpAddr, problem: &str) -> Report {
    let object = ObjectRef::slice(&slice.name);
    Report::new(
        object,
        "endpoints[].addresses",
        &address.to_string(),
        format!("{problem}; this endpoint is refused"),
    )
}
