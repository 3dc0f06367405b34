//! Which flows of the connection tracker became stale between two tables.
//!
//! The kernel sends the later packets of a flow where the first one went. For UDP and SCTP, whose clients keep one socket
//! for hours, that means into the void once the endpoint is gone, or past a Service that did not exist yet. Such flows
//! must be forgotten, so that their next packet is a first one again. They are:
//!
//! - flows to a frontend whose endpoint no more serves (it may go on while terminating, as long as it serves);
//! - flows to a frontend that is gone: a deleted Service, port, external IP or node port;
//! - flows that were made before there was an endpoint, or a Service: they lead to nowhere.
//!
//! TCP connections are left alone as long as their Pod may be there: forgetting them would turn a slow shutdown into a broken
//! one. Those of a Pod that has vanished ([`Delta::vanished`]) are another matter: nobody answers, and the client waits for
//! about 15 minutes. [`vanished_flows`] names them, so that a mode can end them, each in its own way. See
//! docs/decisions/0024.

use std::collections::BTreeSet;
use std::net::IpAddr;

use crate::cluster::{Cluster, VanishedEndpoints};
use crate::config::NodePortAddress;
use crate::frontend::Frontend;
use crate::name::ServicePortId;
use crate::net::{Family, Protocol};
use crate::table::{Delta, ForwardingTable, NodeView, ServicePort};

/// A flow, as the connection tracker has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Its protocol.
    pub protocol: Protocol,
    /// Where the client sent it.
    pub destination: (IpAddr, u16),
    /// Who answers it: the endpoint, or the destination itself when nothing was translated.
    pub answered_by: (IpAddr, u16),
}

/// Flows to one address of which all but some are stale.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StaleFlows {
    /// Their protocol.
    pub protocol: Protocol,
    /// Where the client sent them.
    pub destination: (IpAddr, u16),
    /// Those that are answered by one of these go on.
    pub still_served_by: BTreeSet<(IpAddr, u16)>,
}

impl StaleFlows {
    /// Is this flow one of them?
    pub fn contains(&self, flow: &Flow) -> bool {
        flow.protocol == self.protocol
            && flow.destination == self.destination
            && !self.still_served_by.contains(&flow.answered_by)
    }
}

/// The flows that became stale by the change from `delta` to `table`, ordered and without repetition. `default` says where
/// node ports answer when nothing is configured ([`crate::Promises::default_node_port_addresses`]).
pub fn stale_flows(delta: &Delta, table: &ForwardingTable, default: NodePortAddress) -> BTreeSet<StaleFlows> {
    let mut stale = BTreeSet::new();
    for (id, before) in &delta.before {
        if id.protocol == Protocol::Tcp {
            continue;
        }
        let after = table.port(id);
        if !serves_less_or_first(before.as_deref(), after.map(|p| &**p))
            && same_frontends(before.as_deref(), after.map(|p| &**p))
        {
            continue;
        }
        let ports = before.iter().chain(after);
        let frontends: BTreeSet<Frontend> = ports.flat_map(|p| p.routes.iter().map(|r| r.frontend)).collect();
        for frontend in frontends {
            let now = table.route(&frontend).map(|(port, _)| &port.serving[..]).unwrap_or_default();
            stale.extend(addresses(&frontend, delta, table, default).into_iter().map(|ip| StaleFlows {
                protocol: frontend.protocol(),
                destination: (ip, frontend.port()),
                still_served_by:
                    now.iter().filter(|e| Family::of(e.0) == frontend.family()).copied().collect(),
            }));
        }
    }
    stale
}

/// TCP connections of one service port to an endpoint that has vanished: all are to be ended.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct VanishedFlows {
    /// The service port.
    pub port: ServicePortId,
    /// The endpoint, which no slice has any more.
    pub endpoint: (IpAddr, u16),
    /// Where clients dialled it.
    pub destinations: BTreeSet<(IpAddr, u16)>,
}

impl VanishedFlows {
    /// Is this flow one of them?
    pub fn contains(&self, flow: &Flow) -> bool {
        flow.protocol == Protocol::Tcp
            && flow.answered_by == self.endpoint
            && self.destinations.contains(&flow.destination)
    }
}

/// The connections to endpoints that have vanished, ordered. An address that a slice has again is another Pod's, which
/// resets what it does not know, and whose own connections must stay: it is left out. So is a Service that is gone.
pub fn vanished_flows(
    vanished: &VanishedEndpoints,
    cluster: &Cluster,
    table: &ForwardingTable,
    default: NodePortAddress,
) -> BTreeSet<VanishedFlows> {
    let mut flows = BTreeSet::new();
    for (id, endpoints) in vanished {
        let Some(port) = table.port(id) else { continue };
        for endpoint in endpoints.iter().filter(|endpoint| !cluster.has_endpoint_at(endpoint.0)) {
            let of_family = port.routes.iter().filter(|r| r.frontend.family() == Family::of(endpoint.0));
            let destinations = of_family.flat_map(|route| {
                let ips = dialled_at(&route.frontend, table.node(), default);
                ips.into_iter().map(move |ip| (ip, route.frontend.port()))
            });
            let destinations: BTreeSet<_> = destinations.collect();
            if !destinations.is_empty() {
                flows.insert(VanishedFlows { port: id.clone(), endpoint: *endpoint, destinations });
            }
        }
    }
    flows
}

/// The flows to these frontends, which an earlier process left in the kernel and which nobody asks for any more. Those that
/// somebody does ask for are left out.
pub fn flows_to(
    frontends: &BTreeSet<Frontend>,
    table: &ForwardingTable,
    default: NodePortAddress,
) -> BTreeSet<StaleFlows> {
    let is_stale =
        |frontend: &&Frontend| frontend.protocol() != Protocol::Tcp && table.route(frontend).is_none();
    let at = |frontend: &Frontend| {
        let addresses = addresses(frontend, &Delta::default(), table, default);
        let (protocol, port) = (frontend.protocol(), frontend.port());
        let stale =
            move |ip| StaleFlows { protocol, destination: (ip, port), still_served_by: BTreeSet::new() };
        addresses.into_iter().map(stale)
    };
    frontends.iter().filter(is_stale).flat_map(at).collect()
}

/// Did an endpoint go, or did the first ones come?
fn serves_less_or_first(before: Option<&ServicePort>, after: Option<&ServicePort>) -> bool {
    let (Some(before), Some(after)) = (before, after) else { return true };
    let gone = |endpoint: &(IpAddr, u16)| !after.serving.contains(endpoint);
    let had = |family| before.serving.iter().any(|e| Family::of(e.0) == family);
    let has = |family| after.serving.iter().any(|e| Family::of(e.0) == family);
    before.serving.iter().any(gone) || Family::ALL.into_iter().any(|family| !had(family) && has(family))
}

fn same_frontends(before: Option<&ServicePort>, after: Option<&ServicePort>) -> bool {
    let of = |port: Option<&ServicePort>| -> BTreeSet<Frontend> {
        port.into_iter().flat_map(|p| p.routes.iter().map(|r| r.frontend)).collect()
    };
    of(before) == of(after)
}

/// The addresses at which a frontend is or was dialled.
fn addresses(
    frontend: &Frontend,
    delta: &Delta,
    table: &ForwardingTable,
    default: NodePortAddress,
) -> BTreeSet<IpAddr> {
    let nodes = delta.node_before.iter().chain([table.node()]);
    nodes.flat_map(|node| dialled_at(frontend, node, default)).collect()
}

/// The addresses at which a frontend is dialled. A node port is matched on this node's addresses: another host's flow that
/// happens to have the port is none of ours.
pub fn dialled_at(frontend: &Frontend, node: &NodeView, default: NodePortAddress) -> Vec<IpAddr> {
    match frontend {
        Frontend::Address { ip, .. } => vec![*ip],
        Frontend::NodePort { family, .. } => {
            let entries = node.node_port_addresses(*family, default);
            let own = node.addresses.iter().filter(|ip| Family::of(**ip) == *family);
            own.filter(|ip| node.covers(&entries, **ip)).copied().collect()
        }
    }
}
