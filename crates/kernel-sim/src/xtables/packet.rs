//! Sends a packet through the tables.
//!
//! The path is PREROUTING, then INPUT, or FORWARD and POSTROUTING, by the destination that it then has; or OUTPUT, then
//! POSTROUTING, and from there, if this host is the destination, back in by `lo`. At each place the tables run in the order
//! of the kernel's priorities: mangle, nat of destinations, filter, nat of sources. If there is an IPVS, it takes what is for
//! this host behind the filter of INPUT, and what this host sends behind the nat table of OUTPUT.
//!
//! Absent on purpose: routing. The host's addresses decide alone, and the interface by which a packet leaves is `lo` or has
//! no name. A source that is masqueraded stays what it was for later rules, since which address it gets is for routing to say.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use kernel::nft;
use kernel::xtables::{Probability, State, Table};

use super::balance::Balanced;
use super::run::{End, Run};
use super::{SimTable, Simulated};
use crate::ipvs;
use crate::nft::{Fate, Outcome, Path, SimPacket};

impl Simulated {
    /// Sends the first packet of a connection at time `now`; `chance` says whether a rule of that probability is taken.
    pub fn send(
        &mut self,
        packet: &SimPacket,
        now: Duration,
        chance: &mut dyn FnMut(Probability) -> bool,
    ) -> Outcome {
        self.send_as(packet, &BTreeSet::from([State::New]), now, chance)
    }

    /// Sends a packet of which the connection tracker says this. Only a new one meets the nat table.
    pub fn send_as(
        &mut self,
        packet: &SimPacket,
        states: &BTreeSet<State>,
        now: Duration,
        chance: &mut dyn FnMut(Probability) -> bool,
    ) -> Outcome {
        let mut run = Run::new(packet, states, now, chance, &mut self.lists, &self.sets, &mut self.packets);
        let is_ours = packet.family == self.family;
        let end = if is_ours {
            Travel { run: &mut run, tables: &self.tables, ipvs: self.ipvs.as_ref() }.go()
        } else {
            None
        };
        let fate = match end {
            Some(End::Drop) => Fate::Dropped,
            Some(End::Reject) => Fate::Rejected(nft::Reject::PortUnreachable),
            None => run.destination.map_or(Fate::Untouched, |(address, port)| Fate::Dnat(address, port)),
        };
        Outcome { fate, masqueraded: run.masqueraded, mark: run.packet.mark, priority: run.packet.priority }
    }

    /// Who is in a list of `recent` and when they were last seen, the oldest first.
    pub fn recently_seen(&self, list: &str) -> Vec<(IpAddr, Duration)> {
        self.lists.sources(list)
    }
}

struct Travel<'a, 'b> {
    run: &'a mut Run<'b>,
    tables: &'a BTreeMap<Table, Arc<SimTable>>,
    ipvs: Option<&'a ipvs::Simulated>,
}

impl Travel<'_, '_> {
    fn go(mut self) -> Option<End> {
        match self.run.packet.path {
            Path::Arrives(_) => self.arrives(),
            Path::Output => self.leaves(),
        }
    }

    fn arrives(&mut self) -> Option<End> {
        self.visit("PREROUTING", &[Table::Mangle, Table::Nat]).or_else(|| {
            if self.run.is_for_us() {
                self.visit("INPUT", &[Table::Mangle, Table::Filter]).or_else(|| self.comes_in())
            } else {
                self.visit("FORWARD", &[Table::Mangle, Table::Filter])
                    .or_else(|| self.visit("POSTROUTING", &[Table::Mangle, Table::Nat]))
            }
        })
    }

    /// A virtual server gives it away behind the filter, or it stays here.
    fn comes_in(&mut self) -> Option<End> {
        match self.balance() {
            Balanced::End(end) => Some(end),
            Balanced::Away => self.is_sent_on(),
            Balanced::Here => self.visit("INPUT", &[Table::Nat]),
        }
    }

    fn leaves(&mut self) -> Option<End> {
        self.visit("OUTPUT", &[Table::Mangle, Table::Nat]).or_else(|| match self.balance() {
            Balanced::End(end) => Some(end),
            Balanced::Away => self.is_sent_on(),
            Balanced::Here => self
                .visit("OUTPUT", &[Table::Filter])
                .or_else(|| self.visit("POSTROUTING", &[Table::Mangle, Table::Nat]))
                .or_else(|| if self.run.is_for_us() { self.comes_back() } else { None }),
        })
    }

    /// IPVS sends what it gave away as if this host had made it. Where it goes to is settled, so the nat table is not asked.
    fn is_sent_on(&mut self) -> Option<End> {
        self.run.packet.path = Path::Output;
        self.visit("OUTPUT", &[Table::Mangle, Table::Filter])
            .or_else(|| self.visit("POSTROUTING", &[Table::Mangle, Table::Nat]))
    }

    fn balance(&mut self) -> Balanced {
        self.ipvs.filter(|_| self.run.is_new()).map_or(Balanced::Here, |ipvs| self.run.balance(ipvs))
    }

    /// Its connection is known by now, though it still counts as new: the nat table is not asked again.
    fn comes_back(&mut self) -> Option<End> {
        self.run.comes_back_by_lo();
        self.visit("PREROUTING", &[Table::Mangle])
            .or_else(|| self.visit("INPUT", &[Table::Mangle, Table::Filter]))
    }

    fn visit(&mut self, place: &'static str, tables: &[Table]) -> Option<End> {
        tables.iter().find_map(|name| {
            let is_asked = *name != Table::Nat || self.run.is_new();
            let table = self.tables.get(name).filter(|_| is_asked)?;
            self.run.own_chain(table, place)
        })
    }
}
