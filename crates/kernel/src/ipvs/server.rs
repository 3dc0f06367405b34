//! Virtual and real servers: plain data.

use std::fmt;
use std::net::SocketAddr;

use super::Family;
use crate::IpProtocol;

/// Which packets a virtual server takes; its only name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum What {
    /// Those to one address and port.
    Address(SocketAddr, IpProtocol),
    /// Those of one family that carry this mark, whatever their protocol and port. Never zero. It goes before addresses.
    Mark(u32, Family),
}

impl What {
    /// The family of its packets.
    pub const fn family(&self) -> Family {
        match self {
            Self::Address(address, _) => Family::of(address.ip()),
            Self::Mark(_, family) => *family,
        }
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address, IpProtocol::TCP) => write!(f, "TCP {address}"),
            Self::Address(address, IpProtocol::UDP) => write!(f, "UDP {address}"),
            Self::Address(address, IpProtocol::SCTP) => write!(f, "SCTP {address}"),
            Self::Address(address, IpProtocol(number)) => write!(f, "protocol {number} {address}"),
            Self::Mark(mark, family) => write!(f, "FWM {mark} {family:?}"),
        }
    }
}

/// A virtual server.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct VirtualServer {
    /// Which packets it takes.
    pub what: What,
    /// How it chooses: `rr`, `wrr`, `lc` and so on; the module of the kernel is called `ip_vs_` and this.
    pub scheduler: String,
    /// What else it does.
    pub flags: Flags,
    /// For so many seconds after its last connection a client gets the same real server again.
    pub persistence_s: Option<u32>,
    /// So many leading bits of an address make a client, for persistence: 32, or 128 for IPv6, if each address is one.
    pub client_bits: u8,
}

impl VirtualServer {
    /// One without persistence, each address a client of its own.
    pub fn new(what: What, scheduler: &str) -> Self {
        let client_bits = if what.family() == Family::V4 { 32 } else { 128 };
        let scheduler = scheduler.to_owned();
        Self { what, scheduler, flags: Flags::NONE, persistence_s: None, client_bits }
    }
}

/// What else a virtual server does. Persistence is not among them: it has a field of its own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Flags(pub u32);

impl Flags {
    /// Nothing else.
    pub const NONE: Self = Self(0);
    /// Each datagram is a connection of its own (UDP).
    pub const ONE_PACKET: Self = Self(0x4);
    /// `sh-fallback`, `mh-fallback`: where the hash leads to a server that takes nothing, another is chosen.
    pub const HASH_FALLBACK: Self = Self(0x8);
    /// `sh-port`, `mh-port`: the client's port goes into the hash, too.
    pub const HASH_PORT: Self = Self(0x10);
    /// All that a caller may set; the kernel keeps some of its own.
    pub const SETTABLE: u32 = 0x4 | 0x8 | 0x10 | 0x20;
}

/// A real server, as it shall be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RealServer {
    /// Where it is. Of a virtual server by mark the port may be zero: that of the packet.
    pub address: SocketAddr,
    /// How much it gets, against the others. Zero: connections that it has go on, new ones go elsewhere.
    pub weight: u32,
    /// How packets get there.
    pub forwarding: Forwarding,
}

impl RealServer {
    /// One that is reached by translating addresses.
    pub const fn masquerading(address: SocketAddr, weight: u32) -> Self {
        Self { address, weight, forwarding: Forwarding::Masquerade }
    }
}

/// How packets get to a real server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Forwarding {
    /// Destination address and port are translated, and back in the answers.
    Masquerade,
    /// Any other way, by the kernel's number (tunnel, direct routing ...): ours are never so.
    Other(u32),
}

/// What a virtual server, or one real server behind it, has carried since it was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Counts {
    /// Connections; a UDP flow is one.
    pub connections: u64,
    /// Bytes from clients.
    pub bytes_in: u64,
    /// Bytes to clients.
    pub bytes_out: u64,
}

/// A real server, as the kernel has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FoundServer {
    /// What it is.
    pub server: RealServer,
    /// Connections that are open.
    pub active: u32,
    /// Connections that are closing or only remembered; all of UDP.
    pub inactive: u32,
    /// Clients that would come back to it.
    pub persistent: u32,
    /// What it has carried.
    pub counts: Counts,
}

/// For how many seconds the kernel remembers a connection on which nothing happens. In a request zero leaves a value as it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Timeouts {
    /// An open TCP connection.
    pub tcp_s: u32,
    /// A TCP connection that is closing.
    pub tcp_fin_s: u32,
    /// UDP.
    pub udp_s: u32,
}
