//! First packets of connections, made by hand, each with a tag that survives every translation.
//!
//! In: a packet of the model and a number. Out: its bytes, IP header included. Formats: RFC 791, 8200, 9293, 768, 9260, 792
//! and 4443. Checksums are right, since connection tracking lets no others through to NAT.

use std::net::IpAddr;

use model::fate::Payload;
use model::{Packet, Protocol};

pub(crate) const ICMP: u8 = 1;
pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;
pub(crate) const ICMPV6: u8 = 58;
pub(crate) const SCTP: u8 = 132;

const HOPS: u8 = 64;
const SYN: u8 = 0x02;
const SCTP_INIT: u8 = 1;

/// A packet to be sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Probe {
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
    payload: Payload,
    /// Unlike that of any other, so that no two share a tracked connection.
    pub(crate) source_port: u16,
    /// What is recognised.
    pub(crate) tag: u32,
}

impl Probe {
    /// The packet as the `number`th of all.
    pub(crate) fn new(packet: &Packet, number: u32) -> Self {
        let port = 1_024 + number % 64_000;
        Self {
            source: packet.source,
            destination: packet.destination,
            payload: packet.payload,
            source_port: u16::try_from(port).unwrap_or_default(),
            tag: 0x5057_0000_u32.wrapping_add(number),
        }
    }

    /// The port that it goes to; a ping has none.
    pub(crate) fn port(&self) -> u16 {
        self.payload.transport().map_or(0, |(_, port)| port)
    }

    /// The whole packet.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let protocol = self.protocol();
        let mut body = self.body();
        match protocol {
            TCP => fill(&mut body, 16, self.checksum(protocol)),
            UDP => fill(&mut body, 6, self.checksum(protocol)),
            SCTP => {
                let sum = crc32c(&body).to_le_bytes();
                body[8..12].copy_from_slice(&sum);
            }
            _ => fill(&mut body, 2, self.checksum(protocol)),
        }
        [self.header(protocol, body.len()), body].concat()
    }

    fn protocol(&self) -> u8 {
        match self.payload {
            Payload::Transport { protocol: Protocol::Tcp, .. } => TCP,
            Payload::Transport { protocol: Protocol::Udp, .. } => UDP,
            Payload::Transport { protocol: Protocol::Sctp, .. } => SCTP,
            Payload::Ping if self.source.is_ipv4() => ICMP,
            Payload::Ping => ICMPV6,
        }
    }

    /// What follows the IP header, with zeros for a checksum.
    fn body(&self) -> Vec<u8> {
        let (from, to) = (self.source_port.to_be_bytes(), self.port().to_be_bytes());
        let (ports, tag) = ([from, to].concat(), self.tag.to_be_bytes());
        match self.protocol() {
            TCP => [&ports, &tag[..], &[0; 4], &[0x50, SYN, 0xff, 0xff], &[0; 4]].concat(),
            UDP => [&ports[..], &[0, 12, 0, 0], &tag[..]].concat(),
            // Length of the chunk, tag, window, streams out and in, first number.
            SCTP => {
                let chunk = [&[SCTP_INIT, 0, 0, 20], &tag[..], &[0, 1, 0, 0], &[0, 1, 0, 1], &[0, 0, 0, 1]];
                [&ports[..], &[0; 8], &chunk.concat()].concat()
            }
            ICMP => [&[8, 0, 0, 0], &from[..], &[0, 1], &tag].concat(),
            _ => [&[128, 0, 0, 0], &from[..], &[0, 1], &tag].concat(),
        }
    }

    /// The checksum of version 4 is left to the kernel, which fills it in.
    fn header(&self, protocol: u8, size: usize) -> Vec<u8> {
        let size = u16::try_from(size).unwrap_or_default();
        if self.source.is_ipv4() {
            let size = (size + 20).to_be_bytes();
            let first = [0x45, 0, size[0], size[1], 0, 0, 0, 0, HOPS, protocol, 0, 0];
            return [&first[..], &octets(self.source), &octets(self.destination)].concat();
        }
        let size = size.to_be_bytes();
        let first = [0x60, 0, 0, 0, size[0], size[1], protocol, HOPS];
        [&first[..], &octets(self.source), &octets(self.destination)].concat()
    }

    /// The Internet checksum, over addresses and protocol too, except for ICMP of version 4.
    fn checksum(&self, protocol: u8) -> u16 {
        let body = self.body();
        let size = u16::try_from(body.len()).unwrap_or_default().to_be_bytes();
        let pseudo = match protocol {
            ICMP => Vec::new(),
            _ => [&octets(self.source)[..], &octets(self.destination), &[0, protocol], &size].concat(),
        };
        let words = pseudo.chunks(2).chain(body.chunks(2));
        let word = |pair: &[u8]| u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0));
        let mut sum: u32 = words.map(word).sum();
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !u16::try_from(sum).unwrap_or_default()
    }
}

fn fill(body: &mut [u8], at: usize, sum: u16) {
    body[at..at + 2].copy_from_slice(&sum.to_be_bytes());
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// CRC-32C (Castagnoli), bit by bit: short packets do not need a table.
fn crc32c(bytes: &[u8]) -> u32 {
    const REVERSED_POLYNOMIAL: u32 = 0x82f6_3b78;
    let step = |crc: u32| (crc >> 1) ^ if crc & 1 == 1 { REVERSED_POLYNOMIAL } else { 0 };
    !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), |crc, _| step(crc)))
}
