//! Rules of iptables as types: what we cannot say here we do not write.
//!
//! In: matches in the order in which they shall be printed, and a target. Out: by `Display`, the rule as a restore text has it
//! after `-A CHAIN `.
//!
//! `iptables-save` prints a rule in another order and in other words than it was written in: addresses first, `/32` added,
//! `--or-mark` as `--set-xmark`. So two rules are equal if they are the same to the kernel, not if they print alike.
//!
//! Absent on purpose: rules of others. What these types cannot say is kept as text by [`FoundRule`](super::FoundRule).

mod canonical;
mod print;
mod probability;

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;

use crate::IpProtocol;
pub use crate::ipset::SetName;
pub use print::is_target;
pub use probability::Probability;

/// One rule, without its chain.
#[derive(Debug, Clone)]
pub struct Rule {
    /// All must hold. Those that remember or draw are asked in this order, after addresses, interfaces and protocol.
    pub parts: Vec<Match>,
    /// What then becomes of the packet; `None` goes on with the next rule.
    pub target: Option<Target>,
}

impl Rule {
    /// A rule of these parts.
    pub fn new(parts: impl IntoIterator<Item = Match>, target: impl Into<Option<Target>>) -> Self {
        Self { parts: parts.into_iter().collect(), target: target.into() }
    }

    /// The chain that it jumps to.
    pub fn jump(&self) -> Option<&ChainName> {
        match &self.target {
            Some(Target::Jump(chain)) => Some(chain),
            _ => None,
        }
    }

    /// The sets that it asks.
    pub fn sets(&self) -> impl Iterator<Item = &SetName> {
        self.parts.iter().filter_map(|part| match part {
            Match::Set { name, .. } => Some(name),
            _ => None,
        })
    }

    /// The text of its comment, if it has one.
    pub fn comment(&self) -> Option<&str> {
        self.parts.iter().find_map(|part| match part {
            Match::Comment(text) => Some(text.as_str()),
            _ => None,
        })
    }
}

/// One thing that must hold of a packet.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Match {
    /// Holds always: a word to people, of at most 255 bytes.
    Comment(String),
    /// `-m tcp -p tcp`, as upstream writes it; `-p icmp` for a protocol without ports.
    Protocol(IpProtocol),
    /// `-p tcp` alone. The kernel lets later fragments through it, which have no port to look at.
    PlainProtocol(IpProtocol),
    /// `--dport 80`; a [`Match::Protocol`] stands before it.
    DestinationPort(u16),
    /// `-s 10.0.0.0/8`.
    Source(Is, IpNet),
    /// `-d 10.0.0.0/8`.
    Destination(Is, IpNet),
    /// `-i eth0`; a `+` at the end stands for any letters.
    InInterface(Is, String),
    /// `-o eth0`; a `+` at the end stands for any letters.
    OutInterface(Is, String),
    /// `-m addrtype --dst-type LOCAL`: the address is one of this host.
    Local(Side, Is),
    /// `-m mark --mark 0x4000/0x4000`: the bits of `mask` are those of `value`.
    Mark {
        /// Or are not.
        is: Is,
        /// The bits.
        value: u32,
        /// Which bits are looked at.
        mask: u32,
    },
    /// `-m conntrack --ctstate NEW`: the connection is in one of these states.
    State(Is, BTreeSet<State>),
    /// `-m statistic --mode random`: by chance.
    Random(Probability),
    /// `-m recent`: the source was seen, or is remembered.
    Recent(Recent),
    /// `-m ipvs --ipvs`: a virtual server has given the packet to whoever gets it.
    Ipvs,
    /// `-m set --match-set NAME dst,dst`: a set has what these ends of the packet say.
    Set {
        /// Or has it not.
        is: Is,
        /// The set.
        name: SetName,
        /// For each part of its entries, the end of the packet that is looked at.
        sides: Vec<Side>,
    },
}

/// Whether a thing must hold or must not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Is {
    /// It must.
    Equal,
    /// It must not: `!`.
    Not,
}

impl Is {
    /// Whether the match is met, for a thing that holds or does not.
    pub fn asks(self, holds: bool) -> bool {
        holds == (self == Self::Equal)
    }
}

/// An end of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// Where it comes from.
    Source,
    /// Where it goes to.
    Destination,
}

/// What the connection tracker says of a packet. The last two may hold beside one of the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// It belongs to no connection and begins none.
    Invalid,
    /// It begins one.
    New,
    /// It begins one that another one announced, or is an error that answers one.
    Related,
    /// It belongs to one.
    Established,
    /// It is not tracked.
    Untracked,
    /// Its connection's source is translated.
    Snat,
    /// Its connection's destination is translated.
    Dnat,
}

/// A list of sources, each with the time when it was last seen. The kernel keeps 100 in a list and forgets the oldest, unless
/// the module `xt_recent` was loaded with another `ip_list_tot`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Recent {
    /// `--set`: remembers the source. Holds always.
    Set {
        /// The list.
        list: String,
    },
    /// `--rcheck --seconds`: the source was seen lately. Does not refresh it.
    Check {
        /// The list.
        list: String,
        /// How lately.
        seconds: u32,
        /// Sources that were seen longer ago are forgotten.
        reap: bool,
    },
}

/// What becomes of a packet for which all matches hold.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// Goes through another chain, and comes back at its end.
    Jump(ChainName),
    /// Is let through, by this table.
    Accept,
    /// Vanishes.
    Drop,
    /// Is refused: "port unreachable".
    Reject,
    /// Goes back to where it jumped from.
    Return,
    /// These bits of its mark are set.
    OrMark(u32),
    /// These bits of its mark are turned.
    XorMark(u32),
    /// Its mark is this.
    SetMark(u32),
    /// The bits of `mask` in its mark are cleared, then those of `value` turned.
    Xmark {
        /// Bits to turn.
        value: u32,
        /// Bits to clear before.
        mask: u32,
    },
    /// Leaves with this host's own address.
    Masquerade {
        /// Its source port is drawn, not the next free one.
        random_fully: bool,
    },
    /// Goes to another address; without a port, to the port that it was sent to.
    Dnat(IpAddr, Option<u16>),
    /// Goes to this port of this host.
    Redirect(u16),
}

/// The name of a chain: 1 to 28 bytes that a program can read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChainName(Box<str>);

impl ChainName {
    /// The longest name that the kernel takes.
    pub const BYTES_MAX: usize = 28;

    /// Takes a name; `None` if no chain can be called so.
    pub fn new(name: &str) -> Option<Self> {
        let is_readable = name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"');
        let begins_well = !name.starts_with(['-', '!', ':', '#', '*', '[']);
        let is_fit = (1..=Self::BYTES_MAX).contains(&name.len()) && is_readable && begins_well;
        // A program would take such a jump for its own target.
        (is_fit && !is_target(name)).then(|| Self(name.into()))
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ChainName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl AsRef<str> for ChainName {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl std::borrow::Borrow<str> for ChainName {
    fn borrow(&self) -> &str {
        &self.0
    }
}
