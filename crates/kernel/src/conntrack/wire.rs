//! Entries and filters as netlink bytes: numbers and writing. Reading is in `read.rs`.

use crate::IpProtocol;
use std::net::IpAddr;

use super::{Entry, Family, Filter, Tuple};
use crate::netlink::MessageWriter;

/// The messages of the connection tracker: its number among netfilter's subsystems, then that of the message.
pub(super) mod kind {
    const SUBSYSTEM: u16 = 1;
    pub(crate) const NEW: u16 = SUBSYSTEM << 8;
    pub(crate) const GET: u16 = SUBSYSTEM << 8 | 1;
    pub(crate) const DELETE: u16 = SUBSYSTEM << 8 | 2;
}

pub(super) const TUPLE_ORIGINAL: u16 = 1;
pub(super) const TUPLE_REPLY: u16 = 2;
const TIMEOUT: u16 = 7;
pub(super) const ID: u16 = 12;
pub(super) const ZONE: u16 = 18;
const FILTER: u16 = 25;

/// Inside a tuple.
pub(super) const TUPLE_IP: u16 = 1;
pub(super) const TUPLE_PROTOCOL: u16 = 2;
pub(super) const TUPLE_ZONE: u16 = 3;

pub(super) const PROTOCOL_NUMBER: u16 = 1;
pub(super) const SOURCE_PORT: u16 = 2;
pub(super) const DESTINATION_PORT: u16 = 3;

const FILTER_ORIGINAL: u16 = 1;
/// Which parts of the tuple the kernel compares.
const COMPARE_DESTINATION: u32 = 1 << 1;
const COMPARE_PROTOCOL: u32 = 1 << 3;
const COMPARE_DESTINATION_PORT: u32 = 1 << 5;

/// The fixed part: family, version, and a field that is not used here.
pub(super) const FIXED: usize = 4;

/// Writes the fixed part, which stands before the attributes.
pub(super) fn fixed(message: &mut MessageWriter, family: Family) {
    let number = match family {
        Family::V4 => 2,
        Family::V6 => 10,
    };
    message.raw(&[number, 0, 0, 0]);
}

/// Writes a filter that the kernel applies by itself. The number of the parts is in the machine's byte order.
///
/// Of IPv6 flows the address is not among the parts: kernels compare it the wrong way round, from 5.8 on and in 6.18 still,
/// and send all flows but those to it. Protocol and port spare nearly as much.
pub(super) fn filter(message: &mut MessageWriter, filter: &Filter) {
    let (ip, port, parts) = match filter {
        Filter::Protocol(..) => (None, None, COMPARE_PROTOCOL),
        Filter::Destination(_, (IpAddr::V6(_), port)) => {
            (None, Some(port), COMPARE_PROTOCOL | COMPARE_DESTINATION_PORT)
        }
        Filter::Destination(_, (ip, port)) => {
            (Some(ip), Some(port), COMPARE_PROTOCOL | COMPARE_DESTINATION_PORT | COMPARE_DESTINATION)
        }
    };
    message.nested(TUPLE_ORIGINAL, |m| {
        if let Some(ip) = ip {
            m.nested(TUPLE_IP, |m| address(m, ip_kinds(*ip).1, *ip));
        }
        m.nested(TUPLE_PROTOCOL, |m| {
            m.attribute(PROTOCOL_NUMBER, &[filter.protocol().0]);
            if let Some(port) = port {
                m.attribute(DESTINATION_PORT, &port.to_be_bytes());
            }
        });
    });
    message.nested(FILTER, |m| m.attribute(FILTER_ORIGINAL, &parts.to_ne_bytes()));
}

/// Writes what names an entry so that no other is meant.
pub(super) fn name(message: &mut MessageWriter, entry: &Entry) {
    fixed(message, Family::of(entry.original.destination.0));
    let own_zone = entry.zone.is_of_original.then_some(entry.zone.id);
    tuple(message, TUPLE_ORIGINAL, entry.protocol, &entry.original, own_zone);
    if own_zone.is_none() {
        message.attribute(ZONE, &entry.zone.id.to_be_bytes());
    }
    if let Some(id) = entry.id {
        message.u32_be(ID, id);
    }
}

/// Writes an entry that is to be made.
pub(super) fn new(message: &mut MessageWriter, entry: &Entry, timeout_seconds: u32) {
    name(message, &Entry { id: None, ..*entry });
    tuple(message, TUPLE_REPLY, entry.protocol, &entry.reply, None);
    message.u32_be(TIMEOUT, timeout_seconds);
}

pub(super) fn tuple(
    message: &mut MessageWriter,
    kind: u16,
    protocol: IpProtocol,
    tuple: &Tuple,
    zone: Option<u16>,
) {
    let (source, destination) = (tuple.source, tuple.destination);
    message.nested(kind, |m| {
        m.nested(TUPLE_IP, |m| {
            address(m, ip_kinds(source.0).0, source.0);
            address(m, ip_kinds(destination.0).1, destination.0);
        });
        m.nested(TUPLE_PROTOCOL, |m| {
            m.attribute(PROTOCOL_NUMBER, &[protocol.0]);
            m.attribute(SOURCE_PORT, &source.1.to_be_bytes());
            m.attribute(DESTINATION_PORT, &destination.1.to_be_bytes());
        });
        if let Some(zone) = zone {
            m.attribute(TUPLE_ZONE, &zone.to_be_bytes());
        }
    });
}

fn address(message: &mut MessageWriter, kind: u16, ip: IpAddr) {
    match ip {
        IpAddr::V4(ip) => message.attribute(kind, &ip.octets()),
        IpAddr::V6(ip) => message.attribute(kind, &ip.octets()),
    }
}

/// The attributes of source and destination.
const fn ip_kinds(ip: IpAddr) -> (u16, u16) {
    match ip {
        IpAddr::V4(_) => (1, 2),
        IpAddr::V6(_) => (3, 4),
    }
}
