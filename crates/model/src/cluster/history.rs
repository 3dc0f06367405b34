//! Which endpoints have vanished: their Pod is gone, and nobody will answer or reset their connections.
//!
//! In: slices as they come and go, and Nodes that are deleted. Out: [`Changed::vanished`]. An endpoint has vanished
//!
//! - if it was seen terminating and is now in no slice: its Pod object is gone, so its containers have ended; or
//! - if it is in no slice and its Node object was deleted, before or after.
//!
//! Only slices that a controller keeps in step with Pods count. What was taken out of a hand-written slice may be alive. So may
//! an endpoint that left without terminating: its labels may have changed, or the watch was interrupted.
//!
//! A restart forgets all this, and so ends no connection that it should not.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use super::node_names::NodeNames;
use super::{Changed, StoredSlice};
use crate::name::ServicePortId;

/// Maximum number of endpoints that are remembered for the case that their Node is deleted later. Few leave without
/// terminating.
const DEPARTED_MAX: usize = 10_000;

/// The service ports through which an endpoint was reached, each with the endpoint's port.
pub(super) type Through = BTreeSet<(ServicePortId, u16)>;

#[derive(Debug, Default)]
pub(super) struct EndpointHistory {
    /// Endpoints that were seen terminating, or that some slices have dropped, while others have them.
    leaving: BTreeMap<IpAddr, Leaving>,
    /// Endpoints that no slice has, and that were not seen terminating, by node.
    departed: BTreeMap<Arc<str>, BTreeMap<IpAddr, Through>>,
    departed_count: usize,
    /// Nodes that were there, and were deleted.
    deleted_nodes: BTreeSet<Box<str>>,
}

#[derive(Debug, Default)]
struct Leaving {
    pod: String,
    is_terminating: bool,
    through: Through,
}

/// Endpoints of this slice leave it.
#[derive(Debug)]
pub(super) struct Departure<'a> {
    pub(super) slice: &'a StoredSlice,
    /// The service ports through which they were reached.
    pub(super) through: Through,
}

impl EndpointHistory {
    /// This is how a slice is now.
    pub(super) fn saw(&mut self, slice: Option<&StoredSlice>) {
        let Some(slice) = slice.filter(|slice| slice.follows_pods) else { return };
        for (at, endpoint) in slice.endpoints().iter().enumerate() {
            // Most endpoints do not terminate, and most of the time no endpoint does.
            if !endpoint.is_terminating() && self.leaving.is_empty() {
                continue;
            }
            let pod = slice.pod(at);
            // The address is another Pod's now.
            if self.leaving.get(&endpoint.address).is_some_and(|known| known.pod != pod) {
                self.leaving.remove(&endpoint.address);
            }
            if endpoint.is_terminating() {
                let new = Leaving { pod, is_terminating: true, through: Through::new() };
                self.leaving.entry(endpoint.address).or_insert(new).is_terminating = true;
            }
        }
    }

    /// The endpoint at index `at` is no longer in its slice; `is_gone` if it is in no other either.
    pub(super) fn left(
        &mut self,
        departure: &Departure<'_>,
        at: usize,
        is_gone: bool,
        nodes: &NodeNames,
        changed: &mut Changed,
    ) {
        let endpoint = &departure.slice.endpoints()[at];
        let mut known = self.leaving.remove(&endpoint.address);
        if departure.slice.follows_pods {
            let pod = departure.slice.pod(at);
            // What is known may be of another Pod that has the address already.
            known = known.filter(|known| !is_gone || known.pod == pod);
            let leaving = known.get_or_insert_with(|| Leaving { pod: pod.clone(), ..Leaving::default() });
            if leaving.pod == pod {
                leaving.through.extend(departure.through.iter().cloned());
            }
        }
        let Some(known) = known else { return };
        if !is_gone {
            self.leaving.insert(endpoint.address, known);
            return;
        }
        let node = nodes.name(endpoint.node);
        if known.is_terminating || node.is_some_and(|node| self.deleted_nodes.contains(&**node)) {
            vanish(endpoint.address, known.through, changed);
        } else if let Some(node) = node.filter(|_| !known.through.is_empty()) {
            changed.departed_nodes.insert((**node).into());
            self.depart(node, endpoint.address, known.through);
        }
    }

    fn depart(&mut self, node: &Arc<str>, address: IpAddr, through: Through) {
        while self.departed_count >= DEPARTED_MAX
            && let Some((_, forgotten)) = self.departed.pop_first()
        {
            self.departed_count -= forgotten.len();
        }
        let of_node = self.departed.entry(Arc::clone(node)).or_default();
        self.departed_count += usize::from(of_node.insert(address, through).is_none());
    }

    /// The Node is there.
    pub(super) fn node_exists(&mut self, name: &str) {
        self.deleted_nodes.remove(name);
    }

    /// The Node is gone. Returns the endpoints that left it before. `was_known` if it was there: from a Node that another source only
    /// looked for, nothing is known about what comes later.
    pub(super) fn node_deleted(&mut self, name: &str, was_known: bool) -> Vec<(IpAddr, Through)> {
        if was_known {
            self.deleted_nodes.insert(name.into());
        }
        let departed = self.departed.remove(name).unwrap_or_default();
        self.departed_count -= departed.len();
        departed.into_iter().collect()
    }
}

/// The endpoint at this address has vanished.
pub(super) fn vanish(address: IpAddr, through: Through, changed: &mut Changed) {
    for (port, number) in through {
        changed.vanished.entry(port).or_default().insert((address, number));
    }
}
