//! Which Services have an address from outside, an external IP or a load balancer's, that a packet was sent to past their ports.
//!
//! In: a packet that the model found no frontend for. Out: the reasons that name those Services, and what to type for one of their
//! ports. The model looks for an address with its port, so it has no word for one whose ports are all others.

use std::collections::BTreeMap;

use model::fate::Payload;
use model::{Answer, Frontend, FrontendKind, Packet, ServiceName, Why};

use observe::picture::Picture;

/// The Services that have the address, each with its first frontend there; empty where the model found a frontend or nobody has it.
#[derive(Debug)]
pub(super) struct Holders<'a> {
    packet: &'a Packet,
    services: BTreeMap<&'a ServiceName, (FrontendKind, Frontend)>,
}

impl<'a> Holders<'a> {
    /// Looks for them.
    pub(super) fn of(picture: &'a Picture, packet: &'a Packet, answer: &Answer) -> Self {
        let mut services = BTreeMap::new();
        if answer.why.iter().any(is_no_frontend) {
            for port in picture.table().ports() {
                let mut routes = port.routes.iter();
                if let Some(route) = routes.find(|route| is_at(route.frontend, packet)) {
                    services.entry(&port.id().service).or_insert((route.kind, route.frontend));
                }
            }
        }
        Self { packet, services }
    }

    /// Their names.
    pub(super) fn names(&self) -> impl Iterator<Item = &'a ServiceName> {
        self.services.keys().copied()
    }

    /// The sentences for a reason: its own, or those that name the Services.
    pub(super) fn sentences(&self, why: &Why) -> Vec<String> {
        if self.services.is_empty() || !is_no_frontend(why) {
            return vec![why.to_string()];
        }
        let address = self.packet.destination;
        let has = |(service, (kind, _)): (&&ServiceName, &(FrontendKind, Frontend))| {
            format!("{address} is {} of Service {service} ({})", kind.with_article(), kind.field())
        };
        let past = match self.packet.payload {
            Payload::Ping => "a packet without a port, such as a ping, is for no port of a Service",
            Payload::Transport { .. } => "no Service has this port there (spec.ports)",
        };
        self.services.iter().map(has).chain([past.to_owned()]).collect()
    }

    /// What to type for a port, where none was.
    pub(super) fn note(&self) -> Option<String> {
        if self.services.is_empty() || self.packet.payload != Payload::Ping {
            return None;
        }
        let typed = |(service, (_, frontend)): (&&ServiceName, &(FrontendKind, Frontend))| {
            format!("`{frontend}` for Service {service}")
        };
        let typed: Vec<String> = self.services.iter().map(typed).collect();
        Some(format!(
            "An address without a port is taken for a ping. To ask about a connection, add the port: {}.",
            typed.join(", ")
        ))
    }
}

fn is_no_frontend(why: &Why) -> bool {
    matches!(why, Why::NoFrontend { .. })
}

fn is_at(frontend: Frontend, packet: &Packet) -> bool {
    matches!(frontend, Frontend::Address { ip, .. } if ip == packet.destination)
}
