//! The words of the table: frontend, route, action, pool, endpoint.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::net::IpAddr;
use std::sync::Arc;

use crate::facts::Annotations;
use crate::frontend::{Frontend, FrontendKind};
use crate::name::ServicePortId;
use crate::net::{ByFamily, Family, IpNet};
use crate::place::Place;
use crate::report::Report;
use crate::time::Timestamp;

/// What to do for one frontend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The frontend.
    pub frontend: Frontend,
    /// What makes it one.
    pub kind: FrontendKind,
    /// Whose source address is hidden.
    pub masquerade: Masquerade,
    /// For packets of this cluster's pods and of this host.
    pub inside: Action,
    /// For all other packets. Differs from `inside` only where `externalTrafficPolicy` is `Local`.
    pub outside: Action,
    /// Who may come at all; everybody when there is none.
    pub allowed_sources: Option<Arc<AllowedSources>>,
}

/// Where a connection goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// To one of these.
    Forward(Pool),
    /// No endpoint anywhere in the cluster: refuse it.
    Reject,
    /// Endpoints exist, but none that the policy lets this node use: stay silent.
    Drop,
}

impl Action {
    /// The pool that connections go to, if any.
    pub fn pool(&self) -> Option<&Pool> {
        match self {
            Action::Forward(pool) => Some(pool),
            Action::Reject | Action::Drop => None,
        }
    }
}

/// Whose source address is hidden behind this node's own, so that answers come back this way. An endpoint that reaches
/// itself is always hidden, whatever this says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Masquerade {
    /// Nobody's.
    Nobody,
    /// Everybody's but that of this cluster's pods.
    AllButPods,
    /// That of this host, unless it counts as a pod.
    ThisHost,
    /// Everybody's.
    Everybody,
}

/// The endpoints that one kind of traffic is spread over. Never empty. Routes of one service port share them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    how: How,
    endpoints: Arc<[Endpoint]>,
}

impl Pool {
    /// A pool of these.
    ///
    /// # Panics
    ///
    /// If there are none.
    pub fn new(how: How, endpoints: Vec<Endpoint>) -> Self {
        assert!(!endpoints.is_empty(), "a pool has endpoints; without any the action is Reject or Drop");
        Self { how, endpoints: endpoints.into() }
    }

    /// How they were chosen.
    pub fn how(&self) -> How {
        self.how
    }

    /// All slots together. An endpoint's share is its own slots of these.
    pub fn slots(&self) -> u32 {
        self.endpoints.iter().map(|e| u32::from(e.slots)).sum()
    }

    /// The endpoints, ordered by address and port.
    pub fn endpoints(&self) -> &[Endpoint] {
        &self.endpoints
    }
}

/// How the endpoints of a pool were chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum How {
    /// All that are ready.
    Ready,
    /// The ready ones that are meant for this node.
    ForThisNode,
    /// The ready ones that are meant for this zone.
    ForThisZone,
    /// None is ready: all that still serve while they terminate.
    Terminating,
    /// The ready ones on this node.
    LocalReady,
    /// None here is ready: those here that still serve while they terminate.
    LocalTerminating,
}

/// Where a connection may land.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Endpoint {
    /// Its address.
    pub address: IpAddr,
    /// Its port.
    pub port: u16,
    /// How many of the pool's slots are its.
    pub slots: u16,
    /// Where it runs.
    pub place: Place,
}

/// Who may reach a load balancer IP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowedSources {
    /// Sources in these networks.
    pub ranges: Vec<IpNet>,
    /// The Service's own load balancer IPs, where the node itself is allowed: a packet that the node sends to one may carry
    /// that very address as its source.
    pub own_ips: Vec<IpAddr>,
}

impl AllowedSources {
    /// May this source come?
    pub fn contains(&self, source: IpAddr) -> bool {
        self.ranges.iter().any(|range| range.contains(&source)) || self.own_ips.contains(&source)
    }
}

/// A service port in the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServicePort {
    /// Which one, and since when its Service exists.
    pub claim: Arc<Claim>,
    /// A client stays with its endpoint for so many seconds after each connection.
    pub affinity_seconds: Option<u32>,
    /// The annotations of its Service that a mode may read.
    pub annotations: Annotations,
    /// What to do for each of its frontends.
    pub routes: Box<[Route]>,
    /// For UDP and SCTP: all endpoints that serve, also those that no route leads to. Flows to them go on.
    pub serving: Box<[(IpAddr, u16)]>,
    pub(super) trouble: Option<Box<Trouble>>,
}

/// Why a service port has no endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Absence {
    /// No slice has an endpoint for it.
    NoEndpoint,
    /// There are endpoints, but their slices have no port of this name and protocol.
    NoSuchPort,
    /// There are some, at addresses that no endpoint can have.
    Refused,
    /// There are some, and none is ready or serves while it terminates.
    NotReady,
    /// There are some, and all have weight 0.
    Drained,
}

/// What is wrong with a service port: nothing, with most.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Trouble {
    pub(super) absence: ByFamily<Option<Absence>>,
    pub(super) has_drained: ByFamily<bool>,
    pub(super) lost: Vec<Frontend>,
    pub(super) reports: Vec<Report>,
}

impl ServicePort {
    /// Which one.
    pub fn id(&self) -> &ServicePortId {
        &self.claim.id
    }

    /// Why no connection of a family can be sent anywhere, where that is so.
    pub fn absence(&self, family: Family) -> Option<Absence> {
        self.trouble.as_ref().and_then(|trouble| *trouble.absence.get(family))
    }

    /// Have endpoints that could be used weight 0?
    pub fn has_drained(&self, family: Family) -> bool {
        self.trouble.as_ref().is_some_and(|trouble| *trouble.has_drained.get(family))
    }

    /// Frontends that it would have, but that an older Service holds.
    pub fn lost(&self) -> &[Frontend] {
        self.trouble.as_ref().map_or(&[], |trouble| &trouble.lost)
    }

    /// What is wrong with it.
    pub fn reports(&self) -> &[Report] {
        self.trouble.as_ref().map_or(&[], |trouble| &trouble.reports)
    }

    /// Every frontend that it claims, also those that it does not hold.
    pub fn frontends(&self) -> impl Iterator<Item = Frontend> {
        self.routes.iter().map(|route| route.frontend).chain(self.lost().iter().copied())
    }
}

/// Who claims a frontend. The smallest claim holds it: the Service created earlier, then the smaller name. A function of
/// state, so that every node and every restart agrees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The service port.
    pub id: ServicePortId,
    /// When its Service was created; unknown counts as last.
    pub created: Option<Timestamp>,
}

impl Claim {
    /// Orders claims of one frontend, the holder first.
    pub fn precedence(&self, other: &Self) -> Ordering {
        let age = |claim: &Claim| claim.created.map_or(i64::MAX, |t| t.0);
        age(self).cmp(&age(other)).then_with(|| self.id.cmp(&other.id))
    }
}

// The table is ordered by name. A claim stands in for the name so that each name is stored once.
impl PartialOrd for Claim {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Claim {
    fn cmp(&self, other: &Self) -> Ordering {
        self.id.cmp(&other.id)
    }
}

impl Borrow<ServicePortId> for Arc<Claim> {
    fn borrow(&self) -> &ServicePortId {
        &self.id
    }
}

/// What a load balancer may ask this node about a Service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HealthCheck {
    /// `spec.healthCheckNodePort`.
    pub port: u16,
    /// How many ready endpoints of each family are here; `None` where the Service has no address of that family.
    pub local_endpoints: ByFamily<Option<usize>>,
}
