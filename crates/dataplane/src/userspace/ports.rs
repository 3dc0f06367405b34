//! Which listeners a service port needs, and which port each of them has.
//!
//! A service port has at most two pools in a family: one of endpoints anywhere ([`Purpose::Cluster`]), and one of this node's own,
//! where a traffic policy is `Local` ([`Purpose::Outside`]). Each has a listener, so that the relay needs to know no policy.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use model::{Family, ForwardingTable, Pool, Protocol, ServicePort, ServicePortId};

use crate::relay::{At, Listener, ListenerId, Purpose};
use crate::xtables::{is_local, pools, routes_of};

/// The port of every listener.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ports(BTreeMap<ServicePortId, BTreeMap<(Family, Purpose), u16>>);

impl Ports {
    /// Ports for everybody who needs one, in order: to show what rules look like where nothing listens.
    pub fn examples(desired: &ForwardingTable) -> Self {
        Self::examples_of(desired.ports())
    }

    pub(super) fn examples_of(ports: impl Iterator<Item = impl AsRef<ServicePort>>) -> Self {
        let needed = ports.flat_map(|port| {
            let of = |family| listeners(port.as_ref(), family).into_keys();
            Family::ALL.into_iter().flat_map(of).collect::<Vec<_>>()
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

    /// A listener is open.
    pub(super) fn insert(&mut self, id: &ListenerId, port: u16) {
        self.0.entry(id.port.clone()).or_default().insert((id.family, id.purpose), port);
    }

    /// A listener is closed.
    pub(super) fn remove(&mut self, id: &ListenerId) {
        let Some(ports) = self.0.get_mut(&id.port) else { return };
        ports.remove(&(id.family, id.purpose));
        if ports.is_empty() {
            self.0.remove(&id.port);
        }
    }

    /// The listeners of a service port.
    pub(super) fn of(&self, id: &ServicePortId) -> BTreeSet<ListenerId> {
        let ports = self.0.get(id).into_iter().flat_map(BTreeMap::keys);
        ports
            .map(|(family, purpose)| ListenerId { port: id.clone(), family: *family, purpose: *purpose })
            .collect()
    }
}

impl FromIterator<(ListenerId, u16)> for Ports {
    fn from_iter<T: IntoIterator<Item = (ListenerId, u16)>>(all: T) -> Self {
        let mut ports = Self::default();
        for (id, port) in all {
            ports.insert(&id, port);
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

/// The same by the listener's id.
pub(super) fn listeners(port: &ServicePort, family: Family) -> BTreeMap<ListenerId, &Pool> {
    let id = |purpose| ListenerId { port: port.id().clone(), family, purpose };
    needed(port, family).into_iter().map(|(purpose, pool)| (id(purpose), pool)).collect()
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
