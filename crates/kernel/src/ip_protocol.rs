//! The number of a protocol in the header of an IP packet, which every kernel subsystem uses (`IPPROTO_TCP`, …).
//!
//! In: a [`Protocol`] of a Service, or the number that a kernel or a program told. Out: the name as iptables and nft print it.
//!
//! Absent on purpose: a closed list. Rules of other programs ask for any number.

use std::fmt;

use model::Protocol;

/// A protocol over IP, by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IpProtocol(pub u8);

impl IpProtocol {
    /// TCP.
    pub const TCP: Self = Self(6);
    /// UDP.
    pub const UDP: Self = Self(17);
    /// SCTP.
    pub const SCTP: Self = Self(132);
    /// ICMP of IPv4.
    pub const ICMP: Self = Self(1);
    /// ICMP of IPv6.
    pub const ICMPV6: Self = Self(58);

    /// The protocol that a Service can have, if it is one.
    pub fn transport(self) -> Option<Protocol> {
        Protocol::ALL.into_iter().find(|protocol| Self::from(*protocol) == self)
    }

    /// Whether its packets have ports that a rule can ask.
    pub fn has_ports(self) -> bool {
        self.transport().is_some()
    }
}

impl From<Protocol> for IpProtocol {
    fn from(protocol: Protocol) -> Self {
        match protocol {
            Protocol::Tcp => Self::TCP,
            Protocol::Udp => Self::UDP,
            Protocol::Sctp => Self::SCTP,
        }
    }
}

/// As the programs call it; by number if it has no name here.
impl fmt::Display for IpProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::TCP => f.write_str("tcp"),
            Self::UDP => f.write_str("udp"),
            Self::SCTP => f.write_str("sctp"),
            Self::ICMP => f.write_str("icmp"),
            Self::ICMPV6 => f.write_str("ipv6-icmp"),
            Self(number) => number.fmt(f),
        }
    }
}
