//! The mode on simulated iptables programs, virtual servers, sets and addresses, which share one simulated kernel; for the conformance
//! suite and the scenarios.
//!
//! A virtual server by address remembers its clients by itself: as the model does, kept for each frontend. Those by mark remember none.
//!
//! | file | what it is for |
//! |---|---|
//! | `bare` | the same for tests of this mode alone: with everything within reach |
//! | `damages` | what other programs may do to what is ours |
//! | `handle` | handles that let so many writes through, refuse, leave out and take note |
//! | `meanwhile` | what a packet may meet between two writes |

pub mod bare;
mod damages;
mod handle;
mod meanwhile;

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use handle::{Control, Handle};
use kernel::ipvs::{Ipvs as _, What};
use kernel::xtables::{Programs, Table, Variant, Xtables};
use kernel_sim::nft::SimPacket;
use kernel_sim::xtables::Simulated;
use kernel_sim::{host, ipset, ipvs, sysctl};
use model::fate::OneOf;
use model::table::Masquerade;
use model::{Fate, ForwardingTable, Landing, Packet, Promises, ServicePortId};

use super::own_settings::options;
use super::{Doors, Ipvs, Kernel, handles};
use crate::sim::{
    Clients, End, Ends, Listing, Meanwhile, Named, RealMode, SimulatedMode, Struck, frontends,
    remembered_for, sim_packet,
};
use crate::upstream::KnownChains;
use crate::xtables::sim::{self, Program, Unmissed};
use crate::{Dataplane, ModeSettings};

/// What no scenario misses.
const UNMISSED: [Unmissed; 8] = [
    ("filter FORWARD [] \"portway ipvs\"", "for hosts that forward nothing by default"),
    ("filter PORTWAY-FORWARD ", "for hosts that forward nothing by default: answers"),
    ("--match-set PORTWAY-HEALTH-CHECK dst", "for hosts that let nothing in by default"),
    ("set PORTWAY-HEALTH-CHECK []", "for hosts that let nothing in by default"),
    (
        "--match-set PORTWAY-ADDRESSES src",
        "no scenario sends from the address that it dials, as this host does; tests of the mode do",
    ),
    ("set PORTWAY-BOUND []", "a record: no rule asks it"),
    ("set PORTWAY-MARKS []", "a record: no rule asks it"),
    ("set PORTWAY-SERVERS []", "a record: no rule asks it"),
];

/// What the mode keeps in step beside iptables.
pub type Parts = Kernel<ipvs::Simulated, ipset::Simulated, host::Simulated, sysctl::Simulated>;
type SimHandles = Kernel<
    Handle<ipvs::Simulated>,
    Handle<ipset::Simulated>,
    Handle<host::Simulated>,
    Handle<sysctl::Simulated>,
>;

pub(super) fn simulate(settings: &ModeSettings) -> Vec<Box<dyn SimulatedMode>> {
    let node = |variant| -> Box<dyn SimulatedMode> { Box::new(Node::empty(variant, settings)) };
    Variant::ALL.map(node).into()
}

struct Node {
    dataplane: Ipvs<Program, SimHandles>,
    control: Control,
    settings: ModeSettings,
    clients: Clients,
}

impl Node {
    fn empty(variant: Variant, settings: &ModeSettings) -> Self {
        Self::new(sim::programs(variant), bare::kernel(), settings)
    }

    fn new(mut programs: Vec<Program>, parts: Parts, settings: &ModeSettings) -> Self {
        let control = Control::default();
        for program in &mut programs {
            program.gate = Some(control.gate.clone());
            join(program.tables(), &parts);
        }
        let handles = Kernel {
            servers: Handle::new(parts.servers, &control),
            sets: Handle::new(parts.sets, &control),
            host: Handle::new(parts.host, &control),
            settings: Handle::new(parts.settings, &control),
        };
        let dataplane = Ipvs::new(programs, handles, options(settings), || Duration::ZERO);
        Self { dataplane, control, settings: settings.clone(), clients: Clients::default() }
    }

    /// Another node in the same state.
    fn another(&self) -> Self {
        let (mut dataplane, parts, control) = (self.dataplane.clone(), self.parts(), self.control.copy());
        for program in dataplane.programs() {
            program.gate = Some(control.gate.clone());
            join(program.tables(), &parts);
        }
        *dataplane.doors() = Kernel {
            servers: Handle::new(parts.servers, &control),
            sets: Handle::new(parts.sets, &control),
            host: Handle::new(parts.host, &control),
            settings: Handle::new(parts.settings, &control),
        };
        let (settings, clients) = (self.settings.clone(), self.clients.clone());
        Self { dataplane, control, settings, clients }
    }

    /// What is in the kernel beside iptables, on another node.
    fn parts(&self) -> Parts {
        let Kernel { servers, sets, host, settings } = self.dataplane.clone().doors().clone();
        Kernel {
            servers: servers.part.copy(),
            sets: sets.part.copy(),
            host: host.part,
            settings: settings.part,
        }
    }

    fn variant(&self) -> Variant {
        self.dataplane.clone().programs().next().map_or(Variant::Nft, |program| program.variant())
    }

    fn sent(&mut self, packet: &Packet, table: &ForwardingTable) -> Result<SimPacket, String> {
        packet_of(packet, &mut self.dataplane.doors().host.part, table)
    }

    /// Where it ends, whoever has sent it.
    fn raw_ends(&mut self, packet: &Packet, tables: &[&ForwardingTable]) -> Result<Ends, String> {
        let sent = self.sent(packet, tables[0])?;
        let may_lose_mark = tables.iter().any(|table| is_marked(table, packet));
        let program = sim::program_for(self.dataplane.programs(), packet.destination)?;
        let ways = sim::ways(program.tables(), &sent, Duration::ZERO, may_lose_mark)?;
        Ends::of(ways.iter().map(|way| (way.end, way.share)))
    }

    /// The endpoints, for a client that may be known to the virtual server.
    fn one_of(
        &mut self,
        packet: &Packet,
        table: &ForwardingTable,
        found: &Ends,
    ) -> Result<Option<OneOf>, String> {
        let Some(affinity_seconds) = self.persistence(packet)? else { return Ok(None) };
        if !self.remembers(packet, table) || !found.is_served() {
            return Ok(None);
        }
        let whole = found.0.values().fold(1, |all, (_, of)| all * (of / common(all, *of)));
        let landing = |(end, (part, of)): (&End, &(u64, u64))| {
            let End::At { endpoint: (address, port), masqueraded } = *end else {
                return Err(format!("the packet ends differently by chance: {found:?}"));
            };
            let slots = u16::try_from(part * (whole / of)).map_err(|error| error.to_string())?;
            Ok(Landing { address, port, slots, masqueraded })
        };
        let landings = found.0.iter().map(landing).collect::<Result<_, _>>()?;
        let slots = u32::try_from(whole).map_err(|error| error.to_string())?;
        let port = port_of(table, packet).ok_or("it is led, but is no Service's")?;
        let one_of = OneOf { landings, slots, port, affinity_seconds: Some(affinity_seconds) };
        Ok(Some(remembered_for(packet, one_of, &self.semantics())))
    }

    fn persistence(&mut self, packet: &Packet) -> Result<Option<u32>, String> {
        let Some((protocol, number)) = packet.payload.transport() else { return Ok(None) };
        let at = SocketAddr::new(packet.destination, number);
        let servers = self.dataplane.doors().servers.virtual_servers().map_err(|error| error.to_string())?;
        let is_it =
            |what: &What| matches!(what, What::Address(of, found) if *of == at && *found == protocol.into());
        Ok(servers.into_iter().find(|server| is_it(&server.what)).and_then(|server| server.persistence_s))
    }
}

/// The packet as it reaches this host, which has the addresses of its interface too.
fn packet_of(
    packet: &Packet,
    host: &mut dyn kernel::host::Host,
    table: &ForwardingTable,
) -> Result<SimPacket, String> {
    let mut sent = sim_packet(packet, table.node());
    let addresses = host.addresses().map_err(|error| error.to_string())?;
    sent.local.extend(addresses.into_iter().map(|address| address.ip));
    Ok(sent)
}

/// Its rules ask these sets and virtual servers.
fn join(tables: &mut Simulated, parts: &Parts) {
    tables.sets = parts.sets.clone();
    tables.ipvs = Some(parts.servers.clone());
}

fn port_of(table: &ForwardingTable, packet: &Packet) -> Option<ServicePortId> {
    let found = frontends(packet).into_iter().find_map(|frontend| table.route(&frontend));
    found.map(|(port, _)| port.id().clone())
}

fn common(mut one: u64, mut other: u64) -> u64 {
    while other > 0 {
        (one, other) = (other, one % other);
    }
    one.max(1)
}

/// A virtual server by mark compares the whole mark, so such a packet can carry no other.
fn is_marked(table: &ForwardingTable, packet: &Packet) -> bool {
    let routes = frontends(packet).into_iter().filter_map(|frontend| table.route(&frontend));
    routes.into_iter().any(|(_, route)| route.masquerade == Masquerade::ThisHost)
}

impl SimulatedMode for Node {
    fn name(&self) -> String {
        format!("{}-by-{}", self.settings.mode, self.variant())
    }

    fn dataplane(&mut self) -> &mut dyn Dataplane {
        &mut self.dataplane
    }

    fn semantics(&self) -> Promises {
        self.settings.mode.semantics().of_rules()
    }

    fn copy(&self) -> Box<dyn SimulatedMode> {
        Box::new(self.another())
    }

    fn restart(&self, settings: &ModeSettings) -> Box<dyn SimulatedMode> {
        let programs = self.dataplane.clone().programs().map(Program::restarted).collect();
        Box::new(Self { clients: self.clients.clone(), ..Self::new(programs, self.parts(), settings) })
    }

    fn fresh(&self) -> Box<dyn SimulatedMode> {
        Box::new(Self::empty(self.variant(), &self.settings))
    }

    fn listing(&mut self) -> Result<Listing, String> {
        listing(&mut self.dataplane)
    }

    fn clean_up(&mut self, known: &KnownChains) -> Result<(), String> {
        self.dataplane.cleanup(known).map_err(|error| error.to_string())
    }

    fn real(&self, _process: usize) -> Result<Box<dyn RealMode>, String> {
        let handles = handles().map_err(|error| error.to_string())?;
        let programs = sim::real_programs(self.variant())?;
        Ok(Box::new(Ipvs::new(programs, handles, options(&self.settings), || Duration::ZERO)))
    }

    /// Rules are compared by the mode itself: programs that are real print more.
    fn listing_as_real(&mut self) -> Result<Listing, String> {
        beside_rules(self.dataplane.doors())
    }

    fn damaged(&mut self) -> Result<Named<'_>, String> {
        damages::damaged(self)
    }

    fn ends(&mut self, packet: &Packet, tables: &[&ForwardingTable]) -> Result<Ends, String> {
        let found = self.raw_ends(packet, tables)?;
        let [table] = tables else { return Ok(found) };
        let one_of = self.one_of(packet, table, &found)?;
        Ok(one_of.map_or(found, |one_of| Ends::of_landings(&self.clients.narrow(packet.source, &one_of))))
    }

    fn send(&mut self, packet: &Packet, table: &ForwardingTable, end: End) -> Result<(), String> {
        let found = self.raw_ends(packet, &[table])?;
        if let Some(one_of) = self.one_of(packet, table, &found)? {
            self.clients.remember(packet.source, &one_of, end);
        }
        Ok(())
    }

    fn remembered(&mut self) -> Result<String, String> {
        Ok(self.clients.remembered())
    }

    fn pass(&mut self, time: Duration) {
        self.clients.pass(time);
    }

    /// Virtual servers by mark remember nobody: see `Promises::affinity`.
    fn remembers(&self, packet: &Packet, table: &ForwardingTable) -> bool {
        let node = table.node();
        let is_inside =
            node.is_own(packet.source) || node.pods.is_pod(packet.source, packet.interface.as_deref());
        let route = frontends(packet).into_iter().find_map(|frontend| table.route(&frontend));
        is_inside || route.is_none_or(|(_, route)| route.masquerade != Masquerade::ThisHost)
    }

    /// What lands at an address that this host has for a Service stays here.
    fn is_beyond(&self, packet: &Packet, table: &ForwardingTable) -> bool {
        let Fate::OneOf(one_of) = table.fate(packet, &self.semantics()).fate else { return false };
        let is_kept = |address: IpAddr| table.is_dialled(address) && !table.node().is_own(address);
        one_of.landings.iter().any(|landing| is_kept(landing.address))
    }

    /// There is no transaction: after any single write the next one is the first that fails.
    fn failing<'a>(&'a self, work: &dyn Fn(&mut dyn Dataplane)) -> Named<'a> {
        let mut trial = self.another();
        work(&mut trial.dataplane);
        Box::new((0..trial.control.gate.passed()).map(|writes| {
            let node = self.another();
            node.control.gate.let_through(writes);
            (format!("after {writes} writes"), Box::new(node) as Box<dyn SimulatedMode>)
        }))
    }

    fn struck(&self) -> Struck {
        if self.control.gate.is_shut() { Struck::Told } else { Struck::Not }
    }

    fn heal(&mut self) {
        self.control.gate.let_through(usize::MAX);
    }

    fn may_meet(&self, meanwhile: &Meanwhile<'_>, found: &Result<Ends, String>) -> bool {
        found.as_ref().is_ok_and(|found| meanwhile::may_meet(meanwhile, found))
    }

    fn refuse(&mut self, address: Option<IpAddr>) -> bool {
        self.control.refuse(address);
        true
    }

    fn add_foreign(&mut self) -> Result<(), String> {
        sim::add_foreign(self.dataplane.programs())
    }

    fn leave_out(&mut self, kind: Option<&str>) {
        let mutation = sim::Mutation::without(kind);
        self.dataplane.programs().for_each(|program| program.mutation = Some(mutation.clone()));
        self.control.mutate(mutation);
    }

    fn kinds(&mut self) -> BTreeSet<String> {
        let of_rules = sim::kinds(self.dataplane.programs());
        of_rules.into_iter().chain(self.control.kinds()).collect()
    }

    fn unmissed(&self, kind: &str) -> Option<&'static str> {
        sim::unmissed(&UNMISSED, kind)
    }
}

impl RealMode for Ipvs<Programs, super::Handles> {
    fn dataplane(&mut self) -> &mut dyn Dataplane {
        self
    }

    fn listing(&mut self) -> Result<Listing, String> {
        beside_rules(self.doors())
    }

    fn clean_up(&mut self, known: &KnownChains) -> Result<(), String> {
        self.cleanup(known).map_err(|error| error.to_string())
    }
}

/// Without what this host has by itself, and what settings were before.
fn beside_rules(handles: &mut dyn Doors) -> Result<Listing, String> {
    let mut lines = shown(handles)?;
    lines.retain(|line| !line.starts_with("PORTWAY-FORMER") && !line.starts_with("lo "));
    lines.sort();
    Ok(Listing::from([("beside rules".to_owned(), lines)]))
}

/// Without the numbers of marks: another process may give others.
fn listing<X: Xtables, D: Doors>(mode: &mut Ipvs<X, D>) -> Result<Listing, String> {
    let mut lines = BTreeSet::new();
    for program in mode.programs() {
        for table in [Table::Mangle, Table::Filter, Table::Nat] {
            let saved = program.save(table).map_err(|error| error.to_string())?.unwrap_or_default();
            lines.extend(saved.lines().map(|line| format!("{} {table} {line}", program.family())));
        }
    }
    lines.extend(shown(mode.doors())?);
    lines.retain(|line| !line.contains("-MARKS "));
    let lines: BTreeSet<String> = lines.iter().map(|line| without_mark(line)).collect();
    Ok(Listing::from([("everything".to_owned(), lines.into_iter().collect())]))
}

/// All that the kernel holds beside rules, as words.
pub fn shown(handles: &mut dyn Doors) -> Result<Vec<String>, String> {
    let mut lines = Vec::new();
    let text = |error: &dyn std::fmt::Display| error.to_string();
    for set in handles.sets().sets().map_err(|error| text(&error))? {
        let Some(name) = kernel::ipset::SetName::new(&set.name) else { continue };
        let entries = handles.sets().entries(&name).map_err(|error| text(&error))?.unwrap_or_default();
        lines.extend(entries.iter().map(|entry| format!("{name} {entry}")));
    }
    for server in handles.servers().virtual_servers().map_err(|error| text(&error))? {
        lines.push(format!("{server:?}"));
        for real in handles.servers().real_servers(&server.what).map_err(|error| text(&error))? {
            let of =
                if let What::Address(at, _) = server.what { at.to_string() } else { "a mark".to_owned() };
            lines.push(format!("real server of {of}: {} {}", real.server.address, real.server.weight));
        }
    }
    let addresses = handles.host().addresses().map_err(|error| text(&error))?;
    let is_single = |length: u8, ip: IpAddr| length == if ip.is_ipv4() { 32 } else { 128 };
    let single = addresses.iter().filter(|address| is_single(address.prefix_length, address.ip));
    lines.extend(single.map(|address| format!("{} {}", address.link_name, address.ip)));
    Ok(lines)
}

fn without_mark(line: &str) -> String {
    let cut =
        ["what: Mark(", "--set-xmark 0x1"].iter().find_map(|start| Some(line.find(start)? + start.len()));
    cut.map_or(line, |at| &line[..at]).to_owned()
}
