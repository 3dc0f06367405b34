//! Sets and their entries: plain data.

use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;

use super::Family;
use crate::IpProtocol;

/// A set, as it shall be.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Set {
    /// Its name.
    pub name: SetName,
    /// What its entries are.
    pub kind: Kind,
    /// Of a hash, the number of buckets that it begins with; it grows. The kernel rounds it up to a power of two.
    pub hash_size: u32,
    /// Of a hash, the number of entries that it takes at most.
    pub entries_max: u32,
}

impl Set {
    /// A set of upstream's sizes.
    pub fn new(name: SetName, kind: Kind) -> Self {
        Self { name, kind, hash_size: 1024, entries_max: 65_536 }
    }
}

/// What the entries of a set are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// `hash:ip`.
    Ip(Family),
    /// `hash:ip,port`.
    IpPort(Family),
    /// `hash:ip,port,ip`.
    IpPortIp(Family),
    /// `hash:ip,port,net`.
    IpPortNet(Family),
    /// `bitmap:port` of all ports, whatever the protocol and the family.
    Port,
}

impl Kind {
    /// As the `ipset` program calls it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ip(_) => "hash:ip",
            Self::IpPort(_) => "hash:ip,port",
            Self::IpPortIp(_) => "hash:ip,port,ip",
            Self::IpPortNet(_) => "hash:ip,port,net",
            Self::Port => "bitmap:port",
        }
    }

    /// The kernel module that holds it.
    pub const fn module(self) -> &'static str {
        match self {
            Self::Ip(_) => "ip_set_hash_ip",
            Self::IpPort(_) => "ip_set_hash_ipport",
            Self::IpPortIp(_) => "ip_set_hash_ipportip",
            Self::IpPortNet(_) => "ip_set_hash_ipportnet",
            Self::Port => "ip_set_bitmap_port",
        }
    }

    /// The family of its addresses; `None` for ports alone.
    pub const fn family(self) -> Option<Family> {
        match self {
            Self::Ip(family) | Self::IpPort(family) | Self::IpPortIp(family) | Self::IpPortNet(family) => {
                Some(family)
            }
            Self::Port => None,
        }
    }
}

/// A set, as the kernel has it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct FoundSet {
    /// Its name.
    pub name: String,
    /// What its entries are; `None` for a kind that our types do not know.
    pub kind: Option<Kind>,
    /// How many rules and sets use it. It cannot be destroyed meanwhile.
    pub references: u32,
    /// Of a hash, the number of entries that it takes at most; zero otherwise.
    pub entries_max: u32,
}

/// One entry of a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Entry {
    /// Of [`Kind::Ip`].
    Ip(IpAddr),
    /// Of [`Kind::IpPort`].
    IpPort(IpAddr, IpProtocol, u16),
    /// Of [`Kind::IpPortIp`].
    IpPortIp(IpAddr, IpProtocol, u16, IpAddr),
    /// Of [`Kind::IpPortNet`]. The network is of one bit at least.
    IpPortNet(IpAddr, IpProtocol, u16, IpNet),
    /// Of [`Kind::Port`].
    Port(u16),
}

impl Entry {
    /// The kind of set that it fits into; `None` if its addresses are of two families.
    pub fn kind(&self) -> Option<Kind> {
        let both = |a: IpAddr, b: IpAddr| (a.is_ipv4() == b.is_ipv4()).then(|| Family::of(a));
        Some(match *self {
            Self::Ip(ip) => Kind::Ip(Family::of(ip)),
            Self::IpPort(ip, ..) => Kind::IpPort(Family::of(ip)),
            Self::IpPortIp(ip, _, _, other) => Kind::IpPortIp(both(ip, other)?),
            Self::IpPortNet(ip, _, _, net) => Kind::IpPortNet(both(ip, net.addr())?),
            Self::Port(_) => Kind::Port,
        })
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(ip) => write!(f, "{ip}"),
            Self::IpPort(ip, protocol, port) => write!(f, "{ip},{protocol}:{port}"),
            Self::IpPortIp(ip, protocol, port, other) => write!(f, "{ip},{protocol}:{port},{other}"),
            Self::IpPortNet(ip, protocol, port, net) => write!(f, "{ip},{protocol}:{port},{net}"),
            Self::Port(port) => write!(f, "{port}"),
        }
    }
}

/// The name of a set: 1 to 31 bytes that the iptables programs can read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SetName(Box<str>);

impl SetName {
    /// The longest name that the kernel takes.
    pub const BYTES_MAX: usize = 31;

    /// Takes a name; `None` if no set can be called so.
    pub fn new(name: &str) -> Option<Self> {
        let is_readable = name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"');
        let begins_well = !name.starts_with(['-', '!', ':', '#']);
        let is_fit = (1..=Self::BYTES_MAX).contains(&name.len()) && is_readable && begins_well;
        is_fit.then(|| Self(name.into()))
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SetName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::borrow::Borrow<str> for SetName {
    fn borrow(&self) -> &str {
        &self.0
    }
}
