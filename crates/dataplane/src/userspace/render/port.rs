//! One service port: what leads to its listeners, what tells apart who may use which, and what guards their ports.
//!
//! ```text
//!   KUBE-PORTALS-… ─ cluster IP, external IP ──────────────────────────► REDIRECT, DNAT
//!                  └ load balancer IP with source ranges ─► KUBE-FROM-… ──┤
//!   KUBE-NODEPORT-… ─ node port ──────────────────────────────────────────┤
//!                                  externalTrafficPolicy Local, arrives ─► KUBE-POLICY- ─► REDIRECT
//! ```

use std::collections::BTreeMap;

use kernel::xtables::State;
use kernel::xtables::{Is, Match, Rule, Target};
use model::table::AllowedSources;
use model::{Frontend, FrontendKind, Protocol, Route, ServicePort};

use super::{NODE_PORT_CONTAINER, NODE_PORT_HOST, NON_LOCAL, PORTALS_CONTAINER, PORTALS_HOST, Renderer};
use crate::relay::Purpose;
use crate::userspace::names::{self, Names};
use crate::userspace::ports::{needed, purpose};
use crate::xtables::{
    PortRules, Refusals, Shared, comment_of, frontend_parts, refusal, routes_of, sources, states,
};

/// Nothing for a service port that has no listener though it needs one.
pub(super) fn rules(renderer: &Renderer<'_>, port: &ServicePort) -> PortRules {
    let mut rules = PortRules::default();
    let Some(subject) = Subject::of(renderer, port) else { return rules };
    let refusals = Refusals {
        node: renderer.table.node(),
        node_ports: &renderer.node_ports,
        port: &subject.names.port,
        firewall: subject.names.from_container.as_str(),
    };
    for route in &subject.routes {
        refusals.write(route, &mut rules);
        subject.lead(route, &mut rules);
        subject.leave_to_refusals(route, &mut rules);
    }
    subject.own_chains(&mut rules);
    subject.guard(&mut rules);
    let is_of_family = port.frontends().any(|frontend| frontend.family() == renderer.family);
    let check = renderer.table.health_checks().get(&port.id().service);
    if let Some(check) = check.filter(|_| is_of_family) {
        refusals.let_health_check_in(check, &mut rules);
    }
    rules
}

/// A service port, in one family.
struct Subject<'a> {
    renderer: &'a Renderer<'a>,
    names: Names,
    protocol: Match,
    routes: Vec<&'a Route>,
    /// The port of each of its listeners.
    listeners: BTreeMap<Purpose, u16>,
}

/// Where packets that arrive are led.
enum Led {
    /// All to one listener.
    To(Purpose),
    /// Pods to one, others to another or to none.
    ByPolicy,
}

impl<'a> Subject<'a> {
    fn of(renderer: &'a Renderer<'a>, port: &'a ServicePort) -> Option<Self> {
        let id = port.id();
        if id.protocol == Protocol::Sctp {
            return None;
        }
        let family = renderer.family;
        let found = needed(port, family)
            .into_keys()
            .map(|purpose| Some((purpose, renderer.ports.get(id, family, purpose)?)));
        Some(Self {
            renderer,
            names: Names::of(id),
            protocol: Match::Protocol(id.protocol.into()),
            routes: routes_of(port, family),
            listeners: found.collect::<Option<_>>()?,
        })
    }

    /// Leads a frontend to its listener, where anybody may get to an endpoint.
    fn lead(&self, route: &Route, rules: &mut PortRules) {
        let Some(pool) = route.inside.pool() else { return };
        let inside = purpose(pool);
        let jump = |chain: &kernel::xtables::ChainName| Target::Jump(chain.clone());
        let (container, host) = match (route.allowed_sources.as_ref(), led(route)) {
            (Some(_), _) => ((None, jump(&self.names.from_container)), (None, jump(&self.names.from_host))),
            (None, Some(Led::To(to))) => ((Some(to), self.redirect(to)), (Some(inside), self.dnat(inside))),
            (None, _) => ((None, jump(&self.names.policy)), (Some(inside), self.dnat(inside))),
        };
        let (to_container, to_host) = chains_of(route);
        for (chain, (purpose, target)) in [(to_container, container), (to_host, host)] {
            let parts = frontend_parts(self.comment(purpose.unwrap_or(Purpose::Cluster)), &route.frontend);
            self.push(chain, route, &parts, &target, rules);
        }
    }

    /// An address of this host that is not translated would be taken for one of a node port of that number.
    fn leave_to_refusals(&self, route: &Route, rules: &mut PortRules) {
        let Frontend::Address { ip, .. } = route.frontend else { return };
        if !self.renderer.table.node().is_own(ip) {
            return;
        }
        for (chain, action) in [(NODE_PORT_CONTAINER, &route.outside), (NODE_PORT_HOST, &route.inside)] {
            if route.allowed_sources.is_some() || refusal(action).is_some() {
                let parts = frontend_parts(self.comment(Purpose::Cluster), &route.frontend);
                rules.push(chain, Rule::new(parts, Target::Return));
            }
        }
    }

    /// A node port has a rule for each address where it answers, unless it answers on all: then the jump to this chain says so.
    fn push(&self, chain: Shared, route: &Route, parts: &[Match], target: &Target, rules: &mut PortRules) {
        if route.kind != FrontendKind::NodePort {
            return rules.push(chain, Rule::new(parts.iter().cloned(), target.clone()));
        }
        for destination in &self.renderer.node_ports.destinations {
            let only = destination.iter().filter(|part| matches!(part, Match::Destination(Is::Equal, _)));
            let parts = only.chain(parts).cloned();
            rules.push(chain, Rule::new(parts, target.clone()));
        }
    }

    fn own_chains(&self, rules: &mut PortRules) {
        // All of them have one policy, so one chain does for all.
        let by_policy = self.routes.iter().find(|route| matches!(led(route), Some(Led::ByPolicy)));
        let mut served = self.routes.iter().filter(|route| route.inside.pool().is_some());
        let guarded = served.find_map(|route| Some((*route, route.allowed_sources.as_deref()?)));
        if let Some((route, allowed)) = guarded {
            self.allow(route, allowed, rules);
        }
        if let Some(route) = by_policy {
            rules.add_chain(&self.names.policy, self.policy(route));
        }
    }

    /// Who may come is led on. Others come back, and `KUBE-PROXY-FIREWALL` drops them.
    fn allow(&self, route: &Route, allowed: &AllowedSources, rules: &mut PortRules) {
        let Some(inside) = route.inside.pool().map(purpose) else { return };
        let (arriving, container) = match led(route) {
            Some(Led::To(to)) => (to, self.redirect(to)),
            _ => (Purpose::Cluster, Target::Jump(self.names.policy.clone())),
        };
        for (chain, purpose, target) in [
            (&self.names.from_container, arriving, container),
            (&self.names.from_host, inside, self.dnat(inside)),
        ] {
            let rule = |source| {
                let parts = [self.comment(purpose), self.protocol.clone(), Match::Source(Is::Equal, source)];
                Rule::new(parts, target.clone())
            };
            rules.add_chain(chain, sources(allowed).into_iter().map(rule).collect());
        }
    }

    /// Pods would reach any endpoint if their packets left the node and came back.
    fn policy(&self, route: &Route) -> Vec<Rule> {
        let parts = |purpose| [self.comment(purpose), self.protocol.clone()];
        let inside = route.inside.pool().map(purpose);
        let pods = inside.map(|to| self.renderer.pods.inside(&parts(to), &self.redirect(to)));
        let others = route.outside.pool().map(purpose).map(|to| Rule::new(parts(to), self.redirect(to)));
        pods.into_iter().flatten().chain(others).collect()
    }

    /// Whoever dials a port of ours directly would go around source ranges and policies: it is as if nothing listened there.
    fn guard(&self, rules: &mut PortRules) {
        for (purpose, port) in &self.listeners {
            let parts = [self.comment(*purpose), self.protocol.clone(), Match::DestinationPort(*port)];
            let direct = parts.clone().into_iter().chain([states(Is::Not, &[State::Dnat])]);
            rules.push(NON_LOCAL, Rule::new(direct, Target::Reject));
            if self.has_node_port(*purpose) {
                rules.push(NON_LOCAL, Rule::new(parts, Target::Accept));
            }
        }
    }

    fn has_node_port(&self, wanted: Purpose) -> bool {
        let mut node_ports = self.routes.iter().filter(|route| route.kind == FrontendKind::NodePort);
        node_ports.any(|route| crate::xtables::pools(route).any(|pool| purpose(pool) == wanted))
    }

    fn comment(&self, purpose: Purpose) -> Match {
        comment_of(names::comment(&self.names.port, purpose))
    }

    fn port(&self, purpose: Purpose) -> u16 {
        *self
            .listeners
            .get(&purpose)
            .expect("every pool of its routes has a listener, else nothing is rendered")
    }

    fn redirect(&self, to: Purpose) -> Target {
        Target::Redirect(self.port(to))
    }

    fn dnat(&self, to: Purpose) -> Target {
        match self.renderer.own_address {
            Some(address) => Target::Dnat(address, Some(self.port(to))),
            None => self.redirect(to),
        }
    }
}

/// Where packets that arrive are led; `None` where there is nowhere to.
fn led(route: &Route) -> Option<Led> {
    let inside = purpose(route.inside.pool()?);
    let outside = route.outside.pool().map(purpose);
    Some(if outside == Some(inside) { Led::To(inside) } else { Led::ByPolicy })
}

/// The chains in which a frontend is led on: for what arrives, and for what this host sends.
fn chains_of(route: &Route) -> (Shared, Shared) {
    match route.frontend {
        Frontend::Address { .. } => (PORTALS_CONTAINER, PORTALS_HOST),
        Frontend::NodePort { .. } => (NODE_PORT_CONTAINER, NODE_PORT_HOST),
    }
}
