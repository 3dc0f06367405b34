//! The packets that are asked for after every fault, and where they end.
//!
//! Every frontend of the tables is dialled from two of these, in turn: a pod of this node, a pod that may be its endpoint,
//! this host, and somebody outside who may and who may not. So are undefined ports, cluster IPs that are nobody's and
//! pings. Clients of sticky Services that were here before the change are asked again.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use kernel_sim::nft::{SimPacket, Simulated};
use model::affinity::Memory;
use model::fate::Payload;
use model::table::NodeView;
use model::{Family, Fate, ForwardingTable, Frontend, Packet, Promises, Protocol};

use dataplane::nftables::sim as twin;
use dataplane::sim::{self, End, Ends};

/// All packets are sent at this moment: nobody is forgotten.
const NOW: u64 = 1_000;
const SOURCES: [&str; 5] = ["10.244.0.250", "10.244.0.1", "10.0.0.1", "203.0.113.7", "192.0.2.9"];
const SOURCES_6: [&str; 5] = ["fd00:244::250", "fd00:244:0::1", "fd00:1::1", "2001:db8::7", "2001:db9::9"];
/// Somebody who was here before.
const CLIENT: [&str; 2] = ["10.244.1.249", "fd00:244:1::249"];

/// Where packets ended, by their numbers.
pub(crate) type Found = Vec<(usize, Ends)>;

/// The packets.
#[derive(Debug)]
pub(crate) struct Probes {
    packets: Vec<Packet>,
    sent: Vec<SimPacket>,
    /// Whether the kernel may remember who sent it.
    is_sticky: Vec<bool>,
    memory: Memory,
}

impl Probes {
    /// For all frontends of these tables, on a host that has the addresses of this node.
    pub(crate) fn of(tables: &[&ForwardingTable], node: &NodeView) -> Self {
        let mut targets: BTreeSet<(IpAddr, Option<(Protocol, u16)>)> = BTreeSet::new();
        let mut own: BTreeSet<IpAddr> = BTreeSet::new();
        for table in tables {
            own.extend(&table.node().addresses);
        }
        let routes = tables.iter().flat_map(|table| table.ports()).flat_map(|port| port.routes.iter());
        for route in routes {
            match route.frontend {
                Frontend::Address { ip, protocol, port } => {
                    targets.insert((ip, Some((protocol, port))));
                    targets.insert((ip, Some((protocol, 9))));
                    targets.insert((ip, None));
                }
                Frontend::NodePort { family, protocol, port } => {
                    let here = own.iter().filter(|ip| Family::of(**ip) == family);
                    targets.extend(here.map(|ip| (*ip, Some((protocol, port)))));
                }
            }
        }
        targets.insert((ip("10.96.77.77"), Some((Protocol::Tcp, 80))));
        targets.insert((ip("fd00:96::7777"), Some((Protocol::Tcp, 80))));
        targets.insert((ip("8.8.8.8"), Some((Protocol::Udp, 53))));
        let packets: Vec<Packet> = targets.into_iter().enumerate().flat_map(packets).collect();
        let sent = packets.iter().map(|packet| sim::sim_packet(packet, node)).collect();
        let is_sticky =
            packets.iter().map(|packet| tables.iter().any(|table| is_sticky(table, packet))).collect();
        Self { packets, sent, is_sticky, memory: Memory::default() }
    }

    /// Any Service may become sticky.
    pub(crate) fn all_sticky(mut self) -> Self {
        self.is_sticky.fill(true);
        self
    }

    pub(crate) fn count(&self) -> usize {
        self.packets.len()
    }

    /// The client of old dials every sticky frontend, and is remembered, here and in the kernel.
    pub(crate) fn welcome(&mut self, table: &ForwardingTable, kernel: &mut Simulated) -> usize {
        let mut welcomed = 0;
        for packet in &self.packets {
            let is_client = CLIENT.iter().any(|client| ip(client) == packet.source);
            let Fate::OneOf(one_of) = table.fate(packet, &Promises::default().of_rules()).fate else {
                continue;
            };
            if !is_client || one_of.affinity_seconds.is_none() {
                continue;
            }
            let sent = sim::sim_packet(packet, table.node());
            let ways = twin::ways(kernel, &sent, Duration::from_secs(NOW)).expect("it ends somewhere");
            let way = &ways[welcomed % ways.len()];
            let End::At { endpoint, .. } = way.end else { panic!("it lands nowhere: {packet:?}") };
            let landed = one_of.landings.iter().find(|landing| (landing.address, landing.port) == endpoint);
            self.memory.remember(NOW, packet.source, &one_of, landed.expect("the model knows it"));
            *kernel = way.kernel.clone();
            welcomed += 1;
        }
        welcomed
    }

    /// What is remembered of clients by now.
    pub(crate) fn welcomed(self) -> Memory {
        self.memory
    }

    /// The same packets, of clients of whom this is remembered.
    pub(crate) fn with(self, memory: Memory) -> Self {
        Self { memory, ..self }
    }

    /// Where each packet ends by the model.
    pub(crate) fn by_model(&self, table: &ForwardingTable) -> Vec<Ends> {
        let asked = self.packets.iter().zip(&self.sent);
        asked.map(|(packet, sent)| expected(table, packet, sent, &self.memory)).collect()
    }

    /// Where each packet of a family ends in this kernel, which stays as it is.
    pub(crate) fn by_twin(&self, kernel: &Simulated, family: kernel::nft::Family) -> Result<Found, String> {
        let now = Duration::from_secs(NOW);
        let (mut found, mut shared) = (Vec::new(), kernel.clone());
        for (n, sent) in self.sent.iter().enumerate().filter(|(_, sent)| sent.family == family) {
            let ends = if self.is_sticky[n] {
                let ways = twin::ways(kernel, sent, now)?;
                Ends::of(ways.iter().map(|way| (way.end, (1, way.one_in.into()))))?
            } else {
                twin::ends(&mut shared, sent, now)?
            };
            found.push((n, ends));
        }
        Ok(found)
    }

    /// The same for all packets.
    pub(crate) fn all_by_twin(&self, kernel: &Simulated) -> Result<Vec<Ends>, String> {
        let mut all = Vec::new();
        for family in kernel::nft::Family::ALL {
            all.extend(self.by_twin(kernel, family)?);
        }
        all.sort_by_key(|(n, _)| *n);
        Ok(all.into_iter().map(|(_, ends)| ends).collect())
    }

    /// Every packet must end as one of these say; else which does not, and how.
    pub(crate) fn third(&self, found: &Found, allowed: &[&[Ends]]) -> Result<(), String> {
        for (n, found) in found {
            if !allowed.iter().any(|ends| ends[*n] == *found) {
                let allowed: Vec<_> = allowed.iter().map(|ends| &ends[*n]).collect();
                let packet = &self.packets[*n];
                return Err(format!("{packet:?} ends at {found:?}, which is none of {allowed:?}"));
            }
        }
        Ok(())
    }
}

fn is_sticky(table: &ForwardingTable, packet: &Packet) -> bool {
    let fate = table.fate(packet, &Promises::default().of_rules()).fate;
    matches!(fate, Fate::OneOf(one_of) if one_of.affinity_seconds.is_some())
}

/// Each target is dialled by two of the five, in turn, and by the client.
fn packets((turn, target): (usize, (IpAddr, Option<(Protocol, u16)>))) -> Vec<Packet> {
    let (destination, transport) = target;
    let payload = transport.map_or(Payload::Ping, |(protocol, port)| Payload::Transport { protocol, port });
    let is_v4 = destination.is_ipv4();
    let (sources, client) = if is_v4 { (SOURCES, CLIENT[0]) } else { (SOURCES_6, CLIENT[1]) };
    // Who finds no port is refused, whoever he is.
    let is_dull = transport.is_none_or(|(_, port)| port == 9);
    let sources =
        if is_dull { vec![sources[3]] } else { vec![sources[turn % 5], sources[(turn + 2) % 5], client] };
    let packet = |source: &str| Packet { source: ip(source), destination, payload, interface: None };
    sources.into_iter().map(packet).collect()
}

fn ip(text: &str) -> IpAddr {
    text.parse().expect("it is written so")
}

fn expected(table: &ForwardingTable, packet: &Packet, sent: &SimPacket, memory: &Memory) -> Ends {
    let fate = table.fate(packet, &Promises::default().of_rules()).fate;
    let Fate::OneOf(one_of) = fate else { return Ends::of_fate(&fate) };
    let mut landings = memory.narrow(NOW, packet.source, &one_of);
    for landing in &mut landings {
        landing.masqueraded &= !sim::is_delivered_here(sent, landing.address);
    }
    Ends::of_landings(&landings)
}
