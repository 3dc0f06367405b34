//! What the fuzz test needs to see of this folder: bytes of entries, and their decoder.

use super::read::{self, Read};
use super::{Entry, Family, Filter, Tuple, Zone, wire};
use crate::IpProtocol;
use crate::netlink::{Header, MessageWriter};

/// An entry of each family, as the kernel sends it.
pub(crate) fn messages() -> Vec<Vec<u8>> {
    let tuple = |ip: &str| {
        let ip = ip.parse().expect("an address");
        Tuple { source: (ip, 1000), destination: (ip, 53) }
    };
    let seeds = [(IpProtocol::UDP, "10.96.0.10", false), (IpProtocol::SCTP, "fd00::10", true)];
    let write = |(protocol, ip, is_of_original)| {
        let (original, zone) = (tuple(ip), Zone { id: 7, is_of_original });
        let mut writer = MessageWriter::default();
        let entry = Entry { protocol, original, reply: original.reversed(), zone, id: Some(9) };
        writer.message(Header { kind: wire::kind::NEW, flags: 0, sequence: 1, port: 0 }, |m| {
            wire::name(m, &entry);
            wire::tuple(m, wire::TUPLE_REPLY, protocol, &entry.reply, None);
        });
        writer.bytes().to_vec()
    };
    seeds.into_iter().map(write).collect()
}

/// Reads a message as an entry; whether it is one.
pub(crate) fn decodes(header: Header, body: &[u8]) -> bool {
    let filters =
        [Filter::Protocol(Family::V4, IpProtocol::UDP), Filter::Protocol(Family::V6, IpProtocol::SCTP)];
    filters.iter().any(|filter| matches!(read::entry(body, filter), Ok(Read::Wanted(_))))
        && header.kind == wire::kind::NEW
}
