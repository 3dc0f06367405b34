//! What an earlier life of ours, or upstream's old proxy, left in the kernel: which listener had which port, and which frontend
//! led to it.
//!
//! In: the tables behind the doors, read once. Out: wishes for listeners, so that after a crash the same ports are bound again and
//! no rule has to change; and where flows of UDP lead that are still known to the connection tracker.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use kernel::xtables::{FoundRule, FoundTable, Match, Result, Rule, Table, Target, Xtables};
use model::{Family, Frontend, Protocol};

use super::names::{self, is_of_a_service_port};
use super::ports::wildcard;
use crate::relay::{ListenerId, Relays};
use crate::xtables::frontend;

/// An earlier life.
#[derive(Clone, Debug, Default)]
pub(super) struct Earlier {
    /// The port of each listener, by family, comment and protocol.
    wishes: BTreeMap<(Family, String, Protocol), u16>,
    /// The ports to which frontends led.
    led: BTreeMap<Frontend, BTreeSet<u16>>,
}

impl Earlier {
    pub(super) fn read<'a, X: Xtables + 'a>(doors: impl Iterator<Item = &'a mut X>) -> Result<Self> {
        let mut earlier = Self::default();
        for door in doors {
            let family = door.family();
            let Some(text) = door.save(Table::Nat)? else { continue };
            earlier.take_in(family, &FoundTable::parse(&text));
        }
        Ok(earlier)
    }

    /// Holds all these ports. Until rules are in force, or all is known, those of earlier lead there: another listener that got
    /// one would have their packets.
    pub(super) fn reserve(&self, relays: &mut impl Relays) {
        for ((family, _, protocol), port) in &self.wishes {
            // What cannot be held is another program's, or listens already: it was given to us.
            let _ = relays.hold(SocketAddr::new(wildcard(*family), *port), *protocol);
        }
    }

    /// The port that a listener had, asked for once: it is no longer held.
    pub(super) fn wish(&mut self, id: &ListenerId, relays: &mut impl Relays) -> Option<u16> {
        let port = self.wishes.remove(&key(id))?;
        relays.release(SocketAddr::new(wildcard(id.family), port), id.port.protocol);
        Some(port)
    }

    /// The port that a listener had.
    pub(super) fn port_of(&self, id: &ListenerId) -> Option<u16> {
        self.wishes.get(&key(id)).copied()
    }

    /// Nothing of it is left in the kernel.
    pub(super) fn end(&mut self, relays: &mut impl Relays) {
        for ((family, _, protocol), port) in std::mem::take(self).wishes {
            relays.release(SocketAddr::new(wildcard(family), port), protocol);
        }
    }

    /// The ports to which a frontend led, asked for once.
    pub(super) fn led(&mut self, frontend: &Frontend) -> Option<BTreeSet<u16>> {
        self.led.remove(frontend)
    }

    fn take_in(&mut self, family: Family, table: &FoundTable) {
        let is_ours =
            |name: &str| is_of_a_service_port(name) || LEADING.iter().any(|(chain, _)| *chain == name);
        for chain in table.chains.iter().filter(|chain| is_ours(&chain.name)) {
            for rule in chain.rules.iter().filter_map(FoundRule::known) {
                let protocol = rule.parts.iter().find_map(protocol);
                if let (Some(port), Some(comment), Some(protocol)) = (port_of(rule), rule.comment(), protocol)
                {
                    self.wishes.insert((family, comment.to_owned(), protocol), port);
                }
            }
        }
        for (chain, is_node_port) in LEADING {
            let rules = table.chain(chain).map(|chain| chain.rules.as_slice()).unwrap_or_default();
            for rule in rules.iter().filter_map(FoundRule::known) {
                let mut ports = BTreeSet::new();
                collect_ports(table, rule, &mut ports);
                if let Some(frontend) = frontend(rule, is_node_port, family).filter(|_| !ports.is_empty()) {
                    self.led.entry(frontend).or_default().extend(ports);
                }
            }
        }
    }
}

/// The chains that lead frontends on, and whether these are node ports.
const LEADING: [(&str, bool); 4] = [
    (names::PORTALS_CONTAINER, false),
    (names::PORTALS_HOST, false),
    (names::NODE_PORT_CONTAINER, true),
    (names::NODE_PORT_HOST, true),
];

fn key(id: &ListenerId) -> (Family, String, Protocol) {
    (id.family, names::comment(&names::port_name(&id.port), id.purpose), id.port.protocol)
}

/// The port to which a rule leads by itself.
fn port_of(rule: &Rule) -> Option<u16> {
    match rule.target {
        Some(Target::Redirect(port) | Target::Dnat(_, Some(port))) => Some(port),
        _ => None,
    }
}

fn protocol(part: &Match) -> Option<Protocol> {
    match part {
        // The relay carries no SCTP.
        Match::Protocol(found) | Match::PlainProtocol(found) => {
            found.transport().filter(|protocol| *protocol != Protocol::Sctp)
        }
        _ => None,
    }
}

/// The ports to which a rule leads, by itself or through chains of its service port. The kernel lets no chain lead to itself.
fn collect_ports(table: &FoundTable, rule: &Rule, ports: &mut BTreeSet<u16>) {
    ports.extend(port_of(rule));
    let own = rule.jump().filter(|chain| is_of_a_service_port(chain.as_str()));
    let rules = own.and_then(|chain| table.chain(chain.as_str())).map(|chain| chain.rules.as_slice());
    let rules = rules.unwrap_or_default().iter().filter_map(FoundRule::known);
    rules.for_each(|rule| collect_ports(table, rule, ports));
}
