//! The mode on simulated iptables programs, for the conformance suite and the scenarios: with each of the two programs, and with one that
//! is given each service port by itself.

use std::net::IpAddr;
use std::time::Duration;

use kernel::xtables::{Programs, Table, Variant, Xtables};
use kernel_sim::sysctl;
use kernel_sim::xtables::Simulated;
use model::{Fate, ForwardingTable, Packet, Promises};

use super::mode::{has_localnet, options};
use super::{Options, SHARED};
use crate::sim::{End, Ends, Listing, Meanwhile, Named, RealMode, SimulatedMode, sim_packet};
use crate::upstream::KnownChains;
use crate::xtables::sim::{self, Faults, Program, Unmissed};
use crate::{Dataplane, ModeSettings};

/// The mode beside simulated settings.
pub type Iptables<X> = super::Iptables<X, sysctl::Simulated>;

impl<X: Xtables> Iptables<X> {
    /// The mode behind these doors, one for each family that is served, on a kernel without settings.
    pub fn new(doors: impl IntoIterator<Item = X>, options: Options) -> Self {
        Self::beside(doors, options, sysctl::Simulated::default())
    }
}

/// What no first packet through an otherwise open host misses. `tests/iptables/later.rs` proves those that have a purpose of their own.
const UNMISSED: [Unmissed; 9] = [
    (
        "filter FORWARD [] \"kubernetes forwarding rules\" -> KUBE-FORWARD",
        "for hosts that forward nothing by default",
    ),
    ("filter KUBE-FORWARD [-m mark ", "for hosts that forward nothing by default: the first packet"),
    ("filter KUBE-FORWARD [-m conntrack --ctstate RELATED,ESTABLISHED]", "the same: later packets"),
    ("filter KUBE-FORWARD [-m conntrack --ctstate INVALID]", "no first packet is invalid"),
    ("filter INPUT [] \"kubernetes health check service ports\"", "for hosts that let nothing in by default"),
    ("\"health check node port\" -> -j ACCEPT", "for hosts that let nothing in by default"),
    (
        "filter OUTPUT [] \"\" -> KUBE-FIREWALL",
        "leads to the guard, as kubelet's does; INPUT sees the same packets come back",
    ),
    ("\"localhost node ports are counted here\" -> nothing", "it counts for a metric, and decides no packet"),
    ("will be dropped by KUBE-PROXY-FIREWALL\" -> nothing", "upstream's word to the reader: it does nothing"),
];

/// So much time passes from one packet to the next at least. `recent` still knows a client at the very moment when its time is
/// over, others forget it then; no clock of a real host would meet that moment.
const TICK: Duration = Duration::from_micros(1);

pub(super) fn simulate(settings: &ModeSettings) -> Vec<Box<dyn SimulatedMode>> {
    let node = |(variant, is_in_pieces)| -> Box<dyn SimulatedMode> {
        Box::new(Node::new(sim::programs(variant), settings, is_in_pieces))
    };
    [(Variant::Nft, false), (Variant::Legacy, false), (Variant::Nft, true)].map(node).into()
}

#[derive(Clone)]
struct Node {
    dataplane: Iptables<Program>,
    settings: ModeSettings,
    /// Each service port is written by itself.
    is_in_pieces: bool,
    now: Duration,
}

impl Node {
    fn new(programs: Vec<Program>, settings: &ModeSettings, is_in_pieces: bool) -> Self {
        let dataplane = Iptables::new(programs, options_of(settings, is_in_pieces));
        Self { dataplane, settings: settings.clone(), is_in_pieces, now: Duration::ZERO }
    }

    fn tables(&mut self, address: IpAddr) -> Result<&mut Simulated, String> {
        sim::program_for(self.dataplane.doors(), address).map(Program::tables)
    }

    fn ways(&mut self, packet: &Packet, table: &ForwardingTable) -> Result<Vec<sim::Way>, String> {
        let (now, sent) = (self.now, sim_packet(packet, table.node()));
        sim::ways(self.tables(packet.destination)?, &sent, now, false)
    }

    fn variant(&self) -> Variant {
        self.clone().dataplane.doors().next().map_or(Variant::Nft, |program| program.variant())
    }
}

fn options_of(settings: &ModeSettings, is_in_pieces: bool) -> Options {
    let options: Options = options(settings);
    if is_in_pieces { Options { lines_at_once: 1, ..options } } else { options }
}

impl RealMode for Iptables<Programs> {
    fn dataplane(&mut self) -> &mut dyn Dataplane {
        self
    }

    fn listing(&mut self) -> Result<Listing, String> {
        let mut all = Listing::new();
        for program in self.doors() {
            all.append(&mut sim::listing(program, &SHARED)?);
        }
        Ok(all)
    }

    fn clean_up(&mut self, known: &KnownChains) -> Result<(), String> {
        sim::clean_up(self.doors(), known)
    }
}

impl SimulatedMode for Node {
    sim::by_programs!(UNMISSED);

    fn name(&self) -> String {
        let pieces = if self.is_in_pieces { "-in-pieces" } else { "" };
        format!("{}{pieces}", self.variant())
    }

    fn semantics(&self) -> Promises {
        self.settings.semantics().of_rules()
    }

    fn restart(&self, settings: &ModeSettings) -> Box<dyn SimulatedMode> {
        let mut node = self.clone();
        let programs = node.dataplane.doors().map(Program::restarted).collect();
        Box::new(Self { now: self.now, ..Self::new(programs, settings, self.is_in_pieces) })
    }

    fn fresh(&self) -> Box<dyn SimulatedMode> {
        Box::new(Self::new(sim::programs(self.variant()), &self.settings, self.is_in_pieces))
    }

    fn listing(&mut self) -> Result<Listing, String> {
        let mut all = Listing::new();
        for program in self.dataplane.doors() {
            all.append(&mut sim::listing(program.tables(), &SHARED)?);
        }
        Ok(all)
    }

    fn real(&self, _process: usize) -> Result<Box<dyn RealMode>, String> {
        let programs = sim::real_programs(self.variant())?;
        Ok(Box::new(Iptables::new(programs, options_of(&self.settings, self.is_in_pieces))))
    }

    fn ends(&mut self, packet: &Packet, tables: &[&ForwardingTable]) -> Result<Ends, String> {
        Ends::of(self.ways(packet, tables[0])?.iter().map(|way| (way.end, way.share)))
    }

    fn send(&mut self, packet: &Packet, table: &ForwardingTable, end: End) -> Result<(), String> {
        let way = self.ways(packet, table)?.into_iter().find(|way| way.end == end);
        *self.tables(packet.destination)? = way.ok_or("no way ends there")?.after;
        self.now += TICK;
        Ok(())
    }

    /// A list of `recent` is called as the chain of its endpoint.
    fn remembered(&mut self) -> Result<String, String> {
        let mut all = String::new();
        for program in self.dataplane.doors() {
            let tables = program.tables();
            let saved = tables.save(Table::Nat).map_err(|error| error.to_string())?.unwrap_or_default();
            let chains = saved.lines().filter_map(|line| line.strip_prefix(':')?.split(' ').next());
            let seen = chains.filter(|chain| chain.starts_with("KUBE-SEP-"));
            all.extend(seen.map(|chain| format!("{chain} {:?} ", tables.recently_seen(chain))));
        }
        Ok(all)
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
    }

    /// A list of `recent` keeps a client also when it was sent elsewhere since: one whose endpoint comes back may return to it.
    fn remembers_one_endpoint(&self) -> bool {
        false
    }

    /// The guard that comes with `route_localnet` drops packets of others where no Service leads them elsewhere.
    fn corrected(&self, packet: &Packet, fate: Fate) -> Fate {
        let is_guarded = packet.destination.is_ipv4() && packet.destination.is_loopback();
        if has_localnet(&self.settings)
            && is_guarded
            && !packet.source.is_loopback()
            && matches!(fate, Fate::Untouched | Fate::Rejected)
        {
            return Fate::Dropped;
        }
        fate
    }

    fn failing<'a>(&'a self, work: &dyn Fn(&mut dyn Dataplane)) -> Named<'a> {
        let which = if self.is_in_pieces { Faults::Stops } else { Faults::All };
        sim::failing(self, |node: &mut Self| node.dataplane.doors().collect(), which, work)
    }

    /// Refusals come before what serves, and go after it: a packet that only one of the two tables serves may meanwhile be refused in
    /// another way than the other table says.
    fn may_meet(&self, meanwhile: &Meanwhile<'_>, found: &Result<Ends, String>) -> bool {
        let is_refused = found.as_ref().is_ok_and(Ends::is_refused);
        is_refused && meanwhile.allowed.iter().any(|ends| !ends.is_served())
    }
}
