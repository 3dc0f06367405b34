//! What the fuzz test needs to see of this folder: bytes of listings, and their decoder.

use super::{Entry, Family, Kind, Set, SetName, read, wire};
use crate::IpProtocol;
use crate::netlink::{Header, MessageWriter};

/// One piece of a listing: a set and its entries, as the kernel sends it.
pub(super) fn piece(set: &Set, entries: &[Entry]) -> Vec<u8> {
    let mut writer = MessageWriter::default();
    writer.message(Header { kind: wire::kind::LIST, flags: 0, sequence: 1, port: 0 }, |m| {
        wire::fixed(m);
        m.text(wire::NAME, set.name.as_str());
        m.text(wire::TYPE, set.kind.name());
        m.attribute(wire::FAMILY, &[wire::number(set.kind.family())]);
        m.nested(wire::DATA, |m| {
            wire::properties(m, set);
            m.u32_be(wire::data::REFERENCES, 3);
        });
        m.nested(wire::ENTRIES, |m| {
            for entry in entries {
                m.nested(wire::DATA, |m| wire::entry(m, entry));
            }
        });
    });
    writer.bytes().to_vec()
}

/// An entry of each kind.
pub(super) fn entries() -> [Entry; 6] {
    let ip = |text: &str| text.parse().expect("an address");
    let (v4, v6, tcp) = (ip("10.96.0.1"), ip("fd00:96::1"), IpProtocol::TCP);
    [
        Entry::Ip(v4),
        Entry::Ip(v6),
        Entry::IpPort(v4, tcp, 80),
        Entry::IpPortIp(v6, IpProtocol::UDP, 53, v6),
        Entry::IpPortNet(v4, IpProtocol::SCTP, 80, "10.0.0.0/8".parse().expect("a network")),
        Entry::Port(30_080),
    ]
}

/// The set that an entry fits into.
pub(super) fn set_of(entry: &Entry) -> Set {
    Set::new(SetName::new("KUBE-SET").expect("a name"), entry.kind().expect("of one family"))
}

/// A set of each kind with an entry.
pub(crate) fn messages() -> Vec<Vec<u8>> {
    entries().iter().map(|entry| piece(&set_of(entry), &[*entry])).collect()
}

/// Reads a message as a piece of a listing, the first or a later one; whether it has an entry.
pub(crate) fn decodes(header: Header, body: &[u8]) -> bool {
    let kinds = [None, Some(Kind::IpPortNet(Family::V4)), Some(Kind::Port)];
    let read = kinds.map(|kind| read::piece(body, kind));
    header.kind == wire::kind::LIST && read.iter().flatten().any(|piece| !piece.entries.is_empty())
}
