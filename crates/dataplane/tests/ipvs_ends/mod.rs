//! IPVS mode on the twins of iptables, virtual servers, sets and addresses, which share one simulated kernel; and where packets end
//! there.

#![allow(dead_code, reason = "each test uses its part")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use dataplane::ipvs::{Doors, Ipvs, Kernel, Options};
use dataplane::sim::{End, Ends, Share, end_of, frontends, sim_packet};
use kernel::host::Host as _;
use kernel::ipset;
use kernel::xtables::{Family, Table, Variant, Xtables as _};
use kernel_sim::nft::SimPacket;
use kernel_sim::xtables::{Simulated, Way};
use kernel_sim::{host, ipvs, sysctl};
use model::table::Masquerade;
use model::{ForwardingTable, Packet};

/// The doors beside iptables.
pub(crate) type Twin =
    Kernel<ipvs::Simulated, kernel_sim::ipset::Simulated, host::Simulated, sysctl::Simulated>;
/// The mode on twins.
pub(crate) type Mode = Ipvs<Simulated, Twin>;

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

/// Where the kernel sends a packet, on its way to one of these tables, all of the same node.
fn got(
    program: &Simulated,
    host: &host::Simulated,
    tables: &[&ForwardingTable],
    packet: &Packet,
) -> Result<BTreeMap<End, Share>, String> {
    let sent = packet_of(packet, host, tables[0]);
    let may_lose_mark = tables.iter().any(|table| is_marked(table, packet));
    let ways = program.ways(&sent, Duration::ZERO);
    let end = |way: &Way| Ok((end_of(&sent, &way.outcome, may_lose_mark)?, way.share));
    let ends = ways.iter().map(end).collect::<Result<Vec<_>, String>>()?;
    Ends::of(ends).map(|ends| ends.0)
}

/// The packet as it reaches this host, which has the addresses of its interface too.
pub(crate) fn packet_of(packet: &Packet, host: &host::Simulated, table: &ForwardingTable) -> SimPacket {
    let mut sent = sim_packet(packet, table.node());
    let addresses = host.clone().addresses().expect("a twin can be read");
    sent.local.extend(addresses.into_iter().map(|address| address.ip));
    sent
}

/// A virtual server by mark compares the whole mark, so such a packet can carry no other.
fn is_marked(table: &ForwardingTable, packet: &Packet) -> bool {
    let routes = frontends(packet).into_iter().filter_map(|frontend| table.route(&frontend));
    routes.into_iter().any(|(_, route)| route.masquerade == Masquerade::ThisHost)
}

/// Where a packet ends in a mode on twins.
pub(crate) fn of_packet(
    mode: &mut Mode,
    table: &ForwardingTable,
    packet: &Packet,
) -> Result<BTreeMap<End, Share>, String> {
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
