//! Executes rules for one packet.
//!
//! A [`Run`] is what the kernel keeps beside a packet while it passes: its changing destination and mark, and what its
//! connection has become.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use kernel::nft::Policy;
use kernel::xtables::{Match, Probability, Recent, Rule, Side, State, Target};

use super::recent::Lists;
use super::sets;
use super::table::SimTable;
use crate::ipset;
use crate::nft::{Path, SimPacket};

/// A packet on its way.
pub(super) struct Run<'a> {
    pub(super) packet: SimPacket,
    pub(super) destination: Option<(IpAddr, Option<u16>)>,
    pub(super) masqueraded: bool,
    /// A virtual server has given it away.
    pub(super) is_balanced: bool,
    states: BTreeSet<State>,
    pub(super) now: Duration,
    pub(super) chance: &'a mut dyn FnMut(Probability) -> bool,
    lists: &'a mut Lists,
    sets: &'a ipset::Simulated,
    /// By the handle of a rule.
    packets: &'a mut BTreeMap<u64, u64>,
}

/// How a packet ends early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Drop,
    Reject,
}

/// What a rule or a chain leads to.
enum Flow {
    /// The next rule.
    Next,
    /// Back to the caller.
    Return,
    /// This table is done.
    Accept,
    /// The packet is gone.
    End(End),
}

impl<'a> Run<'a> {
    pub(super) fn new(
        packet: &SimPacket,
        states: &BTreeSet<State>,
        now: Duration,
        chance: &'a mut dyn FnMut(Probability) -> bool,
        lists: &'a mut Lists,
        sets: &'a ipset::Simulated,
        packets: &'a mut BTreeMap<u64, u64>,
    ) -> Self {
        let (packet, states) = (packet.clone(), states.clone());
        Self {
            packet,
            destination: None,
            masqueraded: false,
            is_balanced: false,
            states,
            now,
            chance,
            lists,
            sets,
            packets,
        }
    }

    pub(super) fn is_new(&self) -> bool {
        self.states.contains(&State::New)
    }

    pub(super) fn is_for_us(&self) -> bool {
        self.is_local(self.packet.destination)
    }

    pub(super) fn comes_back_by_lo(&mut self) {
        self.packet.path = Path::Arrives("lo".to_owned());
    }

    fn is_local(&self, address: IpAddr) -> bool {
        address.is_loopback() || self.packet.local.contains(&address)
    }

    /// Runs a chain that the table always has; `None` if the packet goes on.
    pub(super) fn own_chain(&mut self, table: &SimTable, name: &str) -> Option<End> {
        match self.chain(table, name) {
            Flow::Accept => None,
            Flow::End(end) => Some(end),
            Flow::Next | Flow::Return => {
                let policy = table.chain(name).and_then(|chain| chain.policy);
                (policy == Some(Policy::Drop)).then_some(End::Drop)
            }
        }
    }

    /// Runs a chain to its end: `Next` if it fell off it or was left.
    fn chain(&mut self, table: &SimTable, name: &str) -> Flow {
        let chain = table.chain(name).into_iter();
        let rules = chain.flat_map(|chain| chain.rules.iter().zip(&chain.handles));
        for (rule, handle) in rules.filter_map(|(rule, handle)| Some((rule.known()?, *handle))) {
            match self.rule(table, rule, handle) {
                Flow::Next => {}
                Flow::Return => return Flow::Next,
                decided => return decided,
            }
        }
        Flow::Next
    }

    /// Addresses, interfaces and the protocol are looked at first, as the kernel does; then modules, in their order.
    fn rule(&mut self, table: &SimTable, rule: &Rule, handle: u64) -> Flow {
        let (first, modules) = rule.asked();
        if !first.into_iter().chain(modules).all(|part| self.holds(part)) {
            return Flow::Next;
        }
        *self.packets.entry(handle).or_default() += 1;
        rule.target.as_ref().map_or(Flow::Next, |target| self.target(table, target))
    }

    fn holds(&mut self, part: &Match) -> bool {
        match part {
            Match::Comment(_) => true,
            Match::Protocol(protocol) | Match::PlainProtocol(protocol) => self.packet.protocol == *protocol,
            Match::DestinationPort(number) => self.packet.port == Some(*number),
            Match::Source(is, net) => is.asks(net.contains(&self.packet.source)),
            Match::Destination(is, net) => is.asks(net.contains(&self.packet.destination)),
            Match::InInterface(is, name) => is.asks(is_called(self.came_in_by(), name)),
            Match::OutInterface(is, name) => is.asks(is_called(self.goes_out_by(), name)),
            Match::Local(Side::Source, is) => is.asks(self.is_local(self.packet.source)),
            Match::Local(Side::Destination, is) => is.asks(self.is_for_us()),
            Match::Mark { is, value, mask } => is.asks(self.packet.mark & mask == *value),
            Match::State(is, states) => is.asks(!self.states.is_disjoint(states)),
            Match::Random(probability) => (self.chance)(*probability),
            Match::Recent(recent) => self.recent(recent),
            Match::Ipvs => self.is_balanced,
            Match::Set { is, name, sides } => is.asks(sets::has(self.sets, name, sides, &self.packet)),
        }
    }

    fn recent(&mut self, recent: &Recent) -> bool {
        match recent {
            Recent::Set { list } => {
                self.lists.set(list, self.packet.source, self.now);
                true
            }
            Recent::Check { list, seconds, reap } => {
                let within = Duration::from_secs((*seconds).into());
                self.lists.check(list, self.packet.source, within, *reap, self.now)
            }
        }
    }

    /// A packet of this host's own came in by none.
    fn came_in_by(&self) -> &str {
        match &self.packet.path {
            Path::Arrives(interface) => interface,
            Path::Output => "",
        }
    }

    fn goes_out_by(&self) -> &'static str {
        if self.packet.path == Path::Output && self.is_for_us() { "lo" } else { "" }
    }

    fn target(&mut self, table: &SimTable, target: &Target) -> Flow {
        match target {
            Target::Jump(chain) => self.chain(table, chain.as_str()),
            Target::Accept => Flow::Accept,
            Target::Drop => Flow::End(End::Drop),
            Target::Reject => Flow::End(End::Reject),
            Target::Return => Flow::Return,
            Target::OrMark(bits) => self.mark(*bits, *bits),
            Target::XorMark(bits) => self.mark(*bits, 0),
            Target::SetMark(mark) => self.mark(*mark, u32::MAX),
            Target::Xmark { value, mask } => self.mark(*value, *mask),
            Target::Masquerade { .. } => {
                self.masqueraded = true;
                self.states.insert(State::Snat);
                Flow::Accept
            }
            Target::Dnat(address, port) => self.translate(*address, *port),
            Target::Redirect(port) => match self.own_address() {
                Some(address) => self.translate(address, Some(*port)),
                None => Flow::End(End::Drop),
            },
        }
    }

    fn mark(&mut self, value: u32, mask: u32) -> Flow {
        self.packet.mark = (self.packet.mark & !mask) ^ value;
        Flow::Next
    }

    fn translate(&mut self, address: IpAddr, port: Option<u16>) -> Flow {
        self.packet.destination = address;
        self.packet.port = port.or(self.packet.port);
        self.destination = Some((address, self.packet.port));
        self.states.insert(State::Dnat);
        Flow::Accept
    }

    /// Where a redirected packet goes: loopback for one of this host's own, else an address of the interface; here the first
    /// of all, since a packet does not say which interface has which.
    fn own_address(&self) -> Option<IpAddr> {
        let is_v4 = self.packet.destination.is_ipv4();
        if self.packet.path == Path::Output {
            let (v4, v6) = (std::net::Ipv4Addr::LOCALHOST, std::net::Ipv6Addr::LOCALHOST);
            return Some(if is_v4 { v4.into() } else { v6.into() });
        }
        self.packet.local.iter().find(|address| address.is_ipv4() == is_v4 && !address.is_loopback()).copied()
    }
}

/// A name as rules write it: a `+` at the end stands for any letters.
fn is_called(interface: &str, name: &str) -> bool {
    match name.strip_suffix('+') {
        Some(beginning) => interface.starts_with(beginning),
        None => interface == name,
    }
}
