//! What is heard on a wire: a probe that arrives somewhere, or the refusal of one.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::probe::{ICMP, ICMPV6, Probe, SCTP, TCP, UDP};

/// A packet, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Heard {
    pub(crate) source: (IpAddr, u16),
    pub(crate) destination: (IpAddr, u16),
    /// The tag of the probe that this is, or is about.
    tag: u32,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Probe,
    /// A reset.
    Reset,
    /// An ICMP error that says that nobody listens at the port; and whether it answers TCP.
    PortUnreachable {
        is_tcp: bool,
    },
}

/// How a mode must refuse TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// By a reset.
    Reset,
    /// By an ICMP error, as all else.
    PortUnreachable,
}

impl Heard {
    /// Reads a packet that begins with its IP header; `None` for all that is neither a probe nor a refusal.
    pub(crate) fn of_packet(bytes: &[u8]) -> Option<Self> {
        match bytes.first()? >> 4 {
            4 => {
                let size = usize::from(bytes[0] & 0x0f) * 4;
                let address = |at: usize| Some(Ipv4Addr::from(*bytes.get(at..)?.first_chunk::<4>()?));
                Self::of_body(*bytes.get(9)?, address(12)?.into(), address(16)?.into(), bytes.get(size..)?)
            }
            6 => {
                let address = |at: usize| Some(Ipv6Addr::from(*bytes.get(at..)?.first_chunk::<16>()?));
                Self::of_body(bytes[6], address(8)?.into(), address(24)?.into(), bytes.get(40..)?)
            }
            _ => None,
        }
    }

    /// Reads what follows the IP header.
    pub(crate) fn of_body(protocol: u8, source: IpAddr, destination: IpAddr, body: &[u8]) -> Option<Self> {
        let port = |at: usize| Some(u16::from_be_bytes(*body.get(at..)?.first_chunk()?));
        let number = |at: usize| Some(u32::from_be_bytes(*body.get(at..)?.first_chunk()?));
        let (kind, tag) = match protocol {
            TCP if body.get(13)? & 0x17 == 0x02 => (Kind::Probe, number(4)?),
            TCP if body.get(13)? & 0x04 != 0 => (Kind::Reset, number(8)?.wrapping_sub(1)),
            UDP => (Kind::Probe, number(8)?),
            SCTP if *body.get(12)? == 1 => (Kind::Probe, number(16)?),
            ICMP | ICMPV6 => return Self::of_icmp(protocol, source, destination, body),
            _ => return None,
        };
        Some(Self { source: (source, port(0)?), destination: (destination, port(2)?), tag, kind })
    }

    fn of_icmp(protocol: u8, source: IpAddr, destination: IpAddr, body: &[u8]) -> Option<Self> {
        let [kind, code, _, _, id @ ..] = body else { return None };
        let id = u16::from_be_bytes(*id.first_chunk()?);
        match (protocol, kind, code) {
            (ICMP, 8, 0) | (ICMPV6, 128, 0) => {
                let tag = u32::from_be_bytes(*body.get(8..)?.first_chunk()?);
                Some(Self { source: (source, id), destination: (destination, 0), tag, kind: Kind::Probe })
            }
            (ICMP, 3, 3) | (ICMPV6, 1, 4) => {
                let about = Self::of_packet(body.get(8..)?)?;
                let kind = Kind::PortUnreachable { is_tcp: body.get(8..).is_some_and(is_tcp) };
                let (source, destination) = ((source, 0), (destination, about.source.1));
                Some(Self { source, destination, tag: about.tag, kind })
            }
            _ => None,
        }
    }

    /// Is this the probe, wherever it was sent on to?
    pub(crate) fn is(&self, probe: &Probe) -> bool {
        self.kind == Kind::Probe && self.tag == probe.tag
    }

    /// Does this tell the client that the probe is refused? TCP must hear it from the very address and port it called.
    pub(crate) fn refuses(&self, probe: &Probe, how: Refusal) -> bool {
        let is_to_client = self.destination == (probe.source, probe.source_port);
        let is_from_called = self.source == (probe.destination, probe.port());
        let is_refusal = match self.kind {
            Kind::Probe => false,
            Kind::Reset => how == Refusal::Reset && is_from_called,
            Kind::PortUnreachable { is_tcp } => !is_tcp || how == Refusal::PortUnreachable,
        };
        is_refusal && self.tag == probe.tag && is_to_client
    }
}

fn is_tcp(packet: &[u8]) -> bool {
    let at = if packet.first().is_some_and(|first| first >> 4 == 4) { 9 } else { 6 };
    packet.get(at) == Some(&TCP)
}
