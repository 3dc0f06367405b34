//! Where a packet ends, and why: the reference answer that every mode is held to.
//!
//! In: the first packet of a connection, as it reaches this node. Out: its [`Fate`] and the reasons, each naming a field of
//! an object. Session affinity narrows `OneOf` for a client that was here before: see [`crate::affinity`].

mod packet;
mod promises;
mod why;

use std::net::IpAddr;

pub use packet::{Packet, Payload};
pub use promises::{Loopback, Promises, Refusal, Remembered};
pub use why::Why;

use crate::frontend::{Frontend, FrontendKind};
use crate::name::ServicePortId;
use crate::net::{Family, Protocol, show_address_and_port};
use crate::place::Place;
use crate::table::{Action, ForwardingTable, Masquerade, Pool, Route, ServicePort};

/// A packet's fate, with the reasons in the order in which they were found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Where it ends.
    pub fate: Fate,
    /// Why.
    pub why: Vec<Why>,
}

/// Where a packet ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// This proxy has nothing to say about it.
    Untouched,
    /// At one of these.
    OneOf(OneOf),
    /// Refused: the client learns it at once.
    Rejected,
    /// Dropped: the client hears nothing.
    Dropped,
}

/// Where a packet may land. Never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OneOf {
    /// Each endpoint with its share.
    pub landings: Vec<Landing>,
    /// All slots together.
    pub slots: u32,
    /// Which service port it went through.
    pub port: ServicePortId,
    /// The client stays with its endpoint for so many seconds.
    pub affinity_seconds: Option<u32>,
}

/// One place where a packet may land.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Landing {
    /// The endpoint's address.
    pub address: IpAddr,
    /// The endpoint's port.
    pub port: u16,
    /// Its share: so many of all slots.
    pub slots: u16,
    /// The endpoint sees this node's address as the source.
    pub masqueraded: bool,
}

impl std::fmt::Display for Landing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&show_address_and_port(self.address, self.port))
    }
}

impl ForwardingTable {
    /// Where `packet` ends, in a mode that keeps these promises.
    pub fn fate(&self, packet: &Packet, promises: &Promises) -> Answer {
        let asked = Question { table: self, packet, promises };
        let found = asked.frontend().or_else(|| asked.cluster_ip()).or_else(|| asked.external_ip());
        let found = found.or_else(|| asked.left_alone()).or_else(|| asked.service_network());
        found.unwrap_or_else(|| Answer { fate: Fate::Untouched, why: vec![asked.why_untouched()] })
    }
}

struct Question<'a> {
    table: &'a ForwardingTable,
    packet: &'a Packet,
    promises: &'a Promises,
}

impl Question<'_> {
    /// The packet was sent to a frontend.
    fn frontend(&self) -> Option<Answer> {
        let (protocol, number) = self.packet.payload.transport()?;
        let address = Frontend::Address { ip: self.packet.destination, protocol, port: number };
        if let Some((port, route)) = self.table.route(&address) {
            return Some(self.routed(port, route));
        }
        let (port, route) = self.node_port()?;
        if !self.node_ports_answer_at(self.packet.destination, protocol) {
            return None;
        }
        if self.packet.destination.is_loopback() && !self.is_this_host() {
            return Some(self.martian(port, route));
        }
        Some(self.routed(port, route))
    }

    /// Nobody but this host itself may send to its loopback addresses.
    fn martian(&self, port: &ServicePort, route: &Route) -> Answer {
        let (source, address) = (self.packet.source, self.packet.destination);
        let frontend = Why::Frontend { kind: route.kind, frontend: route.frontend, port: port.id().clone() };
        Answer { fate: Fate::Dropped, why: vec![frontend, Why::Martian { source, address }] }
    }

    /// The node port of the number that the packet was sent to, wherever it was sent.
    fn node_port(&self) -> Option<(&ServicePort, &Route)> {
        let (protocol, port) = self.packet.payload.transport()?;
        let family = Family::of(self.packet.destination);
        let (port, route) = self.table.route(&Frontend::NodePort { family, protocol, port })?;
        Some((port, route))
    }

    fn why_untouched(&self) -> Why {
        let address = self.packet.destination;
        // Would TCP be served there?
        let lacks_sctp = || address.is_loopback() && self.node_ports_answer_at(address, Protocol::Tcp);
        match self.node_port() {
            Some((port, _)) if lacks_sctp() => Why::LocalhostWithoutSctp { port: port.id().clone(), address },
            Some((port, _)) => Why::NodePortElsewhere { port: port.id().clone(), address },
            None => Why::NoFrontend { address },
        }
    }

    fn node_ports_answer_at(&self, address: IpAddr, protocol: Protocol) -> bool {
        let (node, family) = (self.table.node(), Family::of(address));
        let entries = node.node_port_addresses(family, self.promises.default_node_port_addresses);
        let is_possible =
            !address.is_loopback() || self.promises.loopback_node_ports.serves(protocol, address);
        let is_wide = self.promises.link_local_node_ports || !is_link_local_of_ipv6(address);
        is_possible && is_wide && node.is_own(address) && node.covers(&entries, address)
    }

    fn routed(&self, port: &ServicePort, route: &Route) -> Answer {
        let mut why =
            vec![Why::Frontend { kind: route.kind, frontend: route.frontend, port: port.id().clone() }];
        if route.frontend.protocol() == Protocol::Sctp && !self.promises.carries_sctp {
            why.push(Why::SctpNotCarried);
            return Answer { fate: Fate::Untouched, why };
        }
        if route.allowed_sources.as_ref().is_some_and(|allowed| !allowed.contains(self.packet.source)) {
            why.push(Why::SourceNotAllowed { source: self.packet.source });
            return Answer { fate: Fate::Dropped, why };
        }
        let is_inside = self.is_pod() || self.is_this_host();
        let action = if is_inside { &route.inside } else { &route.outside };
        // This rule of masquerade comes with the policy Local and with nothing else.
        if route.masquerade == Masquerade::ThisHost {
            why.push(Why::ExternalPolicyLocal {
                is_pod: self.is_pod(),
                is_this_host: self.is_this_host(),
                keeps_source: self.promises.keeps_source,
            });
        }
        let fate = match action {
            Action::Forward(pool) => Fate::OneOf(self.spread(port, route, pool, &mut why)),
            Action::Reject => {
                let absence = port.absence(route.frontend.family());
                why.push(Why::NoEndpoints { service: port.id().service.clone(), absence });
                Fate::Rejected
            }
            Action::Drop => {
                why.push(Why::NoLocalEndpoints { is_internal: route.kind == FrontendKind::ClusterIp });
                Fate::Dropped
            }
        };
        Answer { fate, why }
    }

    fn spread(&self, port: &ServicePort, route: &Route, pool: &Pool, why: &mut Vec<Why>) -> OneOf {
        why.push(Why::Chosen { how: pool.how(), is_cluster_ip: route.kind == FrontendKind::ClusterIp });
        let is_uneven = pool.endpoints().iter().any(|e| e.slots != pool.endpoints()[0].slots);
        let has_drained = port.has_drained(route.frontend.family());
        if is_uneven || has_drained {
            why.push(Why::Weights { has_drained });
        }
        let is_relayed = !self.promises.keeps_source;
        let everyone_masqueraded = is_relayed || self.is_masqueraded(route.masquerade);
        let landing = |e: &crate::table::Endpoint| {
            let is_hidden = everyone_masqueraded || self.is_hairpin(e.address, e.place);
            let masqueraded = is_relayed || (!self.is_delivered_here(e.address) && is_hidden);
            Landing { address: e.address, port: e.port, slots: e.slots, masqueraded }
        };
        let landings: Vec<Landing> = pool.endpoints().iter().map(landing).collect();
        why.extend(if is_relayed { vec![Why::Relayed] } else { self.why_sources(route, &landings) });
        if let Some(seconds) = port.affinity_seconds {
            why.push(Why::Affinity { seconds });
        }
        OneOf {
            landings,
            slots: pool.slots(),
            port: port.id().clone(),
            affinity_seconds: port.affinity_seconds,
        }
    }

    /// Which endpoints see the source, and why.
    fn why_sources(&self, route: &Route, landings: &[Landing]) -> Vec<Why> {
        let any_hidden = landings.iter().any(|landing| landing.masqueraded);
        let any_seen = landings.iter().any(|landing| !landing.masqueraded);
        let why = if self.is_masqueraded(route.masquerade) {
            let hidden = Why::Masqueraded { rule: route.masquerade, kind: route.kind };
            let seen = Why::DeliveredHere { are_all: !any_hidden };
            [any_hidden.then_some(hidden), any_seen.then_some(seen)]
        } else {
            let has_no_detector = route.masquerade == Masquerade::Nobody;
            let hairpin = Why::Hairpin { address: self.packet.source };
            [has_no_detector.then_some(Why::NoDetector), any_hidden.then_some(hairpin)]
        };
        why.into_iter().flatten().collect()
    }

    /// What comes in from elsewhere and stays on this host passes no point where its source could be hidden.
    fn is_delivered_here(&self, endpoint: IpAddr) -> bool {
        !self.is_this_host() && self.table.node().is_own(endpoint)
    }

    fn is_masqueraded(&self, rule: Masquerade) -> bool {
        match rule {
            Masquerade::Nobody => false,
            Masquerade::AllButPods => !self.is_pod(),
            Masquerade::ThisHost => self.is_this_host() && !self.is_pod(),
            Masquerade::Everybody => true,
        }
    }

    /// An endpoint is sent to itself: unless it sees another source, it would answer itself directly.
    fn is_hairpin(&self, endpoint: IpAddr, place: Place) -> bool {
        endpoint == self.packet.source && (place != Place::Elsewhere || self.promises.hairpin_of_other_nodes)
    }

    fn is_pod(&self) -> bool {
        self.table.node().pods.is_pod(self.packet.source, self.packet.interface.as_deref())
    }

    fn is_this_host(&self) -> bool {
        self.table.node().is_own(self.packet.source)
    }

    /// The packet was sent to a cluster IP, but to no port that its Service has.
    fn cluster_ip(&self) -> Option<Answer> {
        let service = self.table.cluster_ip_owner(self.packet.destination)?.clone();
        let (refusal, why) = match self.packet.payload {
            Payload::Ping => (self.promises.ping_of_cluster_ip, Why::PingOfClusterIp { service }),
            Payload::Transport { .. } => {
                (self.promises.undefined_port_of_cluster_ip, Why::UndefinedPort { service })
            }
        };
        Some(Answer { fate: refusal.fate(), why: vec![why] })
    }

    /// The packet was sent to an external IP, but to no port that a Service has there. A mode that gives this host the address
    /// must not give away the host's own ports with it.
    fn external_ip(&self) -> Option<Answer> {
        let refusal = self.promises.undefined_port_of_external_ip;
        let is_asked = refusal != Refusal::Untouched && self.packet.payload.transport().is_some();
        let address = self.packet.destination;
        let is_external = is_asked && !self.table.node().is_own(address) && self.table.is_dialled(address);
        is_external
            .then(|| Answer { fate: refusal.fate(), why: vec![Why::UndefinedPortOfExternalIp { address }] })
    }

    /// The packet was sent to a Service that another proxy serves.
    fn left_alone(&self) -> Option<Answer> {
        let (service, _) =
            self.table.left_alone().iter().find(|(_, ips)| ips.contains(&self.packet.destination))?;
        Some(Answer { fate: Fate::Untouched, why: vec![Why::OtherProxy { service: service.clone() }] })
    }

    /// The packet was sent to an address that could be a cluster IP, but is none.
    fn service_network(&self) -> Option<Answer> {
        let network =
            self.table.service_networks().iter().find(|net| net.contains(&self.packet.destination))?;
        Some(Answer {
            fate: self.promises.unallocated_service_ip.fate(),
            why: vec![Why::UnallocatedServiceIp { network: *network }],
        })
    }
}

/// Every link has such an address of its own; it means something on that link alone.
fn is_link_local_of_ipv6(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(ip) if ip.is_unicast_link_local())
}
