//! Modes whose kernel chooses the endpoint.
//!
//! One kernel is one world, and it chooses by chance. So a packet that may land at several endpoints is sent, each time from
//! another port, until all of them were met. A client that stays with its endpoint is held to where it landed first; others
//! like it show that all endpoints are used.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

use dataplane::sim::End;
use model::affinity::Memory;
use model::fate::OneOf;
use model::{Delta, Fate, ForwardingTable, Landing, Packet, Promises, ServicePortId};

use super::node::Node;
use super::sent::CLOCK;
use super::stage::Met;
use super::{LIMIT, SILENCE, Told};
use crate::reference::outcome_of;
use crate::run;
use crate::step::{Outcome, Scenario};
use crate::subject::{Subject, Visit};

/// Enough for what is sent to be met everywhere: this often the least share is missed once in 10^10 times.
const TRIES_PER_SHARE: u32 = 24;
/// So many for each endpoint, in any case, but not more than the other.
const TRIES_PER_ENDPOINT: usize = 12;
const TRIES_MIN_MAX: usize = 200;
/// The last numbers of addresses of clients that no scenario has.
const STRANGERS: RangeInclusive<u8> = 131..=250;
/// So often a client comes back.
const TRIES_PER_CLIENT: usize = 6;

pub(super) fn tell(scenario: &Scenario, node: Node<'_>) -> Told {
    let mut packets = Packets {
        node,
        memory: Memory::default(),
        last: None,
        is_later: false,
        known: BTreeSet::new(),
        has_affinity: false,
    };
    let outcomes = run::run(scenario, &mut packets);
    Told { outcomes, sent: packets.node.sent, is_by_chance: packets.has_affinity }
}

struct Packets<'a> {
    node: Node<'a>,
    memory: Memory,
    last: Option<(IpAddr, u16)>,
    is_later: bool,
    /// Service ports whose first clients were sent.
    known: BTreeSet<ServicePortId>,
    /// A client was to stay where it landed.
    has_affinity: bool,
}

impl Packets<'_> {
    fn send(&mut self, packet: &Packet, limit: Duration) -> Result<End, String> {
        let (probe, met) = self.node.send(packet, limit)?;
        let called = (probe.destination, probe.port());
        Ok(match met {
            Met::Nowhere => End::Dropped,
            Met::Refused => End::Rejected,
            Met::At { source, destination } => {
                let masqueraded = source != (probe.source, probe.source_port);
                if destination == called && !masqueraded {
                    End::Untouched
                } else {
                    self.node.sent.landed += 1;
                    End::At { endpoint: destination, masqueraded }
                }
            }
        })
    }

    fn expect(&mut self, packet: &Packet, expected: &[End], limit: Duration) -> Result<End, String> {
        let seen = self.send(packet, limit)?;
        if expected.contains(&seen) {
            return Ok(seen);
        }
        Err(format!("{packet:?}\nexpected: one of {expected:?}\nseen: {seen:?}"))
    }

    fn land(&mut self, packet: &Packet, one_of: &OneOf) -> Result<Outcome, String> {
        let landings = self.memory.narrow(0, packet.source, one_of);
        if one_of.affinity_seconds.is_some() {
            self.stick(packet, one_of, &landings)?;
        } else {
            let seen = self.spread(packet, &landings)?;
            self.last = seen.filter(|_| landings.len() == 1);
        }
        Ok(outcome_of(&landings))
    }

    /// Clients of one service port who come for the first time are spread over all endpoints. They are others than those of
    /// scenarios, and of the same fate.
    fn spread_strangers(&mut self, packet: &Packet, one_of: &OneOf) -> Result<(), String> {
        let (ends, fate) = (ends_of(&one_of.landings), Fate::OneOf(one_of.clone()));
        let strangers: Vec<Packet> = STRANGERS.map(|number| from_stranger(packet, number)).collect();
        let is_alike = |packet: &Packet| self.node.table.fate(packet, &self.node.semantics).fate == fate;
        let is_enough = tries_max(&one_of.landings) <= strangers.len();
        let is_sent_here = self.node.table.node().is_own(packet.source);
        if is_sent_here
            || !is_enough
            || !strangers.iter().all(is_alike)
            || !self.known.insert(one_of.port.clone())
        {
            return Ok(());
        }
        let mut missing: BTreeSet<End> = ends.iter().copied().collect();
        for stranger in &strangers {
            if missing.is_empty() {
                break;
            }
            missing.remove(&self.expect(stranger, &ends, LIMIT)?);
        }
        if missing.is_empty() { Ok(()) } else { Err(never_seen(packet, &ends, strangers.len(), &missing)) }
    }

    /// The client lands at one of them, and stays there.
    fn stick(&mut self, packet: &Packet, one_of: &OneOf, landings: &[Landing]) -> Result<(), String> {
        self.spread_strangers(packet, one_of)?;
        let ends = ends_of(landings);
        let first = self.expect(packet, &ends, LIMIT)?;
        let landing = landings.iter().find(|landing| end_of(landing) == first);
        let landing = landing.ok_or("what was expected is there")?;
        self.memory.remember(0, packet.source, one_of, landing);
        self.last = Some((landing.address, landing.port));
        (0..TRIES_PER_CLIENT).try_for_each(|_| self.expect(packet, &[first], LIMIT).map(drop))
    }

    /// Sends until all were met. Returns where the last one landed.
    fn spread(&mut self, packet: &Packet, landings: &[Landing]) -> Result<Option<(IpAddr, u16)>, String> {
        let ends = ends_of(landings);
        let mut missing: BTreeSet<End> = ends.iter().copied().collect();
        let enough = (ends.len() * TRIES_PER_ENDPOINT).min(TRIES_MIN_MAX);
        let mut tries = 0;
        while tries < enough || !missing.is_empty() {
            if tries > enough.max(tries_max(landings)) {
                return Err(never_seen(packet, &ends, tries, &missing));
            }
            missing.remove(&self.expect(packet, &ends, LIMIT)?);
            tries += 1;
        }
        Ok(landings.first().map(|landing| (landing.address, landing.port)))
    }
}

/// After so many, even the least share was met.
fn tries_max(landings: &[Landing]) -> usize {
    let all: u32 = landings.iter().map(|landing| u32::from(landing.slots)).sum();
    let least = landings.iter().map(|landing| u32::from(landing.slots)).min().unwrap_or(1).max(1);
    usize::try_from(all * TRIES_PER_SHARE / least).unwrap_or(usize::MAX)
}

fn never_seen(packet: &Packet, ends: &[End], tries: usize, missing: &BTreeSet<End>) -> String {
    format!("{packet:?}\nexpected: each of {ends:?}\nnever seen in {tries} tries: {missing:?}")
}

/// The same packet of a neighbour of its client.
fn from_stranger(packet: &Packet, number: u8) -> Packet {
    let source = match packet.source {
        IpAddr::V4(address) => {
            let [a, b, c, _] = address.octets();
            IpAddr::from([a, b, c, number])
        }
        IpAddr::V6(address) => {
            let mut octets = address.octets();
            octets[15] = number;
            IpAddr::from(octets)
        }
    };
    Packet { source, ..packet.clone() }
}

fn ends_of(landings: &[Landing]) -> Vec<End> {
    landings.iter().map(end_of).collect()
}

fn end_of(landing: &Landing) -> End {
    End::at(landing)
}

impl Subject for Packets<'_> {
    fn promises(&mut self, _asked: &Promises) -> Promises {
        self.node.semantics
    }

    fn apply(&mut self, table: &ForwardingTable, delta: &Delta) -> Result<(), String> {
        self.node.take_in(table, delta)
    }

    fn pass(&mut self, _seconds: u64) {
        self.is_later = true;
    }

    fn ask(&mut self, packet: &Packet) -> Result<Vec<Visit>, String> {
        self.node.settle()?;
        let fate = self.node.table.fate(packet, &self.node.semantics).fate;
        let is_remembered = matches!(&fate, Fate::OneOf(one_of) if one_of.affinity_seconds.is_some());
        self.has_affinity |= is_remembered;
        if self.is_later && is_remembered {
            *self.node.sent.skipped.entry(CLOCK).or_default() += 1;
            return Ok(Vec::new());
        }
        self.node.sent.steps += 1;
        let previous = self.last.take();
        let outcome = match fate {
            Fate::Untouched => self.expect(packet, &[End::Untouched], LIMIT).map(|_| Outcome::Untouched)?,
            Fate::Rejected => self.expect(packet, &[End::Rejected], LIMIT).map(|_| Outcome::Rejected)?,
            Fate::Dropped => self.expect(packet, &[End::Dropped], SILENCE).map(|_| Outcome::Dropped)?,
            Fate::OneOf(one_of) => self.land(packet, &one_of)?,
        };
        Ok(vec![Visit { previous, outcome, why: Vec::new() }])
    }
}
