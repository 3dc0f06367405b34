//! One line of the store: what happened, with a checksum in front.
//!
//! ```text
//! 7c9d8f12 hold default/web cluster-ip/IPv4 10.96.17.3
//! ```
//!
//! Lines are text so that a person can read them when something is wrong. Names hold no blanks and no line ends: that is
//! checked where objects enter ([`model::name::is_acceptable`]) and again here.

use std::fmt;
use std::net::IpAddr;

use model::name::is_acceptable;
use model::{Family, Protocol, ServiceName};

/// Something of which there is one in the cluster. An address is one thing, whether it serves as cluster IP or ingress IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Resource {
    Address(IpAddr),
    Port(Protocol, u16),
}

/// What a Service uses it for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Slot {
    ClusterIp(Family),
    LoadBalancerIp(Family),
    /// The node port of the service port with this protocol and number: a port that is renamed keeps its node port.
    NodePort(Protocol, u16),
    HealthCheck,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Record {
    /// A Service was seen for the first time, at this second since 1970.
    Seen { service: ServiceName, at: i64 },
    /// A Service vanished from the manifests.
    Absent { service: ServiceName, at: i64 },
    /// It is back.
    Present { service: ServiceName },
    /// It was given something, or took it.
    Hold { service: ServiceName, slot: Slot, resource: Resource },
    /// Something is nobody's any more.
    Free { resource: Resource },
}

impl Record {
    /// The line for it, with its end.
    pub(crate) fn encode(&self) -> String {
        encode_line(&self.to_string())
    }

    /// Reads a line without its end. `None` when it is damaged.
    pub(crate) fn decode(line: &[u8]) -> Option<Self> {
        let mut words = decode_line(line)?.split(' ');
        let verb = words.next()?;
        let record = match verb {
            "seen" => Self::Seen { service: name(words.next()?)?, at: words.next()?.parse().ok()? },
            "absent" => Self::Absent { service: name(words.next()?)?, at: words.next()?.parse().ok()? },
            "present" => Self::Present { service: name(words.next()?)? },
            "hold" => Self::Hold {
                service: name(words.next()?)?,
                slot: Slot::parse(words.next()?)?,
                resource: Resource::parse(words.next()?)?,
            },
            "free" => Self::Free { resource: Resource::parse(words.next()?)? },
            _ => return None,
        };
        words.next().is_none().then_some(record)
    }
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Seen { service, at } => write!(f, "seen {service} {at}"),
            Self::Absent { service, at } => write!(f, "absent {service} {at}"),
            Self::Present { service } => write!(f, "present {service}"),
            Self::Hold { service, slot, resource } => write!(f, "hold {service} {slot} {resource}"),
            Self::Free { resource } => write!(f, "free {resource}"),
        }
    }
}

impl Resource {
    fn parse(text: &str) -> Option<Self> {
        match text.split_once('/') {
            Some((port, protocol)) => Some(Self::Port(Protocol::parse(protocol)?, port.parse().ok()?)),
            None => text.parse().ok().map(Self::Address),
        }
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(ip) => write!(f, "{ip}"),
            Self::Port(protocol, port) => write!(f, "{port}/{protocol}"),
        }
    }
}

impl Slot {
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('/');
        let slot = match parts.next()? {
            "cluster-ip" => Self::ClusterIp(family(parts.next()?)?),
            "load-balancer-ip" => Self::LoadBalancerIp(family(parts.next()?)?),
            "node-port" => {
                let port = parts.next()?.parse().ok()?;
                Self::NodePort(Protocol::parse(parts.next()?)?, port)
            }
            "health-check" => Self::HealthCheck,
            _ => return None,
        };
        parts.next().is_none().then_some(slot)
    }
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ClusterIp(family) => write!(f, "cluster-ip/{family}"),
            Self::LoadBalancerIp(family) => write!(f, "load-balancer-ip/{family}"),
            Self::NodePort(protocol, port) => write!(f, "node-port/{port}/{protocol}"),
            Self::HealthCheck => f.write_str("health-check"),
        }
    }
}

/// A line with its checksum and its end.
pub(super) fn encode_line(payload: &str) -> String {
    format!("{:08x} {payload}\n", crc32(payload.as_bytes()))
}

/// What a line without its end says. `None` when its checksum does not agree.
pub(super) fn decode_line(line: &[u8]) -> Option<&str> {
    let (sum, payload) = std::str::from_utf8(line).ok()?.split_once(' ')?;
    (sum.len() == 8 && u32::from_str_radix(sum, 16).ok()? == crc32(payload.as_bytes())).then_some(payload)
}

fn name(text: &str) -> Option<ServiceName> {
    let (namespace, name) = text.split_once('/')?;
    (is_acceptable(namespace) && is_acceptable(name)).then(|| ServiceName::new(namespace, name))
}

fn family(text: &str) -> Option<Family> {
    Family::ALL.into_iter().find(|family| family.to_string() == text)
}

/// CRC-32 as in zip and Ethernet: it finds every burst of damage up to 32 bits.
fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32| if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 };
    !bytes.iter().fold(!0u32, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), |crc, _| step(crc)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records() -> Vec<Record> {
        let service = ServiceName::new("default", "web");
        let hold = |slot, resource| Record::Hold { service: service.clone(), slot, resource };
        vec![
            Record::Seen { service: service.clone(), at: -5 },
            Record::Absent { service: service.clone(), at: 1_794_774_134 },
            Record::Present { service: service.clone() },
            hold(Slot::ClusterIp(Family::V6), Resource::Address("fd00::1".parse().unwrap())),
            hold(Slot::LoadBalancerIp(Family::V4), Resource::Address("192.0.2.1".parse().unwrap())),
            hold(Slot::NodePort(Protocol::Udp, 53), Resource::Port(Protocol::Udp, 30053)),
            hold(Slot::HealthCheck, Resource::Port(Protocol::Tcp, 31000)),
            Record::Free { resource: Resource::Port(Protocol::Sctp, 1) },
        ]
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        for record in records() {
            let line = record.encode();
            assert_eq!(Record::decode(line.trim_end().as_bytes()), Some(record), "{line}");
        }
    }

    #[test]
    fn a_record_with_one_wrong_bit_is_refused() {
        for record in records() {
            let line = record.encode().trim_end().as_bytes().to_vec();
            for bit in 0..line.len() * 8 {
                let mut damaged = line.clone();
                damaged[bit / 8] ^= 1 << (bit % 8);
                let read = Record::decode(&damaged);
                // Hexadecimal digits mean the same in either case.
                assert!(read.is_none() || damaged.eq_ignore_ascii_case(&line), "{record}: bit {bit}");
            }
        }
    }

    #[test]
    fn the_checksum_is_the_known_one() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    }
}
