//! Flows of UDP that lead to no port of ours any more, and must be forgotten.
//!
//! The connection tracker sends the later packets of a flow where the first one went: here to a listener, not to an endpoint. So an
//! endpoint that goes leaves no flow behind: the relay ends its sessions. What must go are flows of a frontend that is gone or
//! new, or that leads to other ports than before: another policy, a listener that was opened at another port.
//!
//! Flows that lead to a listener which is still right must stay: without them an answer of the relay would leave with the port
//! of the proxy as its source, and the client would not know it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use model::flows::{StaleFlows, dialled_at};
use model::table::NodeView;
use model::{
    Family, ForwardingTable, Frontend, NodePortAddress, Protocol, Route, ServicePort, ServicePortId,
};

use super::earlier::Earlier;
use super::ports::{Ports, purpose};
use super::render::Portals;
use crate::xtables::pools;

/// Where frontends of UDP led when flows were last looked at.
#[derive(Clone, Debug, Default)]
pub(super) struct Led {
    by_port: BTreeMap<ServicePortId, BTreeMap<Frontend, BTreeSet<u16>>>,
    node: NodeView,
}

impl Led {
    pub(super) fn ids(&self) -> impl Iterator<Item = &ServicePortId> {
        self.by_port.keys()
    }

    /// The node, as it was then.
    pub(super) fn node(&self) -> &NodeView {
        &self.node
    }

    /// What became stale with these service ports.
    pub(super) fn follow(
        &mut self,
        touched: &BTreeSet<ServicePortId>,
        desired: &ForwardingTable,
        style: &Portals,
        earlier: &mut Earlier,
    ) -> BTreeSet<StaleFlows> {
        let node_before = std::mem::replace(&mut self.node, desired.node().clone());
        let mut changed: BTreeSet<Frontend> = BTreeSet::new();
        for id in touched.iter().filter(|id| id.protocol == Protocol::Udp) {
            let port = style.quarantine.wanted(desired, id);
            let after = port.map(|port| led(&port, &style.ports)).unwrap_or_default();
            let mut before = self.by_port.remove(id).unwrap_or_default();
            let unknown: Vec<Frontend> =
                after.keys().filter(|key| !before.contains_key(*key)).copied().collect();
            before
                .extend(unknown.into_iter().filter_map(|frontend| Some((frontend, earlier.led(&frontend)?))));
            let differs = |frontend: &&Frontend| before.get(*frontend) != after.get(*frontend);
            changed.extend(before.keys().chain(after.keys()).filter(differs));
            if !after.is_empty() {
                self.by_port.insert(id.clone(), after);
            }
        }
        // Rules lead to addresses of this host, so flows to one that is gone lead nowhere.
        if node_before.addresses.iter().any(|ip| !self.node.addresses.contains(ip)) {
            changed.extend(self.by_port.values().flat_map(BTreeMap::keys));
        }
        let nodes = [&node_before, &self.node];
        let default = style.options.default_node_port_addresses;
        let now = |frontend| {
            let (holder, _) = desired.route(frontend)?;
            self.by_port.get(holder.id())?.get(frontend)
        };
        changed.iter().flat_map(|frontend| stale(frontend, nodes, now(frontend), default)).collect()
    }
}

/// The flows to a frontend that do not lead to one of these ports.
fn stale(
    frontend: &Frontend,
    nodes: [&NodeView; 2],
    now: Option<&BTreeSet<u16>>,
    default: NodePortAddress,
) -> Vec<StaleFlows> {
    let addresses: BTreeSet<IpAddr> =
        nodes.into_iter().flat_map(|node| dialled_at(frontend, node, default)).collect();
    let own = own_addresses(nodes[1], frontend.family());
    let still_served_by: BTreeSet<(IpAddr, u16)> =
        own.iter().flat_map(|ip| now.into_iter().flatten().map(move |port| (*ip, *port))).collect();
    let at = |ip| StaleFlows {
        protocol: Protocol::Udp,
        destination: (ip, frontend.port()),
        still_served_by: still_served_by.clone(),
    };
    addresses.into_iter().map(at).collect()
}

/// A redirected packet is answered by whichever address of this host the kernel chose.
fn own_addresses(node: &NodeView, family: Family) -> Vec<IpAddr> {
    let loopback: IpAddr = match family {
        Family::V4 => Ipv4Addr::LOCALHOST.into(),
        Family::V6 => Ipv6Addr::LOCALHOST.into(),
    };
    let of_family = node.addresses.iter().copied().filter(|ip| Family::of(*ip) == family);
    of_family.chain([loopback]).collect()
}

fn led(port: &ServicePort, ports: &Ports) -> BTreeMap<Frontend, BTreeSet<u16>> {
    port.routes.iter().map(|route| (route.frontend, ports_of(port.id(), route, ports))).collect()
}

fn ports_of(id: &ServicePortId, route: &Route, ports: &Ports) -> BTreeSet<u16> {
    let family = route.frontend.family();
    pools(route).filter_map(|pool| ports.get(id, family, purpose(pool))).collect()
}
