//! The rules of one service port in the chains of `nat` that all share: what leads to its own chains.

use kernel::xtables::Target;
use kernel::xtables::{Match, Rule};
use model::{Frontend, FrontendKind, Route};

use super::port::Port;
use super::{Renderer, TO_NODE_PORTS, TO_SERVICES};
use crate::xtables::{PortRules, Shared, frontend_parts, refusal};

pub(super) fn write(renderer: &Renderer<'_>, port: &Port<'_>, rules: &mut PortRules) {
    for route in &port.routes {
        let mut push = |chain: Shared, target| {
            rules.push(chain, Rule::new(address_parts(port, route), target));
        };
        match (route.frontend, leads_to(port, route)) {
            (Frontend::Address { .. }, Some(target)) => push(TO_SERVICES, target),
            (Frontend::NodePort { .. }, Some(target)) => push(TO_NODE_PORTS, target),
            (_, None) => {}
        }
        // An address of this host that is not translated here would be taken for one of a node port of that number.
        let is_own =
            matches!(route.frontend, Frontend::Address { ip, .. } if renderer.table.node().is_own(ip));
        if is_own && (route.allowed_sources.is_some() || refusal(&route.outside).is_some()) {
            push(TO_NODE_PORTS, Target::Return);
        }
    }
}

/// The parts of a rule for a frontend: whose it is, and what it is dialled by.
pub(super) fn address_parts(port: &Port<'_>, route: &Route) -> Vec<Match> {
    frontend_parts(port.comment("", kind(route)), &route.frontend)
}

/// What upstream calls a frontend, behind the name of its service port.
fn kind(route: &Route) -> &'static str {
    match route.kind {
        FrontendKind::ClusterIp => " cluster IP",
        FrontendKind::ExternalIp => " external IP",
        FrontendKind::LoadBalancerIp => " loadbalancer IP",
        FrontendKind::NodePort => "",
    }
}

/// A chain of its own, where that can end at an endpoint for anybody.
fn leads_to(port: &Port<'_>, route: &Route) -> Option<Target> {
    let pool = route.inside.pool()?;
    let chain = match route.kind {
        FrontendKind::ClusterIp => port.chain_of(pool),
        _ if route.allowed_sources.is_some() => &port.names.firewall,
        _ => &port.names.external,
    };
    Some(Target::Jump(chain.clone()))
}
