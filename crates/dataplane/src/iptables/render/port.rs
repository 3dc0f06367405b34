//! One service port: its routes of a family, in upstream's words, and from them all that it needs.

use std::collections::BTreeMap;
use std::net::IpAddr;

use kernel::xtables::{ChainName, Match, Protocol, Rule, Target};
use model::table::How;
use model::{Endpoint, Family, FrontendKind, Pool, Route, ServicePort};

use super::{PortRules, Renderer, Shared, frontends, own};
use crate::iptables::names::Names;

/// Upstream's order.
const KINDS: [FrontendKind; 4] =
    [FrontendKind::ClusterIp, FrontendKind::ExternalIp, FrontendKind::LoadBalancerIp, FrontendKind::NodePort];

/// A comment may have so many bytes: one more, and the program refuses everything.
const COMMENT_BYTES_MAX: usize = 255;

/// A service port, in one family.
#[derive(Debug)]
pub(super) struct Port<'a> {
    pub(super) names: Names,
    pub(super) protocol: Protocol,
    pub(super) affinity_seconds: Option<u32>,
    /// The routes that it holds, in upstream's order.
    pub(super) routes: Vec<&'a Route>,
}

pub(super) fn rules(renderer: &Renderer<'_>, port: &ServicePort) -> PortRules {
    let mut rules = PortRules::default();
    let subject = Port::of(port, renderer.family);
    frontends::write(renderer, &subject, &mut rules);
    let is_of_family = port.frontends().any(|frontend| frontend.family() == renderer.family);
    if let Some(check) = renderer.health_checks.get(&port.id().service).filter(|_| is_of_family) {
        let door = [Match::Protocol(Protocol::TCP), Match::DestinationPort(check.port)];
        let parts = [subject.comment("", " health check node port")].into_iter().chain(door);
        rules.push(Shared::HealthChecks, Rule::new(parts, Target::Accept));
    }
    own::write(renderer, &subject, &mut rules);
    rules
}

/// Every endpoint that a route of the family leads to, once, by address and port.
pub(super) fn endpoints(port: &ServicePort, family: Family) -> BTreeMap<(IpAddr, u16), &Endpoint> {
    let routes = port.routes.iter().filter(|route| route.frontend.family() == family);
    let pools = routes.flat_map(pools);
    pools.flat_map(Pool::endpoints).map(|endpoint| ((endpoint.address, endpoint.port), endpoint)).collect()
}

impl<'a> Port<'a> {
    fn of(port: &'a ServicePort, family: Family) -> Self {
        let of_kind = |kind| {
            port.routes.iter().filter(move |route| route.kind == kind && route.frontend.family() == family)
        };
        Self {
            names: Names::of(port.id()),
            protocol: match port.id().protocol {
                model::Protocol::Tcp => Protocol::TCP,
                model::Protocol::Udp => Protocol::UDP,
                model::Protocol::Sctp => Protocol::SCTP,
            },
            affinity_seconds: port.affinity_seconds,
            routes: KINDS.into_iter().flat_map(of_kind).collect(),
        }
    }

    /// A comment with the name of the service port in it.
    pub(super) fn comment(&self, before: &str, behind: &str) -> Match {
        let mut text = format!("{before}{}{behind}", self.names.port);
        // Names are of ASCII letters alone.
        text.truncate(COMMENT_BYTES_MAX);
        Match::Comment(text)
    }

    /// The chain that draws an endpoint of a pool.
    pub(super) fn chain_of(&self, pool: &Pool) -> &ChainName {
        if is_local(pool) { &self.names.local } else { &self.names.cluster }
    }

    /// The pool of all endpoints, and that of this node's, where routes lead there.
    pub(super) fn pools(&self) -> impl Iterator<Item = &'a Pool> {
        let find = |wants_local| {
            self.routes.iter().copied().flat_map(pools).find(|pool| is_local(pool) == wants_local)
        };
        [find(false), find(true)].into_iter().flatten()
    }

    /// Routes of addresses that the world can see.
    pub(super) fn external(&self) -> impl Iterator<Item = &'a Route> {
        self.routes.iter().copied().filter(|route| route.kind != FrontendKind::ClusterIp)
    }
}

fn pools(route: &Route) -> impl Iterator<Item = &Pool> {
    [&route.inside, &route.outside].into_iter().filter_map(|action| action.pool())
}

fn is_local(pool: &Pool) -> bool {
    matches!(pool.how(), How::LocalReady | How::LocalTerminating)
}
