//! Values that packets carry and maps hold, and tuples of them as the kernel packs them.
//!
//! A [`Tuple`] is self-describing and has no heap part: a map of 200,000 elements is a flat array.
//! Its bytes are the kernel's own: fields padded to four bytes, addresses and ports in network byte
//! order, numbers in the machine's.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::IpProtocol;

/// The kinds of value that a key or a map's data can hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// An IPv4 address.
    Ipv4,
    /// An IPv6 address.
    Ipv6,
    /// A transport protocol.
    Protocol,
    /// A port of a transport protocol.
    Port,
    /// A packet's priority, written as a traffic class `major:minor`.
    Priority,
    /// A number drawn by `numgen`.
    Slot,
    /// A packet's mark.
    Mark,
    /// The name of a network interface.
    Interface,
}

impl Kind {
    /// How many bytes a value has.
    pub const fn size(self) -> usize {
        match self {
            Self::Protocol => 1,
            Self::Port => 2,
            Self::Ipv4 | Self::Priority | Self::Slot | Self::Mark => 4,
            Self::Ipv6 | Self::Interface => 16,
        }
    }

    /// How many bytes a value takes inside a tuple.
    pub const fn padded_size(self) -> usize {
        self.size().next_multiple_of(4)
    }
}

/// The name of a network interface: at most 15 bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InterfaceName([u8; 16]);

impl InterfaceName {
    /// Takes a name, or `None` if it is too long to be one.
    pub fn new(name: &str) -> Option<Self> {
        let mut bytes = [0; 16];
        bytes.get_mut(..name.len()).filter(|room| room.len() < 16)?.copy_from_slice(name.as_bytes());
        Some(Self(bytes))
    }

    /// The name without its closing zeroes.
    pub fn as_bytes(&self) -> &[u8] {
        let end = self.0.iter().position(|&byte| byte == 0).unwrap_or(self.0.len());
        &self.0[..end]
    }
}

impl fmt::Debug for InterfaceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", String::from_utf8_lossy(self.as_bytes()))
    }
}

/// One value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Value {
    /// An IPv4 address.
    Ipv4(Ipv4Addr),
    /// An IPv6 address.
    Ipv6(Ipv6Addr),
    /// A transport protocol.
    Protocol(IpProtocol),
    /// A port of a transport protocol.
    Port(u16),
    /// A packet's priority.
    Priority(u32),
    /// A number drawn by `numgen`.
    Slot(u32),
    /// A packet's mark.
    Mark(u32),
    /// The name of a network interface.
    Interface(InterfaceName),
}

impl From<IpAddr> for Value {
    fn from(ip: IpAddr) -> Self {
        match ip {
            IpAddr::V4(v4) => Self::Ipv4(v4),
            IpAddr::V6(v6) => Self::Ipv6(v6),
        }
    }
}

impl Value {
    /// Which kind it is.
    pub const fn kind(self) -> Kind {
        match self {
            Self::Ipv4(_) => Kind::Ipv4,
            Self::Ipv6(_) => Kind::Ipv6,
            Self::Protocol(_) => Kind::Protocol,
            Self::Port(_) => Kind::Port,
            Self::Priority(_) => Kind::Priority,
            Self::Slot(_) => Kind::Slot,
            Self::Mark(_) => Kind::Mark,
            Self::Interface(_) => Kind::Interface,
        }
    }

    /// The address, if it is one.
    pub const fn ip(self) -> Option<IpAddr> {
        match self {
            Self::Ipv4(ip) => Some(IpAddr::V4(ip)),
            Self::Ipv6(ip) => Some(IpAddr::V6(ip)),
            _ => None,
        }
    }

    /// Writes the kernel's bytes; `room` is as long as the kind's size.
    fn store(self, room: &mut [u8]) {
        match self {
            Self::Ipv4(ip) => room.copy_from_slice(&ip.octets()),
            Self::Ipv6(ip) => room.copy_from_slice(&ip.octets()),
            Self::Protocol(protocol) => room.copy_from_slice(&[protocol.0]),
            Self::Port(port) => room.copy_from_slice(&port.to_be_bytes()),
            Self::Priority(number) | Self::Slot(number) | Self::Mark(number) => {
                room.copy_from_slice(&number.to_ne_bytes());
            }
            Self::Interface(name) => room.copy_from_slice(&name.0),
        }
    }

    /// Reads the kernel's bytes.
    fn load(kind: Kind, bytes: &[u8]) -> Option<Self> {
        let number = || bytes.first_chunk().map(|four| u32::from_ne_bytes(*four));
        Some(match kind {
            Kind::Ipv4 => Self::Ipv4(Ipv4Addr::from(*bytes.first_chunk::<4>()?)),
            Kind::Ipv6 => Self::Ipv6(Ipv6Addr::from(*bytes.first_chunk::<16>()?)),
            Kind::Protocol => Self::Protocol(IpProtocol(*bytes.first()?)),
            Kind::Port => Self::Port(u16::from_be_bytes(*bytes.first_chunk()?)),
            Kind::Priority => Self::Priority(number()?),
            Kind::Slot => Self::Slot(number()?),
            Kind::Mark => Self::Mark(number()?),
            Kind::Interface => Self::Interface(InterfaceName(*bytes.first_chunk()?)),
        })
    }
}

/// The kernel packs the types of a key into 32 bits, six each.
const FIELDS_MAX: usize = 5;
/// Room for two IPv6 addresses, protocol, port and one number; the kernel itself would take 64.
const BYTES_MAX: usize = 44;

/// Some values one behind the other: a key, or what a map holds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tuple {
    bytes: [u8; BYTES_MAX],
    kinds: [Option<Kind>; FIELDS_MAX],
}

impl Tuple {
    /// Packs values.
    ///
    /// # Panics
    /// If there are none, more than five, or more than 44 bytes of them: no key of ours is so wide.
    pub fn new(values: &[Value]) -> Self {
        assert!((1..=FIELDS_MAX).contains(&values.len()), "a tuple has one to five values: {values:?}");
        let mut tuple = Self { bytes: [0; BYTES_MAX], kinds: [None; FIELDS_MAX] };
        let mut offset = 0;
        for (value, kind) in values.iter().zip(&mut tuple.kinds) {
            let size = value.kind().size();
            let room = tuple.bytes.get_mut(offset..offset + size).expect("a tuple has at most 44 bytes");
            value.store(room);
            *kind = Some(value.kind());
            offset += size.next_multiple_of(4);
        }
        tuple
    }

    /// Takes the kernel's bytes for fields of these kinds; `None` if the lengths disagree.
    pub fn from_bytes(kinds: &[Kind], bytes: &[u8]) -> Option<Self> {
        if kinds.is_empty() || bytes.len() != wire_size(kinds) {
            return None;
        }
        let mut tuple = Self { bytes: [0; BYTES_MAX], kinds: [None; FIELDS_MAX] };
        tuple.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        for (index, &kind) in kinds.iter().enumerate() {
            *tuple.kinds.get_mut(index)? = Some(kind);
        }
        Some(tuple)
    }

    /// The kinds of the fields.
    pub fn kinds(&self) -> impl Iterator<Item = Kind> + '_ {
        self.kinds.iter().copied().flatten()
    }

    /// The values, unpacked.
    pub fn values(&self) -> impl Iterator<Item = Value> + '_ {
        let mut offset = 0;
        self.kinds().filter_map(move |kind| {
            let value = Value::load(kind, &self.bytes[offset..]);
            offset += kind.padded_size();
            value
        })
    }

    /// The bytes as the kernel takes them: a single field is not padded.
    pub fn bytes(&self) -> &[u8] {
        let size = match self.kinds {
            [Some(only), None, ..] => only.size(),
            _ => self.kinds().map(Kind::padded_size).sum(),
        };
        &self.bytes[..size]
    }

    /// Whether the fields are of these kinds.
    pub fn has_kinds(&self, kinds: &[Kind]) -> bool {
        self.kinds().eq(kinds.iter().copied())
    }

    /// The next higher value of a single field, or `None` if there is none: where an interval ends.
    pub(crate) fn successor(&self) -> Option<Self> {
        let mut next = *self;
        let size = self.bytes().len();
        for byte in next.bytes[..size].iter_mut().rev() {
            let (sum, overflow) = byte.overflowing_add(1);
            *byte = sum;
            if !overflow {
                return Some(next);
            }
        }
        None
    }

    /// The next lower value of a single field, or `None` if there is none.
    pub(crate) fn predecessor(&self) -> Option<Self> {
        let mut previous = *self;
        let size = self.bytes().len();
        for byte in previous.bytes[..size].iter_mut().rev() {
            let (rest, borrow) = byte.overflowing_sub(1);
            *byte = rest;
            if !borrow {
                return Some(previous);
            }
        }
        None
    }
}

/// How many bytes the kernel takes for fields of these kinds: a single one is not padded.
pub fn wire_size(kinds: &[Kind]) -> usize {
    match kinds {
        [only] => only.size(),
        many => many.iter().map(|kind| kind.padded_size()).sum(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tuple_is_packed_as_the_kernel_packs_it() {
        let tuple = Tuple::new(&[
            Value::Ipv4(Ipv4Addr::new(10, 96, 0, 10)),
            Value::Protocol(IpProtocol::TCP),
            Value::Port(80),
        ]);
        assert_eq!(tuple.bytes(), [10, 96, 0, 10, 6, 0, 0, 0, 0, 80, 0, 0]);
        assert_eq!(Tuple::new(&[Value::Port(80)]).bytes(), [0, 80]);
    }

    #[test]
    fn values_survive_packing() {
        let values = [
            Value::Ipv6(Ipv6Addr::LOCALHOST),
            Value::Priority(0x7057_0004),
            Value::Interface(InterfaceName::new("eth0").unwrap()),
        ];
        let tuple = Tuple::new(&values);
        assert_eq!(tuple.values().collect::<Vec<_>>(), values);
        let kinds: Vec<_> = tuple.kinds().collect();
        assert_eq!(Tuple::from_bytes(&kinds, tuple.bytes()), Some(tuple));
        assert_eq!(Tuple::from_bytes(&kinds, &tuple.bytes()[1..]), None);
    }

    #[test]
    fn an_element_of_a_large_map_stays_small() {
        assert!(size_of::<Tuple>() <= 52);
    }
}
