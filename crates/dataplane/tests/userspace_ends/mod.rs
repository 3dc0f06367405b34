//! Where packets end in userspace mode: through the twin of an iptables program to a port, and from there, by the relay's twin, to
//! an endpoint of the listener's pool.

#![allow(dead_code, reason = "each test uses its part")]

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use dataplane::relay;
use dataplane::userspace::Options;
use kernel_sim::nft::{Fate as Seen, Path, SimPacket};
use kernel_sim::xtables::Simulated;
use model::fate::Payload;
use model::table::NodeView;
use model::{ForwardingTable, Packet, Protocol};

use crate::twin::{End, ends_of, lowest, sim_packet};

/// Each end with its share.
pub(crate) type Ends = BTreeMap<End, (u32, u32)>;

/// Addresses of the interface by which packets come in: the kernel redirects to one, so there must be one.
const OF_THE_INTERFACE: [&str; 2] = ["192.0.2.254", "2001:db8:ffff::254"];

pub(crate) fn packet_of(packet: &Packet, node: &NodeView) -> SimPacket {
    let mut sent = sim_packet(packet, node);
    sent.local.extend(OF_THE_INTERFACE.map(|text| text.parse::<IpAddr>().unwrap()));
    sent
}

/// Where the twins send a packet. An error says that rules lead to where nobody listens.
pub(crate) fn got(
    tables: &Simulated,
    relay: &relay::Simulated,
    node: &NodeView,
    packet: &Packet,
) -> Result<Ends, String> {
    let sent = packet_of(packet, node);
    let mut ways = tables.ways(&sent, Duration::ZERO);
    let way = ways.pop().ok_or("no way")?;
    if !ways.is_empty() {
        return Err("these rules leave nothing to chance".into());
    }
    if way.outcome.masqueraded || way.outcome.mark != sent.mark {
        return Err(format!("the packet was changed: {:?}", way.outcome));
    }
    match way.outcome.fate {
        Seen::Untouched => Ok(Ends::from([(End::Untouched, (1, 1))])),
        Seen::Rejected(_) => Ok(Ends::from([(End::Rejected, (1, 1))])),
        Seen::Dropped => Ok(Ends::from([(End::Dropped, (1, 1))])),
        Seen::Dnat(address, port) => {
            let at = SocketAddr::new(address, port.ok_or("it lost its port")?);
            let is_loopback = address.is_loopback() && sent.path == Path::Output;
            if !is_loopback && !sent.local.contains(&address) {
                return Err(format!("{at} is not of this host"));
            }
            relayed(relay, packet, at)
        }
    }
}

fn relayed(relay: &relay::Simulated, packet: &Packet, at: SocketAddr) -> Result<Ends, String> {
    let Payload::Transport { protocol, .. } = packet.payload else { return Err("a ping was led".into()) };
    let (_, listener) = relay.listening_at(protocol, at).ok_or(format!("nobody listens at {at}"))?;
    let end = |endpoint: &model::Endpoint| {
        let end = End::At { endpoint: (endpoint.address, endpoint.port), masqueraded: true };
        (end, lowest(u32::from(endpoint.slots), listener.pool.slots()))
    };
    Ok(listener.pool.endpoints().iter().map(end).collect())
}

/// Where the model says that it ends.
pub(crate) fn expected(table: &ForwardingTable, packet: &Packet) -> Ends {
    ends_of(&table.fate(packet, &Options::default().promises()).fate)
}

/// A packet that dials a port of ours directly.
pub(crate) fn direct(protocol: Protocol, at: SocketAddr, source: IpAddr) -> Packet {
    let payload = Payload::Transport { protocol, port: at.port() };
    Packet { source, destination: at.ip(), payload, interface: Some("eth0".into()) }
}
