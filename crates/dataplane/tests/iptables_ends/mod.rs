//! Where packets end in the twin of an iptables program, and where the model says that they must.

#![allow(dead_code, reason = "each test uses its part")]

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use dataplane::iptables::Options;
use dataplane::iptables::sim::Iptables;
use kernel::nft;
use kernel::xtables::{Family, FoundRule, FoundTable, Table, Xtables};
use kernel_sim::nft::{Path, SimPacket};
use kernel_sim::xtables::{Faulty, Simulated};
use model::fate::Payload;
use model::table::NodeView;
use model::{Fate, ForwardingTable, Packet, Protocol};

use crate::world::World;

/// Where a packet ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    Untouched,
    Rejected,
    Dropped,
    At { to: (IpAddr, u16), masqueraded: bool },
}

/// Each end with its share, in millionths.
type Ends = BTreeMap<End, u64>;

/// Packets that are sent again and again.
pub(crate) struct Probes(Vec<Probe>);

struct Probe {
    packet: Packet,
    sent: SimPacket,
    /// Where it may end.
    allowed: [Ends; 2],
}

/// All packets ended as they may.
pub(crate) struct Kept {
    /// So many were refused in another way than the table that does not serve them says.
    pub(crate) early: usize,
}

impl Probes {
    /// Packets for both tables.
    pub(crate) fn draw(world: &mut World, count: usize, before: &ForwardingTable) -> Self {
        let draw = |_| {
            let packet = world.packet();
            let sent = sim_packet(&packet, world.table.node());
            let allowed = [before, &world.table].map(|table| by_model(table, &packet));
            Probe { packet, sent, allowed }
        };
        Self((0..count).map(draw).collect())
    }

    /// Every packet must end as one of the two tables says.
    pub(crate) fn check(&self, twin: &Simulated) -> Result<Kept, String> {
        let mut early = 0;
        let is_v4 = twin.family() == Family::V4;
        for Probe { packet, sent, allowed } in &self.0 {
            if packet.destination.is_ipv4() != is_v4 {
                continue;
            }
            let found = in_twin(twin, sent);
            if allowed.contains(&found) {
                continue;
            }
            let is_unserved = |ends: &Ends| !ends.keys().any(|end| matches!(end, End::At { .. }));
            let is_refused = is_unserved(&found) && !found.contains_key(&End::Untouched);
            if !(is_refused && allowed.iter().any(is_unserved)) {
                return Err(format!("{packet:?} ends at {found:?}, which is none of {allowed:?}"));
            }
            early += 1;
        }
        Ok(Kept { early })
    }
}

fn in_twin(twin: &Simulated, sent: &SimPacket) -> Ends {
    let mut ends: BTreeMap<End, f64> = BTreeMap::new();
    for way in twin.ways(sent, Duration::from_secs(1_000)) {
        let end = match way.outcome.fate {
            kernel_sim::nft::Fate::Untouched => End::Untouched,
            kernel_sim::nft::Fate::Dropped => End::Dropped,
            kernel_sim::nft::Fate::Rejected(_) => End::Rejected,
            kernel_sim::nft::Fate::Dnat(address, port) => {
                End::At { to: (address, port.unwrap_or_default()), masqueraded: way.outcome.masqueraded }
            }
        };
        #[expect(clippy::cast_precision_loss, reason = "shares are small numbers")]
        let share = way.share.0 as f64 / way.share.1 as f64;
        *ends.entry(end).or_default() += share;
    }
    ends.into_iter().map(|(end, share)| (end, millionths(share))).collect()
}

fn by_model(table: &ForwardingTable, packet: &Packet) -> Ends {
    let one = |end| Ends::from([(end, 1_000_000)]);
    match table.fate(packet, &Options::default().promises()).fate {
        Fate::Untouched => one(End::Untouched),
        Fate::Rejected => one(End::Rejected),
        Fate::Dropped => one(End::Dropped),
        Fate::OneOf(one_of) => {
            let end = |landing: &model::Landing| {
                let end = End::At { to: (landing.address, landing.port), masqueraded: landing.masqueraded };
                (end, millionths(f64::from(landing.slots) / f64::from(one_of.slots)))
            };
            one_of.landings.iter().map(end).collect()
        }
    }
}

fn millionths(share: f64) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share is small and positive"
    )]
    let rounded = (share * 1e6).round() as u64;
    rounded
}

fn sim_packet(packet: &Packet, node: &NodeView) -> SimPacket {
    let (protocol, port) = match packet.payload {
        Payload::Ping => (nft::Protocol::ICMP, None),
        Payload::Transport { protocol, port } => (number(protocol), Some(port)),
    };
    let interface = packet.interface.clone().unwrap_or_else(|| "uplink0".to_owned());
    SimPacket {
        family: if packet.destination.is_ipv4() { nft::Family::V4 } else { nft::Family::V6 },
        path: if node.is_own(packet.source) { Path::Output } else { Path::Arrives(interface) },
        source: packet.source,
        destination: packet.destination,
        protocol,
        port,
        mark: 0x2_0001,
        priority: 0,
        local: node.addresses.clone(),
    }
}

fn number(protocol: Protocol) -> nft::Protocol {
    match protocol {
        Protocol::Tcp => nft::Protocol::TCP,
        Protocol::Udp => nft::Protocol::UDP,
        Protocol::Sctp => nft::Protocol::SCTP,
    }
}

/// Chains, with their rules.
pub(crate) type Listed = BTreeMap<(Family, Table, String), Vec<String>>;

/// All chains with their rules; where no order matters, in one order.
pub(crate) fn listed(mode: &mut Iptables<Faulty<Simulated>>) -> Listed {
    let mut all = BTreeMap::new();
    for door in mode.doors() {
        let twin = door.below();
        for table in [Table::Filter, Table::Nat, Table::Mangle] {
            let Some(text) = twin.save(table).unwrap() else { continue };
            for chain in FoundTable::parse(&text).chains {
                let text = |rule: &FoundRule| {
                    rule.known().map_or_else(|| rule.to_string(), |rule| rule.canonical().to_string())
                };
                let mut rules: Vec<String> = chain.rules.iter().map(text).collect();
                if SHARED.contains(&chain.name.as_str()) {
                    let tail = usize::from(rules.last().is_some_and(|rule| rule.ends_with("KUBE-NODEPORTS")));
                    let body = rules.len() - tail;
                    rules[..body].sort();
                }
                all.insert((twin.family(), table, chain.name), rules);
            }
        }
    }
    all
}

const SHARED: [&str; 4] =
    ["KUBE-SERVICES", "KUBE-NODEPORTS", "KUBE-EXTERNAL-SERVICES", "KUBE-PROXY-FIREWALL"];
