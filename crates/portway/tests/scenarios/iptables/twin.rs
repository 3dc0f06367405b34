//! iptables on the simulated twin: rules are written step by step, and packets run through them.
//!
//! After each step, all of this must hold: a full sync finds nothing to write; a fresh process finds nothing to write; a
//! fresh process without any rules writes the very same ones, up to the order inside of chains that all share. That is asked of
//! a copy from which what waits for its deletion is gone; packets meet it until time passes.
//!
//! Where a scenario asks for node ports on loopback addresses, the mode is restarted with the option for it.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use dataplane::iptables::Options;
use dataplane::iptables::sim::Iptables;
use dataplane::{Dataplane, Scope};
use kernel::xtables::{Family, Table, Xtables};
use kernel_sim::nft::SimPacket;
use kernel_sim::xtables::Simulated;
use model::fate::Loopback;
use model::{Delta, ForwardingTable, Packet, Promises, ServicePortId};

use super::listed::{Listed, difference, listed};
use super::mutation::Mutation;
use super::ways::{self, Way};
use super::worlds::Worlds;
use crate::nftables::ends::{End, sim_packet};
use crate::subject::{Subject, Visit};

/// So much time passes from one packet to the next at least. `recent` still knows a client at the very moment when its time is
/// over, others forget it then; no clock of a real host would meet that moment.
const TICK: Duration = Duration::from_millis(4);

/// The mode on the twin.
#[derive(Debug)]
pub(crate) struct Twin {
    dataplane: Iptables<Worlds>,
    options: Options,
    table: ForwardingTable,
    now: Duration,
    /// Where the last packet landed, in each world.
    last: Vec<Option<(IpAddr, u16)>>,
    is_checked: bool,
    /// What went wrong where nobody could be told.
    problem: Option<String>,
}

impl Twin {
    /// A twin that is checked after each step.
    pub(crate) fn checked() -> Self {
        Self { is_checked: true, ..Self::with(None) }
    }

    /// A twin that misses something.
    pub(crate) fn with(mutation: Option<&Mutation>) -> Self {
        let options = Options::default();
        let doors = Family::ALL.map(|family| Worlds::new(family, mutation.cloned()));
        Self {
            dataplane: Iptables::new(doors, options),
            options,
            table: ForwardingTable::default(),
            now: Duration::ZERO,
            last: vec![None],
            is_checked: false,
            problem: None,
        }
    }

    /// What was left out, or seen, in both families.
    pub(crate) fn mutations(&mut self) -> impl Iterator<Item = &Mutation> {
        self.dataplane.doors().filter_map(|door| door.mutation.as_ref())
    }

    /// Another process, on what this one has written.
    fn restart(&mut self) -> Iptables<Worlds> {
        of_doors(&mut self.dataplane, self.options)
    }

    fn check(&mut self) -> Result<(), String> {
        let mut settled = self.dataplane.clone();
        settle(&mut settled)?;
        writes_nothing("a fresh process", &mut of_doors(&mut settled, self.options), &self.table)?;
        let mut fresh = Iptables::new(Family::ALL.map(|family| Worlds::new(family, None)), self.options);
        sync(&mut fresh, &self.table, Scope::Everything)?;
        let difference = difference(&of_both(&mut settled)?, &of_both(&mut fresh)?);
        if !difference.is_empty() {
            return Err(format!("step by step (here) and from scratch (there) differ: {difference}"));
        }
        writes_nothing("a second sync", &mut settled, &self.table)
    }

    /// The worlds that follow from a packet, in place of those that are.
    fn follow(&mut self, packet: &SimPacket) -> Result<Vec<Visit>, String> {
        let (family, other) = if packet.destination.is_ipv6() { (1, 0) } else { (0, 1) };
        let before: Vec<Vec<Simulated>> = self.dataplane.doors().map(|door| door.tables.clone()).collect();
        let mut after = [Vec::new(), Vec::new()];
        let (mut visits, mut last) = (Vec::new(), Vec::new());
        for (at, previous) in self.last.iter().enumerate() {
            let ways = ways::ways(&before[family][at], packet, self.now)?;
            visits.push(Visit { previous: *previous, outcome: ways::outcome(&ways)?, why: Vec::new() });
            for (place, tables) in follow(ways)? {
                last.push(place);
                after[other].push(before[other][at].clone());
                after[family].push(tables);
            }
        }
        for (door, tables) in self.dataplane.doors().zip(after) {
            door.tables = tables;
        }
        self.last = last;
        Ok(visits)
    }
}

fn of_doors(dataplane: &mut Iptables<Worlds>, options: Options) -> Iptables<Worlds> {
    Iptables::new(dataplane.doors().map(|door| door.clone()).collect::<Vec<_>>(), options)
}

fn of_both<X: Xtables>(dataplane: &mut Iptables<X>) -> Result<Listed, String> {
    let mut all = Listed::new();
    for door in dataplane.doors() {
        all.append(&mut listed(door)?);
    }
    Ok(all)
}

/// Nothing is left to write.
pub(crate) fn writes_nothing(
    who: &str,
    dataplane: &mut impl Dataplane,
    table: &ForwardingTable,
) -> Result<(), String> {
    let differences = dataplane.differences(table).map_err(|e| e.to_string())?;
    let written = sync(dataplane, table, Scope::Everything)?;
    if written == 0 && differences.is_empty() {
        return Ok(());
    }
    Err(format!("{who} writes {written} lines, but nothing changed: {differences:#?}"))
}

/// Syncs; what the program refuses is an error. What a mode cannot carry is skipped by its promises.
pub(crate) fn sync(
    dataplane: &mut (impl Dataplane + ?Sized),
    table: &ForwardingTable,
    scope: Scope<'_>,
) -> Result<usize, String> {
    let mut synced = dataplane.sync(table, scope).map_err(|e| format!("{REFUSED}: {e}"))?;
    synced.refused.retain(|_, reason| !reason.contains("cannot carry SCTP"));
    if synced.refused.is_empty() {
        Ok(synced.operations)
    } else {
        Err(format!("{REFUSED}: {:?}", synced.refused))
    }
}

/// Deletes what waits for it.
pub(crate) fn settle(dataplane: &mut (impl Dataplane + ?Sized)) -> Result<(), String> {
    dataplane.settle().map(drop).map_err(|e| format!("{REFUSED}: {e}"))
}

/// How such an error begins.
pub(crate) const REFUSED: &str = "the program refused";

impl Subject for Twin {
    fn promises(&mut self, asked: &Promises) -> Promises {
        let localhost_node_ports = asked.loopback_node_ports == Loopback::Ipv4;
        if self.options.localhost_node_ports != localhost_node_ports {
            self.options.localhost_node_ports = localhost_node_ports;
            self.dataplane = self.restart();
            self.problem =
                self.problem.take().or(sync(&mut self.dataplane, &self.table, Scope::Everything).err());
        }
        if localhost_node_ports {
            self.options.promises()
        } else {
            dataplane::iptables::MODE.semantics().of_rules()
        }
    }

    fn apply(&mut self, table: &ForwardingTable, delta: &Delta) -> Result<(), String> {
        self.table = table.clone();
        let ids: BTreeSet<ServicePortId> = delta.before.keys().cloned().collect();
        sync(&mut self.dataplane, table, Scope::Changed(&ids))?;
        if self.is_checked { self.check() } else { Ok(()) }
    }

    fn pass(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
        self.problem = self.problem.take().or(settle(&mut self.dataplane).err());
    }

    fn ask(&mut self, packet: &Packet) -> Result<Vec<Visit>, String> {
        self.problem.take().map_or(Ok(()), Err)?;
        self.now += TICK;
        self.follow(&sim_packet(packet, self.table.node()))
    }
}

/// Where a packet landed, if that can be told, and the tables as they then are.
type World = (Option<(IpAddr, u16)>, Simulated);

/// Who was seen when, list by list.
type Remembered = Vec<(IpAddr, Duration)>;

/// The worlds that come after a packet. Where it made no difference to what is remembered, they are one.
fn follow(ways: Vec<Way>) -> Result<Vec<World>, String> {
    let mut seen: Vec<(End, Remembered, Simulated)> = Vec::new();
    for mut way in ways {
        if !seen.iter().any(|(end, _, _)| *end == way.end) {
            seen.push((way.end, remembered(&mut way.after)?, way.after));
        }
    }
    let is_remembered = seen.iter().any(|(_, remembered, _)| *remembered != seen[0].1);
    let is_one_place = seen.len() == 1;
    let kept = if is_remembered { seen.len() } else { 1 };
    let world = |(end, _, tables)| {
        let place = if let End::At { endpoint, .. } = end { Some(endpoint) } else { None };
        (place.filter(|_| is_remembered || is_one_place), tables)
    };
    Ok(seen.into_iter().take(kept).map(world).collect())
}

/// Who was sent where: a list of `recent` is called as the chain of its endpoint.
fn remembered(tables: &mut Simulated) -> Result<Remembered, String> {
    let saved = tables.save(Table::Nat).map_err(|e| e.to_string())?.unwrap_or_default();
    let endpoints = saved.lines().filter_map(|line| line.strip_prefix(':')?.split(' ').next());
    let none = (IpAddr::from([0; 4]), Duration::ZERO);
    let lists = endpoints.filter(|name| name.starts_with("KUBE-SEP-"));
    // Between lists stands a sign, so that it is told in which one a client is.
    Ok(lists.flat_map(|list| tables.recently_seen(list).into_iter().chain([none])).collect())
}
