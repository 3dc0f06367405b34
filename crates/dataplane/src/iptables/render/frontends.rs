//! The rules of one service port in the chains that all share: what leads to its own chains, and what refuses.
//!
//! Rules of `nat` translate; what they leave as it was meets a refusal in `filter`. Upstream has that in four places, and
//! these rules are upstream's word for word. Where its rules would let a packet through that `fate()` refuses, one more is
//! written; each says why.

use std::net::IpAddr;

use kernel::xtables::{Is, Match, Rule, Side, Target};
use model::net::IpNet;
use model::table::AllowedSources;
use model::{Action, Frontend, FrontendKind, Route};

use super::port::Port;
use super::{PortRules, Renderer, Shared};

pub(super) fn write(renderer: &Renderer<'_>, port: &Port<'_>, rules: &mut PortRules) {
    for route in &port.routes {
        let mut writer = Writer { renderer, port, route, rules };
        match route.frontend {
            Frontend::Address { ip, .. } => writer.address(ip),
            Frontend::NodePort { .. } => writer.node_port(),
        }
    }
}

/// The parts of a rule for a frontend that is an address: whose it is, and what it is dialled by.
pub(super) fn address_parts(port: &Port<'_>, comment: Match, route: &Route) -> Vec<Match> {
    let destination = match route.frontend {
        Frontend::Address { ip, .. } => Some(Match::Destination(Is::Equal, IpNet::from(ip))),
        Frontend::NodePort { .. } => None,
    };
    let protocol = [comment, Match::Protocol(port.protocol)];
    let number = Match::DestinationPort(route.frontend.port());
    protocol.into_iter().chain(destination).chain([number]).collect()
}

/// What upstream calls a frontend, behind the name of its service port.
pub(super) fn kind(route: &Route) -> &'static str {
    match route.kind {
        FrontendKind::ClusterIp => " cluster IP",
        FrontendKind::ExternalIp => " external IP",
        FrontendKind::LoadBalancerIp => " loadbalancer IP",
        FrontendKind::NodePort => "",
    }
}

struct Writer<'a, 'b> {
    renderer: &'a Renderer<'a>,
    port: &'a Port<'a>,
    route: &'a Route,
    rules: &'b mut PortRules,
}

impl Writer<'_, '_> {
    fn address(&mut self, ip: IpAddr) {
        self.lead();
        let allowed = self.route.allowed_sources.as_deref();
        let is_own = self.renderer.table.node().is_own(ip);
        match (allowed, self.route.kind) {
            (_, FrontendKind::ClusterIp) => self.refuse_cluster_ip(is_own),
            (Some(allowed), _) if self.route.inside.pool().is_none() => self.refuse_behind_ranges(allowed),
            (guard, _) => self.refuse_external(guard.is_some()),
        }
        // An address of this host that is not translated here would be taken for one of a node port of that number.
        if is_own && (allowed.is_some() || refusal(&self.route.outside).is_some()) {
            self.push(Shared::NodePorts, kind(self.route), Target::Return);
        }
    }

    /// Leads to a chain of its own, where that can end at an endpoint for anybody.
    fn lead(&mut self) {
        let Some(pool) = self.route.inside.pool() else { return };
        let names = &self.port.names;
        let chain = match self.route.kind {
            FrontendKind::ClusterIp => self.port.chain_of(pool),
            _ if self.route.allowed_sources.is_some() => &names.firewall,
            _ => &names.external,
        };
        let shared = match self.route.frontend {
            Frontend::Address { .. } => Shared::Services,
            Frontend::NodePort { .. } => Shared::NodePorts,
        };
        self.push(shared, kind(self.route), Target::Jump(chain.clone()));
    }

    fn refuse_cluster_ip(&mut self, is_own: bool) {
        let Some((target, words)) = refusal(&self.route.outside) else { return };
        if is_own {
            // Upstream asks on the way through and on the way out: no host has a cluster IP, says it. One may.
            self.push(Shared::ExternalRefused, words, target.clone());
        }
        self.push(Shared::Refused, words, target);
    }

    fn refuse_external(&mut self, is_guarded: bool) {
        if is_guarded {
            let words = format!(" traffic not accepted by {}", self.port.names.firewall);
            self.push(Shared::ProxyFirewall, &words, Target::Drop);
        }
        let Some((target, words)) = refusal(&self.route.outside) else { return };
        if target == Target::Reject {
            // Upstream asks on the way in and through. What this host itself sends would leave, to wherever that address is.
            let mut parts = self.parts(words);
            parts.push(Match::Local(Side::Source, Is::Equal));
            self.rules.push(Shared::Refused, Rule::new(parts, Target::Reject));
        }
        self.push(Shared::ExternalRefused, words, target);
    }

    /// There is no endpoint, so no chain of its own: who may come is refused at once, and whoever may not, silently. Upstream
    /// refuses all, and so tells everybody that there is something.
    fn refuse_behind_ranges(&mut self, allowed: &AllowedSources) {
        for source in sources(allowed) {
            let mut parts = self.parts(" has no endpoints");
            parts.push(Match::Source(Is::Equal, source));
            self.rules.push(Shared::ProxyFirewall, Rule::new(parts, Target::Reject));
        }
        self.push(Shared::ProxyFirewall, " traffic not in loadBalancerSourceRanges", Target::Drop);
    }

    /// Upstream refuses on all addresses of this host. Here it is on those where node ports answer, and so nowhere else a
    /// program of this host is in its way.
    fn node_port(&mut self) {
        self.lead();
        let Some((target, words)) = refusal(&self.route.outside) else { return };
        for destination in &self.renderer.node_ports.destinations {
            let mut parts = self.parts(words);
            parts.splice(1..1, destination.iter().cloned());
            self.rules.push(Shared::ExternalRefused, Rule::new(parts, target.clone()));
        }
    }

    fn push(&mut self, chain: Shared, words: &str, target: Target) {
        self.rules.push(chain, Rule::new(self.parts(words), target));
    }

    fn parts(&self, words: &str) -> Vec<Match> {
        address_parts(self.port, self.port.comment("", words), self.route)
    }
}

/// Whoever may come, each once.
pub(super) fn sources(allowed: &AllowedSources) -> Vec<IpNet> {
    let own = allowed.own_ips.iter().map(|ip| IpNet::from(*ip));
    let mut all: Vec<IpNet> = Vec::new();
    for source in allowed.ranges.iter().copied().chain(own) {
        if !all.contains(&source) {
            all.push(source);
        }
    }
    all
}

fn refusal(action: &Action) -> Option<(Target, &'static str)> {
    match action {
        Action::Forward(_) => None,
        Action::Reject => Some((Target::Reject, " has no endpoints")),
        Action::Drop => Some((Target::Drop, " has no local endpoints")),
    }
}
