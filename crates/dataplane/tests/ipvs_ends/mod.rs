//! IPVS mode on the twins of iptables, virtual servers, sets and addresses, which share one simulated kernel; and where packets end
//! there.

#![allow(dead_code, reason = "each test uses its part")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use dataplane::ipvs::{Doors, Ipvs, Kernel, Options};
use kernel::host::Host as _;
use kernel::ipset;
use kernel::xtables::{Family, Table, Variant, Xtables as _};
use kernel_sim::nft::{Fate as Seen, SimPacket};
use kernel_sim::xtables::Simulated;
use kernel_sim::{host, ipvs, sysctl};
use model::table::Masquerade;
use model::{Fate, ForwardingTable, Frontend, Packet};

use super::twin::{End, ends_of, is_delivered_here, lowest, sim_packet};

/// The doors beside iptables.
pub(crate) type Twin =
    Kernel<ipvs::Simulated, kernel_sim::ipset::Simulated, host::Simulated, sysctl::Simulated>;
/// The mode on twins.
pub(crate) type Mode = Ipvs<Simulated, Twin>;
/// Each end with its share.
pub(crate) type Ends = BTreeMap<End, (u32, u32)>;

/// Seconds, moved by a test.
#[derive(Clone, Debug, Default)]
pub(crate) struct Clock(Arc<AtomicU64>);

impl Clock {
    pub(crate) fn pass(&self, seconds: u64) {
        self.0.fetch_add(seconds, Ordering::Relaxed);
    }

    pub(crate) fn now(&self) -> Duration {
        Duration::from_secs(self.0.load(Ordering::Relaxed))
    }
}

/// A kernel without anything.
pub(crate) fn kernel() -> Twin {
    Kernel {
        servers: ipvs::Simulated::default(),
        sets: kernel_sim::ipset::Simulated::default(),
        host: host::Simulated::default(),
        settings: sysctl::Simulated::default(),
    }
}

/// The programs of both families, whose packets meet these sets and virtual servers.
pub(crate) fn programs(twin: &Twin, variant: Variant) -> [Simulated; 2] {
    Family::ALL.map(|family| {
        let mut program = Simulated::new(variant, family);
        program.sets = twin.sets.clone();
        program.ipvs = Some(twin.servers.clone());
        program
    })
}

/// The mode, on an empty kernel.
pub(crate) fn mode(variant: Variant) -> Mode {
    let twin = kernel();
    Ipvs::new(programs(&twin, variant), twin, Options::default(), || Duration::ZERO)
}

/// Where the twins send a packet, on their way to one of these tables, all of the same node.
pub(crate) fn got(
    program: &Simulated,
    host: &host::Simulated,
    tables: &[&ForwardingTable],
    packet: &Packet,
) -> Result<Ends, String> {
    let sent = packet_of(packet, host, tables[0]);
    let may_lose_mark = tables.iter().any(|table| is_marked(table, packet));
    let mut ends = Ends::new();
    for way in program.ways(&sent, Duration::ZERO) {
        let end = end_of(&sent, &way.outcome, may_lose_mark)?;
        let share = (
            u32::try_from(way.share.0).map_err(|e| e.to_string())?,
            u32::try_from(way.share.1).map_err(|e| e.to_string())?,
        );
        let sum = ends.entry(end).or_insert((0, 1));
        *sum = lowest(sum.0 * share.1 + share.0 * sum.1, sum.1 * share.1);
    }
    Ok(ends)
}

/// The packet as it reaches this host, which has the addresses of its interface too.
pub(crate) fn packet_of(packet: &Packet, host: &host::Simulated, table: &ForwardingTable) -> SimPacket {
    let mut sent = sim_packet(packet, table.node());
    let addresses = host.clone().addresses().expect("a twin can be read");
    sent.local.extend(addresses.into_iter().map(|address| address.ip));
    sent
}

fn end_of(packet: &SimPacket, seen: &kernel_sim::nft::Outcome, may_lose_mark: bool) -> Result<End, String> {
    let end = match seen.fate {
        Seen::Untouched => End::Untouched,
        Seen::Rejected(_) => return Ok(End::Rejected),
        Seen::Dropped => return Ok(End::Dropped),
        Seen::Dnat(address, port) => {
            let endpoint = (address, port.ok_or("the packet lost its port")?);
            // What is delivered to this host itself passes no POSTROUTING, where marks would be taken off.
            if is_delivered_here(packet, address) {
                return Ok(End::At { endpoint, masqueraded: false });
            }
            End::At { endpoint, masqueraded: seen.masqueraded }
        }
    };
    let is_kept = seen.mark == packet.mark || may_lose_mark && seen.mark == 0;
    if !is_kept || (end == End::Untouched && seen.masqueraded) {
        return Err(format!("the packet left otherwise than it came: {packet:?} {seen:?}"));
    }
    Ok(end)
}

/// A virtual server by mark compares the whole mark, so such a packet can carry no other.
fn is_marked(table: &ForwardingTable, packet: &Packet) -> bool {
    let Some((protocol, port)) = packet.payload.transport() else { return false };
    let (ip, family) = (packet.destination, model::Family::of(packet.destination));
    let frontends = [Frontend::Address { ip, protocol, port }, Frontend::NodePort { family, protocol, port }];
    let routes = frontends.iter().filter_map(|frontend| table.route(frontend));
    routes.into_iter().any(|(_, route)| route.masquerade == Masquerade::ThisHost)
}

/// Where the model says that it ends.
pub(crate) fn expected(table: &ForwardingTable, packet: &Packet) -> Ends {
    ends_of(&table.fate(packet, &Options::default().promises()).fate)
}

/// May the packet land at an address that this host has for a Service? It would stay here: the README names this limit.
pub(crate) fn is_beyond(table: &ForwardingTable, packet: &Packet) -> bool {
    let Fate::OneOf(one_of) = table.fate(packet, &Options::default().promises()).fate else { return false };
    one_of
        .landings
        .iter()
        .any(|landing| table.is_dialled(landing.address) && !table.node().is_own(landing.address))
}

/// Where a packet ends in a mode on twins.
pub(crate) fn of_packet(mode: &mut Mode, table: &ForwardingTable, packet: &Packet) -> Result<Ends, String> {
    let host = mode.doors().host.clone();
    let program =
        mode.programs().nth(usize::from(packet.destination.is_ipv6())).expect("one for each family");
    got(program, &host, &[table], packet)
}

/// All that the kernel holds beside rules, as words.
pub(crate) fn shown(doors: &mut dyn Doors) -> Vec<String> {
    let mut lines = Vec::new();
    for set in doors.sets().sets().expect("sets can be read") {
        let name = ipset::SetName::new(&set.name).expect("it has a name");
        let entries = doors.sets().entries(&name).expect("sets can be read").unwrap_or_default();
        lines.extend(entries.iter().map(|entry| format!("{name} {entry}")));
    }
    for server in doors.servers().virtual_servers().expect("servers can be read") {
        lines.push(format!("{server:?}"));
        for real in doors.servers().real_servers(&server.what).expect("servers can be read") {
            lines.push(format!("  {} {}", real.server.address, real.server.weight));
        }
    }
    let addresses = doors.host().addresses().expect("addresses can be read");
    let single = addresses
        .iter()
        .filter(|address| address.prefix_length == if address.ip.is_ipv4() { 32 } else { 128 });
    lines.extend(single.map(|address| format!("{} {}", address.link_name, address.ip)));
    lines
}

/// The same with rules, but without the numbers of marks: another life may have given others.
pub(crate) fn all_but_marks(twin: &mut Twin, programs: &mut [Simulated]) -> BTreeSet<String> {
    let mut lines = shown(twin);
    for program in programs {
        let family = program.family();
        for table in [Table::Mangle, Table::Filter, Table::Nat] {
            let saved = program.save(table).expect("a twin can be read").unwrap_or_default();
            lines.extend(saved.lines().map(|line| format!("{family} {table} {line}")));
        }
    }
    let is_number = |line: &&String| line.contains("-MARKS ");
    lines.iter().filter(|line| !is_number(line)).map(|line| without_mark(line)).collect()
}

/// All that a mode on twins holds.
pub(crate) fn canonical(mode: &mut Mode) -> BTreeSet<String> {
    let mut programs: Vec<Simulated> = mode.programs().map(|program| program.clone()).collect();
    all_but_marks(mode.doors(), &mut programs)
}

fn without_mark(line: &str) -> String {
    let cut =
        ["what: Mark(", "--set-xmark 0x1"].iter().find_map(|start| Some(line.find(start)? + start.len()));
    cut.map_or(line, |at| &line[..at]).to_owned()
}

/// A protocol's number in packets.
pub(crate) fn number(protocol: model::Protocol) -> u8 {
    match protocol {
        model::Protocol::Tcp => 6,
        model::Protocol::Udp => 17,
        model::Protocol::Sctp => 132,
    }
}
