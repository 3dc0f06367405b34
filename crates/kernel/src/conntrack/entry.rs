//! An entry of the connection tracker, and the question which entries are wanted: plain data.
//!
//! Absent on purpose: timeouts, marks, counters and states. Nobody here asks for them.

use std::net::IpAddr;

pub use model::Family;

use crate::IpProtocol;

/// One flow that the kernel remembers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Entry {
    /// TCP, UDP or SCTP; of foreign flows any.
    pub protocol: IpProtocol,
    /// Its packets as the sender sent them.
    pub original: Tuple,
    /// Its answers as the kernel expects them: where the original was translated, they come from somewhere else.
    pub reply: Tuple,
    /// Where it is valid.
    pub zone: Zone,
    /// The kernel's number for it. Tells it from another one that has the same addresses and ports later.
    pub id: Option<u32>,
}

/// One direction of a flow: addresses of one family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tuple {
    /// Who sends.
    pub source: (IpAddr, u16),
    /// To whom.
    pub destination: (IpAddr, u16),
}

impl Tuple {
    /// The tuple of the answers, where nothing is translated.
    #[must_use]
    pub fn reversed(self) -> Self {
        Self { source: self.destination, destination: self.source }
    }
}

/// Zones keep flows apart that have the same addresses. Zone 0 is that of everybody who does not care.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Zone {
    /// Its number.
    pub id: u16,
    /// It counts for the original direction alone; the answers are in zone 0.
    pub is_of_original: bool,
}

/// Which entries are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Filter {
    /// All flows of a protocol.
    Protocol(Family, IpProtocol),
    /// Flows of a protocol that were sent to one address and port.
    Destination(IpProtocol, (IpAddr, u16)),
}

impl Filter {
    /// The family that it is about.
    pub const fn family(&self) -> Family {
        match self {
            Self::Protocol(family, _) => *family,
            Self::Destination(_, (ip, _)) => Family::of(*ip),
        }
    }

    /// The protocol that it is about.
    pub const fn protocol(&self) -> IpProtocol {
        match self {
            Self::Protocol(_, protocol) | Self::Destination(protocol, _) => *protocol,
        }
    }

    /// Whether a flow with this protocol and this original direction is wanted.
    pub fn matches(&self, protocol: IpProtocol, original: &Tuple) -> bool {
        protocol == self.protocol()
            && match self {
                Self::Protocol(family, _) => Family::of(original.destination.0) == *family,
                Self::Destination(_, destination) => original.destination == *destination,
            }
    }
}
