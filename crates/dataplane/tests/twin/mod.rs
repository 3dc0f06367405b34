//! Sends packets of the model through the simulated kernel, once for each way in which the drawn numbers may fall.
//!
//! In: a packet, a kernel in memory. Out: every place where the packet may end, with its share. The scenarios of `portway`
//! use it too.

#![allow(dead_code, reason = "each test uses its part")]

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use kernel::nft::{Element, Family, Listed, Protocol, Reject};
use kernel_sim::nft::{Fate, Outcome, Path, SimPacket, Simulated};
use model::fate::Payload;
use model::table::NodeView;
use model::{ForwardingTable, Packet};

/// A mark of somebody else's, that must come out as it went in.
const FOREIGN_MARK: u32 = 0x2_0001;
/// Where packets come in that do not say.
const INTERFACE: &str = "uplink0";

/// Where a packet ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum End {
    Untouched,
    Rejected,
    Dropped,
    At { endpoint: (IpAddr, u16), masqueraded: bool },
}

/// A share of a whole, in lowest terms.
pub(crate) type Share = (u32, u32);

/// Everywhere that a packet may end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ends(pub(crate) BTreeMap<End, Share>);

/// One way in which the numbers may fall.
#[derive(Clone, Debug)]
pub(crate) struct Way {
    pub(crate) end: End,
    /// It happens once in so many.
    pub(crate) one_in: u32,
    /// The kernel afterwards; it may remember the client.
    pub(crate) kernel: Simulated,
}

/// The packet as the kernel sees it.
pub(crate) fn sim_packet(packet: &Packet, node: &NodeView) -> SimPacket {
    let is_own = node.is_own(packet.source);
    let (protocol, port) = match packet.payload {
        Payload::Ping => (Protocol::ICMP, None),
        Payload::Transport { protocol, port } => (protocol_number(protocol), Some(port)),
    };
    let interface = packet.interface.clone().unwrap_or_else(|| INTERFACE.into());
    SimPacket {
        family: if packet.destination.is_ipv4() { Family::V4 } else { Family::V6 },
        path: if is_own { Path::Output } else { Path::Arrives(interface) },
        source: packet.source,
        destination: packet.destination,
        protocol,
        port,
        mark: FOREIGN_MARK,
        priority: 0,
        local: node.addresses.clone(),
    }
}

fn protocol_number(protocol: model::Protocol) -> Protocol {
    match protocol {
        model::Protocol::Tcp => Protocol::TCP,
        model::Protocol::Udp => Protocol::UDP,
        model::Protocol::Sctp => Protocol::SCTP,
    }
}

/// Sends the packet once for each way in which the numbers may fall, each time through a kernel that is as `kernel` is.
pub(crate) fn ways(kernel: &Simulated, packet: &SimPacket, now: Duration) -> Result<Vec<Way>, String> {
    let mut draws = Draws::default();
    let mut ways = Vec::new();
    loop {
        let mut after = kernel.clone();
        let outcome = draws.play(|random| after.send(packet, now, random));
        ways.push(Way { end: end_of(packet, &outcome)?, one_in: draws.one_in()?, kernel: after });
        if !draws.advance() {
            return Ok(ways);
        }
    }
}

/// The same, where nothing is remembered: the kernel is used as it is.
pub(crate) fn ends(kernel: &mut Simulated, packet: &SimPacket, now: Duration) -> Result<Ends, String> {
    let mut draws = Draws::default();
    let mut ends = Vec::new();
    loop {
        let outcome = draws.play(|random| kernel.send(packet, now, random));
        ends.push((end_of(packet, &outcome)?, draws.one_in()?));
        if !draws.advance() {
            return Ends::of(ends);
        }
    }
}

impl Ends {
    /// Adds up equal ends.
    pub(crate) fn of(ways: impl IntoIterator<Item = (End, u32)>) -> Result<Self, String> {
        let mut sum: BTreeMap<End, Share> = BTreeMap::new();
        for (end, one_in) in ways {
            let (part, whole) = sum.get(&end).copied().unwrap_or((0, 1));
            let added = whole.checked_mul(one_in).zip(part.checked_mul(one_in).map(|part| part + whole));
            let (whole, part) = added.ok_or("shares are too small to count")?;
            sum.insert(end, lowest(part, whole));
        }
        Ok(Self(sum))
    }
}

/// Everywhere that a packet of this fate may end.
pub(crate) fn ends_of(fate: &model::Fate) -> BTreeMap<End, Share> {
    let one = |end| BTreeMap::from([(end, (1, 1))]);
    match fate {
        model::Fate::Untouched => one(End::Untouched),
        model::Fate::Rejected => one(End::Rejected),
        model::Fate::Dropped => one(End::Dropped),
        model::Fate::OneOf(one_of) => {
            let end = |landing: &model::Landing| {
                let endpoint = (landing.address, landing.port);
                let share = lowest(u32::from(landing.slots), one_of.slots);
                (End::At { endpoint, masqueraded: landing.masqueraded }, share)
            };
            one_of.landings.iter().map(end).collect()
        }
    }
}

/// A fraction in lowest terms.
pub(crate) fn lowest(part: u32, whole: u32) -> Share {
    let (mut a, mut b) = (part, whole);
    while b > 0 {
        (a, b) = (b, a % b);
    }
    (part / a.max(1), whole / a.max(1))
}

/// The numbers that are drawn: each time the next possibility.
#[derive(Debug, Default)]
struct Draws {
    drawn: Vec<(u32, u32)>,
}

impl Draws {
    fn play(&mut self, send: impl FnOnce(&mut dyn FnMut(u32) -> u32) -> Outcome) -> Outcome {
        let (drawn, mut at) = (&mut self.drawn, 0);
        let outcome = send(&mut |modulus| {
            if at == drawn.len() {
                drawn.push((0, modulus));
            }
            at += 1;
            drawn[at - 1].0
        });
        drawn.truncate(at);
        outcome
    }

    fn one_in(&self) -> Result<u32, String> {
        let product = self.drawn.iter().try_fold(1u32, |product, (_, modulus)| product.checked_mul(*modulus));
        product.ok_or_else(|| format!("too many numbers are drawn: {:?}", self.drawn))
    }

    /// Goes on to the next possibility. False after the last one.
    fn advance(&mut self) -> bool {
        while let Some((number, modulus)) = self.drawn.pop() {
            if number + 1 < modulus {
                self.drawn.push((number + 1, modulus));
                return true;
            }
        }
        false
    }
}

/// What the outcome means. Mark and priority must be what they were, unless nobody sees them any more.
fn end_of(packet: &SimPacket, outcome: &Outcome) -> Result<End, String> {
    let end = match outcome.fate {
        Fate::Untouched => End::Untouched,
        Fate::Rejected(how) => return refused(packet.protocol, how),
        Fate::Dropped => return Ok(End::Dropped),
        Fate::Dnat(address, port) => {
            let endpoint = (address, port.ok_or("the packet lost its port")?);
            // What is delivered to this host itself passes no postrouting, where both would be taken off.
            if is_delivered_here(packet, address) {
                return Ok(End::At { endpoint, masqueraded: false });
            }
            End::At { endpoint, masqueraded: outcome.masqueraded }
        }
    };
    if (outcome.mark, outcome.priority) != (packet.mark, packet.priority) {
        return Err(format!("the packet left with other marks than it had: {packet:?} {outcome:?}"));
    }
    Ok(end)
}

/// TCP must be refused by a reset: other answers are rate limited, and a lost one is a timeout.
fn refused(protocol: Protocol, how: Reject) -> Result<End, String> {
    let is_right = (how == Reject::TcpReset) == (protocol == Protocol::TCP);
    if is_right { Ok(End::Rejected) } else { Err(format!("{protocol:?} is refused by {how:?}")) }
}

/// Does a packet that arrives end at this host itself?
pub(crate) fn is_delivered_here(packet: &SimPacket, address: IpAddr) -> bool {
    packet.path != Path::Output && (address.is_loopback() || packet.local.contains(&address))
}

/// A listing without what is the kernel's own (handles) and what packets did (who was sent where).
pub(crate) fn comparable(listed: Option<Listed>) -> Option<Listed> {
    listed.map(|mut listed| {
        listed.rules.values_mut().flatten().for_each(|rule| rule.handle = 0);
        if let Some(affinity) = listed.sets.get_mut("affinity") {
            affinity.elements.clear();
        }
        listed
    })
}

/// In what two listings differ, in words.
pub(crate) fn difference(one: Option<&Listed>, other: Option<&Listed>) -> String {
    let (Some(one), Some(other)) = (one, other) else {
        return format!("there: {}, {}", one.is_some(), other.is_some());
    };
    let mut found = Vec::new();
    let names: BTreeSet<_> = one.chains.keys().chain(other.chains.keys()).collect();
    for name in names {
        if (one.chains.get(name), one.rules.get(name)) != (other.chains.get(name), other.rules.get(name)) {
            found.push(format!("chain {name}"));
        }
    }
    let names: BTreeSet<_> = one.sets.keys().chain(other.sets.keys()).collect();
    for name in names {
        let of = |listed: &Listed| listed.sets.get(name).map(|set| set.elements.clone()).unwrap_or_default();
        let (left, right) = (of(one), of(other));
        let only = |these: &[Element], those: &[Element]| -> Vec<Element> {
            these.iter().filter(|element| !those.contains(element)).cloned().collect()
        };
        if left != right {
            found.push(format!(
                "{name}: only here {:?}, only there {:?}",
                only(&left, &right),
                only(&right, &left)
            ));
        }
    }
    found.join("\n")
}

/// Every service port of the table.
pub(crate) fn all_ports(table: &ForwardingTable) -> BTreeSet<model::ServicePortId> {
    table.ports().map(|port| port.id().clone()).collect()
}
