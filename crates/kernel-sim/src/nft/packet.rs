//! Sends a packet through the rules, as the kernel would with the first packet of a connection.
//!
//! In: a packet, the time, and a callback that draws numbers, so that a test can try each one. Out: where
//! the packet ends and what became of its mark and priority.
//!
//! The path is prerouting, then input or forward and postrouting by the destination that it then has; or
//! output, then postrouting. At each place the base chains of the family run by priority.
//!
//! Absent on purpose: later packets (nat chains never see them), and what other programs do to a packet.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use kernel::IpProtocol;
use kernel::nft::{ChainKind, Family, HookPoint, Name, Reject};

use super::Simulated;
use super::run::{End, Run};

/// The first packet of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SimPacket {
    /// Which of the two families.
    pub family: Family,
    /// How it enters this host.
    pub path: Path,
    /// Where it comes from.
    pub source: IpAddr,
    /// Where it goes to.
    pub destination: IpAddr,
    /// Its transport protocol.
    pub protocol: IpProtocol,
    /// Its destination port; `None` for protocols without ports.
    pub port: Option<u16>,
    /// The mark that it carries when it enters.
    pub mark: u32,
    /// The priority that it carries when it enters.
    pub priority: u32,
    /// The addresses that this host answers to. Loopback addresses always count.
    pub local: BTreeSet<IpAddr>,
}

/// How a packet enters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Path {
    /// From an interface of this name.
    Arrives(String),
    /// This host made it.
    Output,
}

/// Where a packet ends.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fate {
    /// At the destination that it was sent to.
    Untouched,
    /// At another destination.
    Dnat(IpAddr, Option<u16>),
    /// Refused, with this answer.
    Rejected(Reject),
    /// Nowhere.
    Dropped,
}

/// What became of a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Where it ends.
    pub fate: Fate,
    /// Whether it leaves with this host's own address.
    pub masqueraded: bool,
    /// Its mark at the end.
    pub mark: u32,
    /// Its priority at the end.
    pub priority: u32,
}

impl Simulated {
    /// Sends a packet at time `now`; `random(modulus)` draws a number below `modulus`.
    pub fn send(&mut self, packet: &SimPacket, now: Duration, random: &mut dyn FnMut(u32) -> u32) -> Outcome {
        self.now = now;
        let mut run = Run::new(packet.clone(), now, random);
        let end = self.travel(&mut run);
        let fate = match end {
            Some(End::Drop) => Fate::Dropped,
            Some(End::Reject(reject)) => Fate::Rejected(reject),
            None => run.destination.map_or(Fate::Untouched, |(address, port)| Fate::Dnat(address, port)),
        };
        Outcome { fate, masqueraded: run.masqueraded, mark: run.packet.mark, priority: run.packet.priority }
    }

    /// Sets the time for whatever happens without a packet.
    pub fn set_clock(&mut self, now: Duration) {
        self.now = now;
    }

    fn travel(&mut self, run: &mut Run<'_>) -> Option<End> {
        let first = match run.packet.path {
            Path::Arrives(_) => HookPoint::Prerouting,
            Path::Output => HookPoint::Output,
        };
        let end = self.visit(run, first);
        if end.is_some() || first == HookPoint::Output {
            return end.or_else(|| self.visit(run, HookPoint::Postrouting));
        }
        if run.is_local(run.packet.destination) {
            return self.visit(run, HookPoint::Input);
        }
        self.visit(run, HookPoint::Forward).or_else(|| self.visit(run, HookPoint::Postrouting))
    }

    /// Runs all base chains of one place, until one of them ends the packet.
    fn visit(&mut self, run: &mut Run<'_>, point: HookPoint) -> Option<End> {
        for (table, chain, kind) in self.base_chains(run.packet.family, point) {
            if kind == ChainKind::Nat && run.is_translated_at(point) {
                continue;
            }
            let table = self.tables.get_mut(&(run.packet.family, table))?;
            if let Some(end) = run.base_chain(table, &chain) {
                return Some(end);
            }
        }
        None
    }

    fn base_chains(&self, family: Family, point: HookPoint) -> Vec<(Name, Name, ChainKind)> {
        let mut found = Vec::new();
        for ((_, name), table) in self.tables.iter().filter(|((of, _), _)| *of == family) {
            for chain in table.chains.values() {
                if let Some(hook) = chain.chain.base.filter(|hook| hook.point == point) {
                    found.push((hook.priority, name.clone(), chain.chain.name.clone(), hook.kind));
                }
            }
        }
        found.sort_by_key(|entry| entry.0);
        found.into_iter().map(|(_, table, chain, kind)| (table, chain, kind)).collect()
    }
}
