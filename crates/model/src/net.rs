//! Addresses, families and protocols: the small words that everything else is said in.
//!
//! Addresses are read as Kubernetes reads them: leading zeros are decimal (`010.0.0.1` is `10.0.0.1`) and an IPv4 address
//! written inside IPv6 (`::ffff:10.0.0.1`) is an IPv4 address.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

pub use ipnet::IpNet;

/// IPv4 or IPv6: a value that code iterates over, never a copy of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// Both, in the order in which they are shown.
    pub const ALL: [Family; 2] = [Family::V4, Family::V6];

    /// The family of an address.
    pub const fn of(address: IpAddr) -> Self {
        if address.is_ipv4() { Family::V4 } else { Family::V6 }
    }

    /// The family of a network.
    pub fn of_net(net: &IpNet) -> Self {
        Self::of(net.addr())
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Family::V4 => "IPv4",
            Family::V6 => "IPv6",
        })
    }
}

/// One value for each family.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByFamily<T> {
    /// The IPv4 one.
    pub v4: T,
    /// The IPv6 one.
    pub v6: T,
}

impl<T> ByFamily<T> {
    /// The value of one family.
    pub fn get(&self, family: Family) -> &T {
        match family {
            Family::V4 => &self.v4,
            Family::V6 => &self.v6,
        }
    }

    /// The value of one family, to change.
    pub fn get_mut(&mut self, family: Family) -> &mut T {
        match family {
            Family::V4 => &mut self.v4,
            Family::V6 => &mut self.v6,
        }
    }

    /// Both values with their families, IPv4 first.
    pub fn iter(&self) -> impl Iterator<Item = (Family, &T)> {
        Family::ALL.into_iter().map(|family| (family, self.get(family)))
    }
}

/// A transport protocol that a Service can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
}

impl Protocol {
    /// All of them.
    pub const ALL: [Protocol; 3] = [Protocol::Tcp, Protocol::Udp, Protocol::Sctp];

    /// Reads `TCP`, `udp`, ...
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|protocol| protocol.name().eq_ignore_ascii_case(text))
    }

    /// The lower-case name.
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Tcp => "tcp",
            Protocol::Udp => "udp",
            Protocol::Sctp => "sctp",
        }
    }

    /// The name as Kubernetes objects spell it.
    pub fn upper_name(self) -> &'static str {
        match self {
            Protocol::Tcp => "TCP",
            Protocol::Udp => "UDP",
            Protocol::Sctp => "SCTP",
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Reads an address as Kubernetes does. `None` when it is none.
pub fn parse_ip(text: &str) -> Option<IpAddr> {
    let text = text.trim();
    match text.parse::<IpAddr>() {
        Ok(address) => Some(address.to_canonical()),
        Err(_) => parse_ipv4_with_leading_zeros(text).map(IpAddr::V4),
    }
}

fn parse_ipv4_with_leading_zeros(text: &str) -> Option<Ipv4Addr> {
    let mut octets = [0u8; 4];
    let mut parts = text.split('.');
    for octet in &mut octets {
        let part = parts.next()?;
        if part.is_empty() || part.len() > 16 || !part.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        let digits = part.trim_start_matches('0');
        *octet = if digits.is_empty() { 0 } else { digits.parse().ok()? };
    }
    parts.next().is_none().then_some(Ipv4Addr::from(octets))
}

/// Reads a network such as `10.96.0.0/12`; host bits are cleared. `None` when it is none.
pub fn parse_cidr(text: &str) -> Option<IpNet> {
    let (address, length) = text.trim().split_once('/')?;
    if length.is_empty() || length.len() > 3 || !length.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    Some(IpNet::new(parse_ip(address)?, length.parse().ok()?).ok()?.trunc())
}

/// `10.0.0.1:80` or `[fd00::1]:80`.
pub fn show_address_and_port(address: IpAddr, port: u16) -> String {
    std::net::SocketAddr::new(address, port).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_kubernetes_reads_them() {
        for (text, expected) in [
            ("10.0.0.1", Some("10.0.0.1")),
            ("010.000.00.001", Some("10.0.0.1")),
            (" 10.0.0.1 ", Some("10.0.0.1")),
            ("::ffff:10.0.0.1", Some("10.0.0.1")),
            ("FD00::1", Some("fd00::1")),
            ("256.0.0.1", None),
            ("10.0.0", None),
            ("10.0.0.1.1", None),
            ("10.0.0.0001", Some("10.0.0.1")),
            ("10.0.0.+1", None),
            ("", None),
        ] {
            assert_eq!(parse_ip(text).map(|ip| ip.to_string()).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn networks_lose_their_host_bits() {
        for (text, expected) in [
            ("10.0.0.1/8", Some("10.0.0.0/8")),
            ("fd00::1/64", Some("fd00::/64")),
            ("10.0.0.1", None),
            ("10.0.0.1/33", None),
            ("10.0.0.1/-1", None),
            ("10.0.0.1/+8", None),
        ] {
            assert_eq!(parse_cidr(text).map(|net| net.to_string()).as_deref(), expected, "{text}");
        }
    }
}
