//! The rules of `filter`: what `nat` left as it was, and must not pass, is refused here. Health checks are let in.
//!
//! Rules of `nat` translate; what they leave as it was meets a refusal. Upstream has that in four places, and these rules are
//! upstream's word for word. Where its rules would let a packet through that `fate()` refuses, one more is written; each says why.

use std::collections::BTreeSet;

use kernel::IpProtocol;
use kernel::xtables::{Is, Match, Rule, Side, State, Table, Target};
use model::net::IpNet;
use model::table::{AllowedSources, HealthCheck, NodeView};
use model::{Action, Frontend, FrontendKind, Route};

use super::names::{self, name};
use super::node_ports::NodePorts;
use super::port::{comment_of, frontend_parts};
use super::words::{Jump, Place, PortRules, Shared};

/// What refusals of one service port depend upon.
pub(crate) struct Refusals<'a> {
    pub(crate) node: &'a NodeView,
    pub(crate) node_ports: &'a NodePorts,
    /// How comments call the service port.
    pub(crate) port: &'a str,
    /// The chain of `nat` that knows who may come to load balancer IPs.
    pub(crate) firewall: &'a str,
}

impl Refusals<'_> {
    /// Refuses what a route refuses.
    pub(crate) fn write(&self, route: &Route, rules: &mut PortRules) {
        let writer = &mut Writer { refusals: self, route, rules };
        match (route.frontend, route.allowed_sources.as_deref()) {
            (Frontend::NodePort { .. }, _) => writer.node_port(),
            (Frontend::Address { ip, .. }, allowed) => match (allowed, route.kind) {
                (_, FrontendKind::ClusterIp) => writer.cluster_ip(self.node.is_own(ip)),
                (Some(allowed), _) if route.inside.pool().is_none() => writer.behind_ranges(allowed),
                (guard, _) => writer.external(guard.is_some()),
            },
        }
    }

    /// Lets in who asks for the health of this node's endpoints.
    pub(crate) fn let_health_check_in(&self, check: &HealthCheck, rules: &mut PortRules) {
        let door = [Match::Protocol(IpProtocol::TCP), Match::DestinationPort(check.port)];
        let parts = [self.comment(" health check node port")].into_iter().chain(door);
        rules.push(Shared::HEALTH_CHECKS, Rule::new(parts, Target::Accept));
    }

    fn comment(&self, words: &str) -> Match {
        comment_of(format!("{}{words}", self.port))
    }
}

struct Writer<'a, 'b> {
    refusals: &'a Refusals<'a>,
    route: &'a Route,
    rules: &'b mut PortRules,
}

impl Writer<'_, '_> {
    fn cluster_ip(&mut self, is_own: bool) {
        let Some((target, words)) = refusal(&self.route.outside) else { return };
        if is_own {
            // Upstream asks on the way through and on the way out: no host has a cluster IP, says it. One may.
            self.push(Shared::EXTERNAL_REFUSED, words, target.clone());
        }
        self.push(Shared::REFUSED, words, target);
    }

    fn external(&mut self, is_guarded: bool) {
        if is_guarded {
            let words = format!(" traffic not accepted by {}", self.refusals.firewall);
            self.push(Shared::PROXY_FIREWALL, &words, Target::Drop);
        }
        let Some((target, words)) = refusal(&self.route.outside) else { return };
        if target == Target::Reject {
            // Upstream asks on the way in and through. What this host itself sends would leave, to wherever that address is.
            let mut parts = self.parts(words);
            parts.push(Match::Local(Side::Source, Is::Equal));
            self.rules.push(Shared::REFUSED, Rule::new(parts, Target::Reject));
        }
        self.push(Shared::EXTERNAL_REFUSED, words, target);
    }

    /// There is no endpoint, so nothing leads on: who may come is refused at once, and whoever may not, silently. Upstream
    /// refuses all, and so tells everybody that there is something.
    fn behind_ranges(&mut self, allowed: &AllowedSources) {
        for source in sources(allowed) {
            let mut parts = self.parts(" has no endpoints");
            parts.push(Match::Source(Is::Equal, source));
            self.rules.push(Shared::PROXY_FIREWALL, Rule::new(parts, Target::Reject));
        }
        self.push(Shared::PROXY_FIREWALL, " traffic not in loadBalancerSourceRanges", Target::Drop);
    }

    /// Upstream refuses on all addresses of this host. Here it is on those where node ports answer, and so nowhere else a
    /// program of this host is in its way.
    fn node_port(&mut self) {
        let Some((target, words)) = refusal(&self.route.outside) else { return };
        for destination in &self.refusals.node_ports.destinations {
            let mut parts = self.parts(words);
            parts.splice(1..1, destination.iter().cloned());
            self.rules.push(Shared::EXTERNAL_REFUSED, Rule::new(parts, target.clone()));
        }
    }

    fn push(&mut self, chain: Shared, words: &str, target: Target) {
        self.rules.push(chain, Rule::new(self.parts(words), target));
    }

    fn parts(&self, words: &str) -> Vec<Match> {
        frontend_parts(self.refusals.comment(words), &self.route.frontend)
    }
}

/// How an action refuses, and what a comment says then; `None` if it does not.
pub(crate) fn refusal(action: &Action) -> Option<(Target, &'static str)> {
    match action {
        Action::Forward(_) => None,
        Action::Reject => Some((Target::Reject, " has no endpoints")),
        Action::Drop => Some((Target::Drop, " has no local endpoints")),
    }
}

/// Whoever may come, each once.
pub(crate) fn sources(allowed: &AllowedSources) -> Vec<IpNet> {
    let own = allowed.own_ips.iter().map(|ip| IpNet::from(*ip));
    let mut all: Vec<IpNet> = Vec::new();
    for source in allowed.ranges.iter().copied().chain(own) {
        if !all.contains(&source) {
            all.push(source);
        }
    }
    all
}

/// What leads to refusals and health checks: upstream's jumps, before and behind whatever else a mode leads to from `filter`.
pub(crate) fn filter_jumps(between: impl IntoIterator<Item = Jump>) -> Vec<Jump> {
    let seen = "kubernetes externally-visible service portals";
    let portals = "kubernetes service portals";
    let balancers = "kubernetes load balancer firewall";
    let first = [
        jump("INPUT", names::EXTERNAL_SERVICES, true, seen),
        jump("FORWARD", names::EXTERNAL_SERVICES, true, seen),
        jump("INPUT", names::NODE_PORTS, false, "kubernetes health check service ports"),
        jump("FORWARD", names::SERVICES, true, portals),
        jump("OUTPUT", names::SERVICES, true, portals),
    ];
    let last = ["INPUT", "OUTPUT", "FORWARD"].map(|from| jump(from, names::PROXY_FIREWALL, true, balancers));
    first.into_iter().chain(between).chain(last).collect()
}

fn jump(from: &str, to: &str, only_new: bool, words: &str) -> Jump {
    let new = only_new.then(|| states(Is::Equal, &[State::New]));
    let comment = Match::Comment(words.to_owned());
    let rule = Rule::new(new.into_iter().chain([comment]), Target::Jump(name(to)));
    Jump { table: Table::Filter, from: name(from), place: Place::First, rule }
}

/// What the connection tracker must say of a packet.
pub(crate) fn states(is: Is, states: &[State]) -> Match {
    Match::State(is, states.iter().copied().collect::<BTreeSet<_>>())
}
