//! One service port: its routes of a family, in upstream's words, and from them all that it needs.

use std::collections::BTreeMap;
use std::net::IpAddr;

use kernel::IpProtocol;
use kernel::xtables::{ChainName, Match};
use model::{Endpoint, Family, FrontendKind, Pool, Route, ServicePort};

use super::{Renderer, frontends, own};
use crate::iptables::names::Names;
use crate::xtables::{PortRules, Refusals, comment_of, is_local, pools, routes_of};

/// A service port, in one family.
#[derive(Debug)]
pub(super) struct Port<'a> {
    pub(super) names: Names,
    pub(super) protocol: IpProtocol,
    pub(super) affinity_seconds: Option<u32>,
    /// The routes that it holds, in upstream's order.
    pub(super) routes: Vec<&'a Route>,
}

pub(super) fn rules(renderer: &Renderer<'_>, port: &ServicePort) -> PortRules {
    let mut rules = PortRules::default();
    let subject = Port::of(port, renderer.family);
    let refusals = Refusals {
        node: renderer.table.node(),
        node_ports: &renderer.node_ports,
        port: &subject.names.port,
        firewall: subject.names.firewall.as_str(),
    };
    for route in &subject.routes {
        refusals.write(route, &mut rules);
    }
    frontends::write(renderer, &subject, &mut rules);
    let is_of_family = port.frontends().any(|frontend| frontend.family() == renderer.family);
    if let Some(check) = renderer.health_checks.get(&port.id().service).filter(|_| is_of_family) {
        refusals.let_health_check_in(check, &mut rules);
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
        Self {
            names: Names::of(port.id()),
            protocol: port.id().protocol.into(),
            affinity_seconds: port.affinity_seconds,
            routes: routes_of(port, family),
        }
    }

    /// A comment with the name of the service port in it.
    pub(super) fn comment(&self, before: &str, behind: &str) -> Match {
        comment_of(format!("{before}{}{behind}", self.names.port))
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
