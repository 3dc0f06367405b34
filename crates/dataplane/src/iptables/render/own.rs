//! The chains of one service port, all in `nat`.
//!
//! ```text
//!   KUBE-SERVICES ─ cluster IP ───────────────────────────────► KUBE-SVC- or KUBE-SVL- ─► KUBE-SEP- (one for each endpoint)
//!                 ├ external IP, node port ───────► KUBE-EXT- ──┘
//!                 └ load balancer IP ─► KUBE-FW- ──┘
//! ```

use std::collections::BTreeMap;

use kernel::xtables::{Is, Match, Probability, Recent, Rule, Side, Target};
use model::net::{IpNet, show_address_and_port};
use model::table::{AllowedSources, Masquerade};
use model::{Endpoint, FrontendKind, Pool, Route};

use super::frontends::address_parts;
use super::port::Port;
use super::{Renderer, marks};
use crate::iptables::names;
use crate::xtables::{PortRules, name, sources};

pub(super) fn write(renderer: &Renderer<'_>, port: &Port<'_>, rules: &mut PortRules) {
    let writer = Writer { renderer, port };
    let forwarded: Vec<&Route> = port.external().filter(|route| route.inside.pool().is_some()).collect();
    // All of them have one policy, so one chain does for all.
    if let Some(route) = forwarded.first() {
        rules.add_chain(&port.names.external, writer.external(route));
    }
    if let Some(allowed) = forwarded.iter().find_map(|route| route.allowed_sources.as_deref()) {
        rules.add_chain(&port.names.firewall, writer.firewall(allowed));
    }
    for pool in port.pools() {
        rules.add_chain(port.chain_of(pool), writer.pool(pool));
    }
    let every = port.pools().flat_map(Pool::endpoints);
    let endpoints: BTreeMap<_, _> = every.map(|e| ((e.address, e.port), e)).collect();
    for endpoint in endpoints.into_values() {
        rules.add_chain(&port.names.endpoint(endpoint), writer.endpoint(endpoint));
    }
}

struct Writer<'a> {
    renderer: &'a Renderer<'a>,
    port: &'a Port<'a>,
}

impl Writer<'_> {
    /// Whose source is hidden, and who may use any endpoint; then everybody else.
    fn external(&self, route: &Route) -> Vec<Rule> {
        let mut rules = match route.masquerade {
            Masquerade::ThisHost => self.short_cut(route),
            Masquerade::Everybody => vec![Rule::new([self.external_comment("masquerade")], mark())],
            Masquerade::AllButPods => {
                vec![marks::mark_others(&self.renderer.pods, &[self.external_comment("masquerade")])]
            }
            Masquerade::Nobody => Vec::new(),
        };
        let outside = route.outside.pool().map(|pool| Rule::new([], self.jump_to(pool)));
        rules.extend(outside);
        rules
    }

    /// Pods and this host would reach any endpoint if their packets left the node and came back.
    fn short_cut(&self, route: &Route) -> Vec<Rule> {
        let Some(any) = route.inside.pool().map(|pool| self.jump_to(pool)) else { return Vec::new() };
        let from_here = |verb| [self.external_comment(verb), Match::Local(Side::Source, Is::Equal)];
        let mut rules = self.renderer.pods.inside(&[self.external_comment("pod")], &any);
        rules.push(Rule::new(from_here("masquerade LOCAL"), mark()));
        rules.push(Rule::new(from_here("route LOCAL"), any));
        rules
    }

    fn external_comment(&self, verb: &str) -> Match {
        self.port.comment(&format!("{verb} traffic for "), " external destinations")
    }

    /// The last rule does nothing: it tells the reader where the rest ends.
    fn firewall(&self, allowed: &AllowedSources) -> Vec<Rule> {
        let external = || Target::Jump(self.port.names.external.clone());
        let accept = |source| {
            let whose = self.port.comment("", " loadbalancer IP");
            Rule::new([whose, Match::Source(Is::Equal, source)], external())
        };
        let rest = self.port.comment("other traffic to ", " will be dropped by KUBE-PROXY-FIREWALL");
        sources(allowed).into_iter().map(accept).chain([Rule::new([rest], None)]).collect()
    }

    /// The remembered endpoint, then one that is drawn.
    fn pool(&self, pool: &Pool) -> Vec<Rule> {
        let mut rules: Vec<Rule> = self.mark_of_cluster_ip(pool).into_iter().collect();
        if let Some(seconds) = self.port.affinity_seconds {
            rules.extend(pool.endpoints().iter().map(|endpoint| self.remembered(endpoint, seconds)));
        }
        let mut left = pool.slots();
        for endpoint in pool.endpoints() {
            let slots = u32::from(endpoint.slots);
            // The last one takes what is left.
            let chance = (slots < left).then(|| Match::Random(Probability::new(slots, left)));
            let parts = self.endpoint_comment(endpoint).into_iter().chain(chance);
            rules.push(Rule::new(parts, self.jump_to_endpoint(endpoint)));
            left -= slots;
        }
        rules
    }

    /// External traffic comes through here too, so the cluster IP is asked for again.
    fn mark_of_cluster_ip(&self, pool: &Pool) -> Option<Rule> {
        let is_led_here = |route: &&&Route| {
            route.kind == FrontendKind::ClusterIp
                && route.inside.pool().is_some_and(|own| self.port.chain_of(own) == self.port.chain_of(pool))
        };
        let route = self.port.routes.iter().find(is_led_here)?;
        let parts = address_parts(self.port, route);
        match route.masquerade {
            Masquerade::Everybody => Some(Rule::new(parts, mark())),
            Masquerade::AllButPods => Some(marks::mark_others(&self.renderer.pods, &parts)),
            Masquerade::Nobody | Masquerade::ThisHost => None,
        }
    }

    fn remembered(&self, endpoint: &Endpoint, seconds: u32) -> Rule {
        let list = self.port.names.endpoint(endpoint).to_string();
        let recent = Match::Recent(Recent::Check { list, seconds, reap: true });
        Rule::new(
            self.endpoint_comment(endpoint).into_iter().chain([recent]),
            self.jump_to_endpoint(endpoint),
        )
    }

    /// An endpoint that was sent to itself is masqueraded: else it would answer itself, and wait for another's answer.
    fn endpoint(&self, endpoint: &Endpoint) -> Vec<Rule> {
        let comment = self.renderer.has_comments.then(|| self.port.comment("", ""));
        let itself = Match::Source(Is::Equal, IpNet::from(endpoint.address));
        let set = self
            .port
            .affinity_seconds
            .map(|_| Match::Recent(Recent::Set { list: self.port.names.endpoint(endpoint).to_string() }));
        let protocol = Match::Protocol(self.port.protocol);
        let destination = Target::Dnat(endpoint.address, Some(endpoint.port));
        vec![
            Rule::new(comment.clone().into_iter().chain([itself]), mark()),
            Rule::new(comment.into_iter().chain(set).chain([protocol]), destination),
        ]
    }

    fn endpoint_comment(&self, endpoint: &Endpoint) -> Option<Match> {
        let address = show_address_and_port(endpoint.address, endpoint.port);
        self.renderer.has_comments.then(|| self.port.comment("", &format!(" -> {address}")))
    }

    fn jump_to(&self, pool: &Pool) -> Target {
        Target::Jump(self.port.chain_of(pool).clone())
    }

    fn jump_to_endpoint(&self, endpoint: &Endpoint) -> Target {
        Target::Jump(self.port.names.endpoint(endpoint))
    }
}

fn mark() -> Target {
    Target::Jump(name(names::MARK_MASQ))
}
