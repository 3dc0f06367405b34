//! Modes whose kernel leads packets to ports of the relay, which chooses the endpoint.
//!
//! The rules leave nothing to chance, so each packet is sent once. Nothing listens: what the kernel delivers to a port of ours is
//! overheard there, and the simulated relay says to which pool that port belongs.

use std::net::SocketAddr;
use std::time::Duration;

use model::{Answer, Delta, Fate, ForwardingTable, Packet, Promises};

use super::node::Node;
use super::stage::Met;
use super::{LIMIT, SILENCE, Told};
use crate::reference::World;
use crate::run;
use crate::step::Scenario;
use crate::subject::{Subject, Visit};

pub(super) fn tell(scenario: &Scenario, node: Node<'_>) -> Told {
    let mut packets = Packets { node, now_seconds: 0, worlds: vec![World::default()] };
    let outcomes = run::run(scenario, &mut packets);
    Told { outcomes, sent: packets.node.sent, is_by_chance: false }
}

struct Packets<'a> {
    node: Node<'a>,
    now_seconds: u64,
    worlds: Vec<World>,
}

impl Packets<'_> {
    fn send(&mut self, packet: &Packet, limit: Duration) -> Result<Fate, String> {
        let (probe, met) = self.node.send(packet, limit)?;
        match met {
            Met::Nowhere => Ok(Fate::Dropped),
            Met::Refused => Ok(Fate::Rejected),
            Met::At { source, .. } if source != (probe.source, probe.source_port) => {
                Err(format!("{packet:?}: its source is {source:?} now"))
            }
            Met::At { destination, .. } if destination == (probe.destination, probe.port()) => {
                Ok(Fate::Untouched)
            }
            Met::At { destination, .. } => {
                self.node.sent.landed += 1;
                let (protocol, _) = packet.payload.transport().ok_or("a ping was led somewhere")?;
                self.node.relayed(protocol, SocketAddr::from(destination)).map(Fate::OneOf)
            }
        }
    }
}

impl Subject for Packets<'_> {
    fn promises(&mut self, _asked: &Promises) -> Promises {
        self.node.semantics
    }

    fn apply(&mut self, table: &ForwardingTable, delta: &Delta) -> Result<(), String> {
        self.node.take_in(table, delta)
    }

    fn pass(&mut self, seconds: u64) {
        self.now_seconds += seconds;
    }

    fn ask(&mut self, packet: &Packet) -> Result<Vec<Visit>, String> {
        self.node.settle()?;
        self.node.sent.steps += 1;
        let expected = self.node.table.fate(packet, &self.node.semantics).fate;
        let fate = self.send(packet, if expected == Fate::Dropped { SILENCE } else { LIMIT })?;
        let answer = Answer { fate, why: Vec::new() };
        Ok(World::visit_all(&mut self.worlds, self.now_seconds, packet, &answer))
    }
}
