//! What rules can ask about the packet: header bytes, and what the kernel keeps beside it.
//!
//! In: a [`Packet`], and the numbers of the links. Out: bytes for each [`Origin`], unknown where the packet does not say.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::Packet;
use super::bits::Bits;
use crate::IpProtocol;
use crate::nft::foreign::Origin;

/// Numbers of `enum nft_meta_keys`.
pub(super) mod meta {
    pub(crate) const PROTOCOL: u32 = 1;
    pub(crate) const MARK: u32 = 3;
    pub(crate) const IN_INDEX: u32 = 4;
    pub(crate) const OUT_INDEX: u32 = 5;
    pub(crate) const IN_NAME: u32 = 6;
    pub(crate) const OUT_NAME: u32 = 7;
    pub(crate) const NETWORK_PROTOCOL: u32 = 15;
    pub(crate) const TRANSPORT_PROTOCOL: u32 = 16;
}

/// Numbers of `enum nft_ct_keys`.
pub(super) mod ct {
    pub(crate) const STATE: u32 = 0;
    pub(crate) const DIRECTION: u32 = 1;
    pub(crate) const STATUS: u32 = 2;
}

/// The connection is new: `NF_CT_STATE_BIT(IP_CT_NEW)`, for nftables and for the match `conntrack` alike.
pub(super) const STATE_NEW: u32 = 8;
/// `IPS_DST_NAT` and `IPS_DST_NAT_DONE`.
const STATUS_TRANSLATED: u32 = 1 << 5 | 1 << 8;
/// Nothing was to be translated: `IPS_DST_NAT_DONE`, where a nat chain looked at the packet.
const STATUS_MAYBE_LOOKED_AT: u32 = 1 << 8;
/// The flags of a TCP packet that begins a connection. The two highest bits belong to congestion control.
pub(super) const TCP_SYN: u8 = 0x02;
const INTERFACE_SIZE: usize = 16;

/// A packet with the numbers of its links.
#[derive(Debug, Clone)]
pub(super) struct Facts<'a> {
    pub(super) packet: &'a Packet,
    in_index: Option<u32>,
    out_index: Option<u32>,
}

impl<'a> Facts<'a> {
    pub(super) fn new(packet: &'a Packet, links: &BTreeMap<String, u32>) -> Self {
        let index = |name: &Option<String>| name.as_ref().and_then(|name| links.get(name)).copied();
        Self { packet, in_index: index(&packet.in_interface), out_index: index(&packet.out_interface) }
    }

    /// The bits of the connection's status that are known, and their value.
    pub(super) fn status(&self) -> Vec<Bits> {
        if self.packet.is_destination_translated {
            return number(STATUS_TRANSLATED);
        }
        let unknown = STATUS_MAYBE_LOOKED_AT.to_ne_bytes();
        unknown.iter().map(|bits| Bits { value: 0, known: !bits }).collect()
    }

    /// What a rule loads; `None` where even its size is not known. The mark is not here: rules change it.
    pub(super) fn load(&self, origin: Origin) -> Option<Vec<Bits>> {
        let packet = self.packet;
        Some(match origin {
            Origin::Network { offset, size } => part(&self.network(), offset, size),
            Origin::Transport { offset, size } => part(&self.transport(), offset, size),
            Origin::Meta(meta::PROTOCOL) => {
                let ethertype: u16 = if packet.source.is_ipv4() { 0x0800 } else { 0x86dd };
                known(&ethertype.to_be_bytes())
            }
            Origin::Meta(meta::IN_INDEX) => optional(self.in_index.map(u32::to_ne_bytes)),
            Origin::Meta(meta::OUT_INDEX) => optional(self.out_index.map(u32::to_ne_bytes)),
            Origin::Meta(meta::IN_NAME) => interface(packet.in_interface.as_deref()),
            Origin::Meta(meta::OUT_NAME) => interface(packet.out_interface.as_deref()),
            Origin::Meta(meta::NETWORK_PROTOCOL) => known(&[if packet.source.is_ipv4() { 2 } else { 10 }]),
            Origin::Meta(meta::TRANSPORT_PROTOCOL) => known(&[packet.protocol.0]),
            Origin::Ct(ct::STATE) => number(STATE_NEW),
            Origin::Ct(ct::DIRECTION) => known(&[0]),
            Origin::Ct(ct::STATUS) => self.status(),
            Origin::Meta(_) | Origin::Ct(_) | Origin::Other => return None,
        })
    }

    fn network(&self) -> Vec<Bits> {
        let protocol = self.packet.protocol.0;
        match (self.packet.source, self.packet.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let mut header = vec![Bits::UNKNOWN; 20];
                header[0] = Bits::known(0x45);
                // It is no fragment; whether it may become one is not known.
                header[6] = Bits { value: 0, known: !0x40 };
                header[7] = Bits::known(0);
                header[9] = Bits::known(protocol);
                header[12..16].copy_from_slice(&known(&source.octets()));
                header[16..].copy_from_slice(&known(&destination.octets()));
                header
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                let mut header = vec![Bits::UNKNOWN; 40];
                header[0] = Bits { value: 0x60, known: 0xf0 };
                header[6] = Bits::known(protocol);
                header[8..24].copy_from_slice(&known(&source.octets()));
                header[24..].copy_from_slice(&known(&destination.octets()));
                header
            }
            _ => Vec::new(),
        }
    }

    fn transport(&self) -> Vec<Bits> {
        let has_ports = self.packet.protocol.has_ports();
        let mut header = vec![Bits::UNKNOWN; 20];
        if has_ports {
            let port = |port: Option<u16>| optional(port.map(u16::to_be_bytes));
            header[..2].copy_from_slice(&port(self.packet.source_port));
            header[2..4].copy_from_slice(&port(self.packet.destination_port));
        }
        if self.packet.protocol == IpProtocol::TCP {
            header[13] = Bits { value: TCP_SYN, known: 0x3f };
        }
        header
    }
}

/// A number as the kernel keeps it in a register.
pub(super) fn number(value: u32) -> Vec<Bits> {
    known(&value.to_ne_bytes())
}

pub(super) fn known(bytes: &[u8]) -> Vec<Bits> {
    bytes.iter().copied().map(Bits::known).collect()
}

fn optional<const N: usize>(bytes: Option<[u8; N]>) -> Vec<Bits> {
    bytes.map_or_else(|| vec![Bits::UNKNOWN; N], |bytes| known(&bytes))
}

fn interface(name: Option<&str>) -> Vec<Bits> {
    let Some(name) = name.filter(|name| name.len() < INTERFACE_SIZE) else {
        return vec![Bits::UNKNOWN; INTERFACE_SIZE];
    };
    let mut bytes = known(name.as_bytes());
    bytes.resize(INTERFACE_SIZE, Bits::known(0));
    bytes
}

/// Some bytes of a header; those behind its known part are unknown.
fn part(header: &[Bits], offset: u32, size: u32) -> Vec<Bits> {
    let byte = |at: u32| usize::try_from(at).ok().and_then(|at| header.get(at)).copied().unwrap_or_default();
    (0..size.min(64)).map(|more| offset.checked_add(more).map_or(Bits::UNKNOWN, byte)).collect()
}
