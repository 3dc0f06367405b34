//! Sets and entries as netlink bytes: numbers and writing. Reading is in `read.rs`.
//!
//! Numbers longer than a byte are in the network's byte order, and each says so by a bit of its kind: the kernel refuses those
//! that do not.

use std::net::IpAddr;

use super::{Entry, Family, Kind, Request, Set, SetName};
use crate::netlink::{MessageWriter, flags};

/// The messages of sets: their number among netfilter's subsystems, then that of the message.
pub(super) mod kind {
    const SETS: u16 = 6 << 8;
    pub(crate) const PROTOCOL: u16 = SETS + 1;
    pub(crate) const CREATE: u16 = SETS + 2;
    pub(crate) const DESTROY: u16 = SETS + 3;
    pub(crate) const FLUSH: u16 = SETS + 4;
    pub(crate) const SWAP: u16 = SETS + 6;
    pub(crate) const LIST: u16 = SETS + 7;
    pub(crate) const ADD: u16 = SETS + 9;
    pub(crate) const DELETE: u16 = SETS + 10;
    pub(crate) const TEST: u16 = SETS + 11;
}

/// Spoken by every kernel since 2.6.39; later ones know a newer form too.
const PROTOCOL_VERSION: u8 = 6;
/// The fixed part: family, version, and a field that is not used here.
pub(super) const FIXED: usize = 4;
const BIG_ENDIAN: u16 = 0x4000;

const PROTOCOL: u16 = 1;
pub(super) const NAME: u16 = 2;
pub(super) const TYPE: u16 = 3;
const OTHER_NAME: u16 = 3;
const REVISION: u16 = 4;
pub(super) const FAMILY: u16 = 5;
const FLAGS: u16 = 6;
pub(super) const DATA: u16 = 7;
pub(super) const ENTRIES: u16 = 8;

/// Inside [`DATA`], of a set or of an entry.
pub(super) mod data {
    pub(crate) const IP: u16 = 1;
    pub(crate) const PORT: u16 = 4;
    pub(crate) const PORT_TO: u16 = 5;
    pub(crate) const PROTOCOL: u16 = 7;
    pub(crate) const FLAGS: u16 = 8;
    // Of a set alone.
    pub(crate) const HASH_SIZE: u16 = 18;
    pub(crate) const ENTRIES_MAX: u16 = 19;
    pub(crate) const REFERENCES: u16 = 25;
    // Of an entry alone.
    pub(crate) const IP2: u16 = 20;
    pub(crate) const PREFIX2: u16 = 21;
}

/// Inside an address.
pub(super) const IPV4: u16 = 1;
pub(super) const IPV6: u16 = 2;
/// An entry with this flag says what is *not* in the set.
pub(super) const NO_MATCH: u32 = 1 << 2;
/// Sets without their entries.
const HEADERS_ALONE: u32 = 1 << 2;

/// The kernel's number for a family; zero is that of sets without addresses.
pub(super) const fn number(family: Option<Family>) -> u8 {
    match family {
        None => 0,
        Some(Family::V4) => 2,
        Some(Family::V6) => 10,
    }
}

/// Writes what stands before all else.
pub(super) fn fixed(message: &mut MessageWriter) {
    message.raw(&[2, 0, 0, 0]);
    message.attribute(PROTOCOL, &[PROTOCOL_VERSION]);
}

/// Asks for one set with its entries, or for all without.
pub(super) fn list(message: &mut MessageWriter, name: Option<&SetName>) {
    fixed(message);
    match name {
        Some(name) => message.text(NAME, name.as_str()),
        None => message.u32_be(FLAGS | BIG_ENDIAN, HEADERS_ALONE),
    }
}

/// The kind of the message for a change, and its flags. Without `EXCL` the kernel takes what is so already for done.
pub(super) fn head(request: &Request) -> (u16, u16) {
    match request {
        Request::Create(_) => (kind::CREATE, flags::CREATE),
        Request::Destroy(_) => (kind::DESTROY, 0),
        Request::Flush(_) => (kind::FLUSH, 0),
        Request::Swap(..) => (kind::SWAP, 0),
        Request::Add(..) => (kind::ADD, 0),
        Request::Delete(..) => (kind::DELETE, 0),
    }
}

/// Writes one change.
pub(super) fn request(message: &mut MessageWriter, request: &Request) {
    fixed(message);
    match request {
        Request::Create(set) => create(message, set),
        Request::Destroy(name) | Request::Flush(name) => message.text(NAME, name.as_str()),
        Request::Swap(one, other) => {
            message.text(NAME, one.as_str());
            message.text(OTHER_NAME, other.as_str());
        }
        Request::Add(name, entry) | Request::Delete(name, entry) => one(message, name, entry),
    }
}

/// Writes a set's name and one entry.
pub(super) fn one(message: &mut MessageWriter, name: &SetName, entry: &Entry) {
    message.text(NAME, name.as_str());
    message.nested(DATA, |m| self::entry(m, entry));
}

fn create(message: &mut MessageWriter, set: &Set) {
    message.text(NAME, set.name.as_str());
    message.text(TYPE, set.kind.name());
    message.attribute(REVISION, &[revision(set.kind)]);
    message.attribute(FAMILY, &[number(set.kind.family())]);
    message.nested(DATA, |m| properties(m, set));
}

/// Kinds were revised for options that are not used here, but for SCTP. Old revisions are known to every kernel, and to every
/// `ipset` program that somebody may list our sets with.
const fn revision(kind: Kind) -> u8 {
    match kind {
        Kind::Ip(_) | Kind::Port => 0,
        Kind::IpPort(_) | Kind::IpPortIp(_) | Kind::IpPortNet(_) => 1,
    }
}

/// The inside of [`DATA`] of a set.
pub(super) fn properties(message: &mut MessageWriter, set: &Set) {
    if set.kind == Kind::Port {
        port(message, data::PORT, 0);
        port(message, data::PORT_TO, u16::MAX);
    } else {
        message.u32_be(data::HASH_SIZE | BIG_ENDIAN, set.hash_size);
        message.u32_be(data::ENTRIES_MAX | BIG_ENDIAN, set.entries_max);
    }
}

/// The inside of [`DATA`] of an entry.
pub(super) fn entry(message: &mut MessageWriter, entry: &Entry) {
    let mut frontend = |ip: IpAddr, protocol: crate::IpProtocol, number: u16| {
        address(message, data::IP, ip);
        port(message, data::PORT, number);
        message.attribute(data::PROTOCOL, &[protocol.0]);
    };
    match *entry {
        Entry::Ip(ip) => address(message, data::IP, ip),
        Entry::IpPort(ip, protocol, number) => frontend(ip, protocol, number),
        Entry::IpPortIp(ip, protocol, number, other) => {
            frontend(ip, protocol, number);
            address(message, data::IP2, other);
        }
        Entry::IpPortNet(ip, protocol, number, net) => {
            frontend(ip, protocol, number);
            address(message, data::IP2, net.network());
            message.attribute(data::PREFIX2, &[net.prefix_len()]);
        }
        Entry::Port(number) => port(message, data::PORT, number),
    }
}

fn port(message: &mut MessageWriter, kind: u16, number: u16) {
    message.attribute(kind | BIG_ENDIAN, &number.to_be_bytes());
}

fn address(message: &mut MessageWriter, kind: u16, ip: IpAddr) {
    message.nested(kind, |m| match ip {
        IpAddr::V4(ip) => m.attribute(IPV4 | BIG_ENDIAN, &ip.octets()),
        IpAddr::V6(ip) => m.attribute(IPV6 | BIG_ENDIAN, &ip.octets()),
    });
}
