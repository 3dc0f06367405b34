//! Which listeners a service port needs, and which port each of them has.
//!
//! A service port has at most two pools in a family: one of endpoints anywhere ([`Purpose::Cluster`]), and one of this node's own,
//! where a traffic policy is `Local` ([`Purpose::Outside`]). Each has a listener, so that the relay needs to know no policy.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use model::{Family, ForwardingTable, Pool, Protocol, ServicePort, ServicePortId};

use crate::relay::{At, Listener, ListenerId, Purpose};
use crate::xtables::{is_local, pools, routes_of};

/// The port of every listener.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ports(BTreeMap<ServicePortId, BTreeMap<(Family, Purpose), u16>>);

/// The ports of one service port's listeners.
pub(super) type PortsOfOne = BTreeMap<(Family, Purpose), u16>;

impl Ports {
    /// Ports for everybody who needs one, in order: to show what rules look like where nothing listens.
    pub fn examples(desired: &ForwardingTable) -> Self {
        let needed = desired.ports().flat_map(|port| {
            let of = move |family| needed(port, family).into_keys().map(move |purpose| (family, purpose));
            Family::ALL.into_iter().flat_map(of).map(move |(family, purpose)| ListenerId {
                port: port.id().clone(),
                family,
                purpose,
            })
        });
        needed.zip((40_000..65_000).cycle()).collect()
    }

    /// The port of a listener.
    pub fn get(&self, port: &ServicePortId, family: Family, purpose: Purpose) -> Option<u16> {
        self.0.get(port)?.get(&(family, purpose)).copied()
    }

    /// Every listener with its port.
    pub fn iter(&self) -> impl Iterator<Item = (ListenerId, u16)> {
        self.0.iter().flat_map(|(id, ports)| {
            let listener =
                |(family, purpose): (Family, Purpose)| ListenerId { port: id.clone(), family, purpose };
            ports.iter().map(move |(key, port)| (listener(*key), *port))
        })
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = &ServicePortId> {
        self.0.keys()
    }

    /// A service port has these listeners now. Returns those that it had.
    pub(super) fn replace(&mut self, id: &ServicePortId, ports: PortsOfOne) -> PortsOfOne {
        let before = if ports.is_empty() { self.0.remove(id) } else { self.0.insert(id.clone(), ports) };
        before.unwrap_or_default()
    }
}

impl FromIterator<(ListenerId, u16)> for Ports {
    fn from_iter<T: IntoIterator<Item = (ListenerId, u16)>>(all: T) -> Self {
        let mut ports = Self::default();
        for (id, port) in all {
            ports.0.entry(id.port).or_default().insert((id.family, id.purpose), port);
        }
        ports
    }
}

/// The listener of a pool.
pub(super) fn purpose(pool: &Pool) -> Purpose {
    if is_local(pool) { Purpose::Outside } else { Purpose::Cluster }
}

/// The listeners that a service port needs, each with its pool. None for SCTP.
pub(super) fn needed(port: &ServicePort, family: Family) -> BTreeMap<Purpose, &Pool> {
    if port.id().protocol == Protocol::Sctp {
        return BTreeMap::new();
    }
    let pools = routes_of(port, family).into_iter().flat_map(pools);
    pools.map(|pool| (purpose(pool), pool)).collect()
}

/// What a listener should be.
pub(super) fn listener(port: &ServicePort, family: Family, pool: &Pool, wish: Option<u16>) -> Listener {
    let address = wildcard(family);
    Listener {
        protocol: port.id().protocol,
        at: At::Any { address, wish },
        pool: pool.clone(),
        affinity: port.affinity_seconds.map(|seconds| Duration::from_secs(seconds.into())),
    }
}

/// All addresses of a family.
pub(super) fn wildcard(family: Family) -> IpAddr {
    match family {
        Family::V4 => Ipv4Addr::UNSPECIFIED.into(),
        Family::V6 => Ipv6Addr::UNSPECIFIED.into(),
    }
}
