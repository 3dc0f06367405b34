//! Rules as closed enums: what a rule asks of a packet and what it does with it.
//!
//! A rule is a list of [`Statement`]s, run from left to right. A match that fails, or a map without the
//! key, ends the rule and the next rule is tried. The same data is compiled for the kernel, printed for
//! people and executed by the simulator.

use std::net::IpAddr;
use std::time::Duration;

use super::object::{Comment, Family, Name, Verdict, address_kind};
use super::value::{InterfaceName, Kind};
use crate::IpProtocol;

/// One rule of a chain.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rule {
    /// The chain that it belongs to; rules are added at its end.
    pub chain: Name,
    /// What it asks and does, from left to right.
    pub statements: Vec<Statement>,
    /// What it is for.
    pub comment: Option<Comment>,
}

impl Rule {
    /// A rule without a comment.
    pub fn new(chain: &str, statements: impl IntoIterator<Item = Statement>) -> Self {
        Self { chain: chain.into(), statements: statements.into_iter().collect(), comment: None }
    }

    /// The sets and maps that it names.
    pub fn sets(&self) -> impl Iterator<Item = &Name> {
        self.statements.iter().filter_map(Statement::set)
    }

    /// The chains that it leads to by a verdict of its own.
    pub fn targets(&self) -> impl Iterator<Item = &Name> {
        self.statements.iter().filter_map(|statement| match statement {
            Statement::Verdict(verdict) => verdict.target(),
            _ => None,
        })
    }
}

/// One step of a rule.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Statement {
    /// Go on only if this is true.
    Match(Match),
    /// Count packets and bytes.
    Counter,
    /// `meta mark set meta mark ...`
    SetMark(Bits),
    /// `meta priority set ...`
    SetPriority(PriorityFrom),
    /// `<key> vmap @map`: do what the verdict map holds for the key.
    VerdictMap {
        /// What is looked up.
        key: Vec<Selector>,
        /// Where.
        map: Name,
    },
    /// `update @map { key timeout T : data }`: remember, or refresh what is remembered.
    /// An entry that exists keeps its old data.
    Update {
        /// A dynamic map.
        map: Name,
        /// The key.
        key: Vec<Selector>,
        /// What to remember.
        data: Selector,
        /// For how long, from now.
        timeout: Duration,
    },
    /// `delete @map { key : data }`: forget. The kernel asks for the data, and does not look at it.
    Delete {
        /// A dynamic map.
        map: Name,
        /// The key.
        key: Vec<Selector>,
        /// Any value of the data's kind.
        data: Selector,
    },
    /// Decide.
    Verdict(Verdict),
    /// Refuse with an answer.
    Reject(Reject),
    /// Send the connection elsewhere.
    Dnat(DnatTo),
    /// Let the connection leave with this host's address, from a random port.
    Masquerade,
}

impl Statement {
    /// `jump chain`.
    pub fn jump(chain: &str) -> Self {
        Self::Verdict(Verdict::Jump(chain.into()))
    }

    /// `goto chain`.
    pub fn goto(chain: &str) -> Self {
        Self::Verdict(Verdict::Goto(chain.into()))
    }

    /// The set or map that it names, if any.
    pub fn set(&self) -> Option<&Name> {
        match self {
            Self::Match(Match::InSet { set, .. }) => Some(set),
            Self::SetPriority(PriorityFrom::Map { map, .. })
            | Self::VerdictMap { map, .. }
            | Self::Update { map, .. }
            | Self::Delete { map, .. }
            | Self::Dnat(DnatTo::Map { map, .. }) => Some(map),
            _ => None,
        }
    }
}

/// A question about a packet.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Match {
    /// `<key> @set`, or `<key> != @set`.
    InSet {
        /// What is looked up.
        key: Vec<Selector>,
        /// Where.
        set: Name,
        /// True where the key must be absent.
        not: bool,
    },
    /// `ip saddr 10.0.0.0/8`, or `!=`.
    InPrefix {
        /// Which of the two addresses.
        side: Side,
        /// The network.
        prefix: Prefix,
        /// True where the address must lie outside.
        not: bool,
    },
    /// `meta l4proto tcp`.
    Protocol(IpProtocol),
    /// `iifname "eth0"` or `iifname "veth*"`, or `!=`.
    InputInterface {
        /// The name, or how it begins.
        pattern: Pattern,
        /// True where it must be another one.
        not: bool,
    },
    /// `ct status dnat`: the connection has been sent elsewhere.
    CtStatusDnat,
    /// `ct state new`: it is the first packet of a connection.
    CtStateNew,
    /// `ct state invalid`: the connection tracker could not assign it to a connection.
    CtStateInvalid,
    /// `tcp flags & (fin|syn|rst) == 0`: it neither opens nor ends a TCP connection. Only behind `meta l4proto tcp`.
    TcpMidStream,
    /// `tcp flags & syn == 0 ct state new,invalid`: it belongs to a TCP connection that the kernel does not know.
    MidStream,
    /// `fib daddr type local`: this host answers to the address.
    Local(Side),
    /// `meta mark & mask == value`.
    Mark {
        /// The bits to look at.
        mask: u32,
        /// What they must be.
        value: u32,
    },
    /// `meta priority & mask == value`.
    Priority {
        /// The bits to look at.
        mask: u32,
        /// What they must be.
        value: u32,
    },
}

/// One of a packet's two addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// Where it comes from.
    Source,
    /// Where it goes to.
    Destination,
}

/// All addresses with the same leading bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix {
    /// Any address in it.
    pub address: IpAddr,
    /// How many leading bits count.
    pub length: u8,
}

/// The name of an interface, or how it begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Pattern {
    /// This name.
    Exact(InterfaceName),
    /// Every name that begins so.
    StartsWith(InterfaceName),
}

/// A part of a packet that a key can be made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Selector {
    /// The source address.
    Source,
    /// The destination address.
    Destination,
    /// The transport protocol.
    Protocol,
    /// The source port.
    SourcePort,
    /// The destination port.
    Port,
    /// The packet's priority.
    Priority,
    /// Some bits of the packet's priority.
    PriorityAnd(u32),
    /// The packet's mark.
    Mark,
    /// The interface that it came in by; empty for a packet of this host's own.
    InputInterface,
    /// `numgen random mod M offset O`: a number from O to O + M - 1, drawn for this packet.
    Slot {
        /// How many numbers.
        modulus: u32,
        /// The first of them.
        offset: u32,
    },
}

impl Selector {
    /// The kind of the values that it gives in a table of this family.
    pub const fn kind(self, family: Family) -> Kind {
        match self {
            Self::Source | Self::Destination => address_kind(family),
            Self::Protocol => Kind::Protocol,
            Self::SourcePort | Self::Port => Kind::Port,
            Self::Priority | Self::PriorityAnd(_) => Kind::Priority,
            Self::Mark => Kind::Mark,
            Self::InputInterface => Kind::Interface,
            Self::Slot { .. } => Kind::Slot,
        }
    }
}

/// How a 32-bit number is changed in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Bits {
    /// Keep these bits only.
    And(u32),
    /// Set these bits.
    Or(u32),
    /// Flip these bits.
    Xor(u32),
    /// Forget what it was.
    Be(u32),
}

impl Bits {
    /// The number after the change.
    pub const fn apply(self, number: u32) -> u32 {
        match self {
            Self::And(mask) => number & mask,
            Self::Or(mask) => number | mask,
            Self::Xor(mask) => number ^ mask,
            Self::Be(value) => value,
        }
    }
}

/// Where a packet's new priority comes from.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum PriorityFrom {
    /// From its old one, or from nowhere.
    Bits(Bits),
    /// From a map; a packet without an entry keeps its priority, and the rule ends.
    Map {
        /// What is looked up.
        key: Vec<Selector>,
        /// Where.
        map: Name,
    },
}

/// How a packet is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reject {
    /// A TCP reset. The rule must have asked for TCP before.
    TcpReset,
    /// ICMP or `ICMPv6` "port unreachable".
    PortUnreachable,
}

/// Where a connection is sent instead.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum DnatTo {
    /// To the address and port that a map holds for the key. A packet without an entry is left alone,
    /// and the rule ends.
    Map {
        /// What is looked up; nft wants the transport protocol among it, since the data holds a port.
        key: Vec<Selector>,
        /// Where.
        map: Name,
    },
    /// To this address; the port needs a match of the transport protocol before it.
    Address {
        /// The new destination.
        address: IpAddr,
        /// Its port, or `None` to keep the port.
        port: Option<u16>,
    },
}
