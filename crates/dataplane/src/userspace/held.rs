//! Node ports, held by sockets so that no other program of this host takes one: it would hear nothing, and not know why.
//!
//! An address that another program has is reported by the name of the service port; its rules are in force all the same.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use model::flows::dialled_at;
use model::table::NodeView;
use model::{Frontend, NodePortAddress, Protocol, ServicePort, ServicePortId};

use crate::relay::{RelayError, Relays};

/// What is held for whom.
#[derive(Clone, Debug, Default)]
pub(super) struct Held {
    held: BTreeMap<ServicePortId, BTreeSet<SocketAddr>>,
    /// Service ports of which not all could be held, with the reason.
    pub(super) warned: BTreeMap<ServicePortId, String>,
}

impl Held {
    /// Service ports for which something is held, or could not be.
    pub(super) fn ids(&self) -> impl Iterator<Item = &ServicePortId> {
        self.held.keys().chain(self.warned.keys())
    }

    /// Holds exactly this for these service ports. What nobody needs is let go first: another may need it.
    pub(super) fn update<R: Relays>(
        &mut self,
        relays: &mut R,
        wanted: BTreeMap<ServicePortId, BTreeSet<SocketAddr>>,
    ) {
        for (id, wanted) in &wanted {
            let before = self.held.remove(id).unwrap_or_default();
            before.difference(wanted).for_each(|at| relays.release(*at, id.protocol));
            self.warned.remove(id);
        }
        for (id, wanted) in wanted {
            let mut held = BTreeSet::new();
            for at in wanted {
                match relays.hold(at, id.protocol) {
                    Ok(()) => drop(held.insert(at)),
                    // The Node object may name addresses that others have for this host: nothing here can take them.
                    Err(RelayError::NoSuchAddress { .. }) => {}
                    Err(error) => drop(self.warned.entry(id.clone()).or_insert_with(|| error.to_string())),
                }
            }
            if !held.is_empty() {
                self.held.insert(id, held);
            }
        }
    }
}

/// Where the node ports of a service port answer.
pub(super) fn wanted(port: &ServicePort, node: &NodeView, default: NodePortAddress) -> BTreeSet<SocketAddr> {
    let frontends = port.routes.iter().map(|route| route.frontend);
    let node_ports = frontends.filter(|frontend| matches!(frontend, Frontend::NodePort { .. }));
    let carried = node_ports.filter(|frontend| frontend.protocol() != Protocol::Sctp);
    let at = |frontend: Frontend| {
        let addresses = dialled_at(&frontend, node, default).into_iter().filter(|ip| can_be_bound(*ip));
        addresses.map(move |ip| SocketAddr::new(ip, frontend.port()))
    };
    carried.flat_map(at).collect()
}

/// A link-local address is one only together with an interface, which nobody names here.
fn can_be_bound(ip: IpAddr) -> bool {
    !matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local())
}
