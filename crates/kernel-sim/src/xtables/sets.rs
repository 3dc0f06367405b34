//! What a packet asks a set: its own addresses and ports, in the order of the rule's ends.
//!
//! Absent on purpose: source ports, which a simulated packet does not have. A set that is asked for one has nothing.

use std::net::IpAddr;

use ipnet::IpNet;

use kernel::IpProtocol;
use kernel::ipset::{Entry, Kind, SetName};
use kernel::xtables::Side;

use crate::ipset::Simulated;
use crate::nft::SimPacket;

/// Whether the set has what these ends of the packet say. A set that is asked for less than its entries are has nothing.
pub(super) fn has(sets: &Simulated, name: &SetName, sides: &[Side], packet: &SimPacket) -> bool {
    let ip = |at: usize| sides.get(at).map(|side| address(*side, packet));
    let port = |at: usize| match sides.get(at) {
        Some(Side::Destination) => packet.port,
        _ => None,
    };
    let protocol = packet.protocol;
    let asked = |kind| match kind {
        Kind::Ip(_) => Some(vec![Entry::Ip(ip(0)?)]),
        Kind::IpPort(_) => Some(vec![Entry::IpPort(ip(0)?, protocol, port(1)?)]),
        Kind::IpPortIp(_) => Some(vec![Entry::IpPortIp(ip(0)?, protocol, port(1)?, ip(2)?)]),
        Kind::IpPortNet(_) => {
            let (first, port) = (ip(0)?, port(1)?);
            let nets = networks(ip(2)?);
            Some(nets.map(|net| Entry::IpPortNet(first, protocol, port, net)).collect())
        }
        // The kernel looks for no other protocol's ports here.
        Kind::Port if [IpProtocol::TCP, IpProtocol::UDP].contains(&protocol) => {
            Some(vec![Entry::Port(port(0)?)])
        }
        Kind::Port => None,
    };
    let entries = sets.kind(name).and_then(asked);
    entries.is_some_and(|entries| sets.has_any(name, entries))
}

fn address(side: Side, packet: &SimPacket) -> IpAddr {
    match side {
        Side::Source => packet.source,
        Side::Destination => packet.destination,
    }
}

/// All networks that an address is in, the smallest first.
fn networks(ip: IpAddr) -> impl Iterator<Item = IpNet> {
    let whole = IpNet::from(ip);
    (1..=whole.max_prefix_len())
        .rev()
        .filter_map(move |bits| IpNet::new(ip, bits).ok().map(|net| net.trunc()))
}
