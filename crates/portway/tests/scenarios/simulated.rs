//! A mode of the registry as a subject, on a simulated node: everything is written step by step, and packets run through it.
//!
//! A mode that deletes what waits for it within a moment does so before the next packet.
//!
//! After each step, all of this must hold: a full sync finds nothing to write; a process that has just started finds nothing to write; one
//! on a node to which nothing was written writes the very same. That is asked of a copy from which what waits for its deletion is gone;
//! packets meet it until time passes.
//!
//! Where a scenario asks for node ports on loopback addresses, a mode that can serve them is restarted with the setting for it.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use dataplane::sim::{End, Ends, SimulatedMode, difference};
use dataplane::{Dataplane, LocalhostNodePorts, Mode, ModeSettings, Scope, ServicePortIds, Synced};
use model::fate::Loopback;
use model::{Delta, ForwardingTable, Packet, Promises, Protocol, ServicePortId};

use crate::step::{Landing, Outcome, Share};
use crate::subject::{Subject, Visit};

/// How an error begins that says that something was not written.
pub(crate) const REFUSED: &str = "the kernel refused";

/// Between a step and a packet so much time passes at least.
const MOMENT: Duration = Duration::from_millis(100);

/// A mode on simulated nodes: one for each way in which everything may have come about. They differ in nothing but which client was sent
/// where.
pub(crate) struct Simulation {
    worlds: Vec<World>,
    settings: ModeSettings,
    table: ForwardingTable,
    is_checked: bool,
    /// What went wrong in a step that cannot fail.
    problem: Option<String>,
}

struct World {
    node: Box<dyn SimulatedMode>,
    /// Where the last packet landed.
    last: Option<(IpAddr, u16)>,
    /// What waits for its deletion is to be deleted after this.
    settle_after: Option<Duration>,
}

impl Simulation {
    /// Checked after each step. `None` for a mode that has no simulation.
    pub(crate) fn checked(mode: Mode) -> Option<Self> {
        Self::new(mode, true)
    }

    /// A node that takes note of the kinds of what is written, and misses this one.
    pub(crate) fn without(mode: Mode, kind: Option<&str>) -> Option<Self> {
        let mut simulation = Self::new(mode, false)?;
        simulation.worlds.iter_mut().for_each(|world| world.node.leave_out(kind));
        Some(simulation)
    }

    fn new(mode: Mode, is_checked: bool) -> Option<Self> {
        let settings = ModeSettings::of(mode);
        let node = mode.simulate(&settings).into_iter().next()?;
        let worlds = vec![World { node, last: None, settle_after: None }];
        Some(Self { worlds, settings, table: ForwardingTable::default(), is_checked, problem: None })
    }

    /// One of the nodes.
    pub(crate) fn node(&mut self) -> &mut dyn SimulatedMode {
        &mut *self.worlds.first_mut().expect("there is always one world").node
    }

    fn check(&mut self) -> Result<(), String> {
        let (settings, table) = (self.settings.clone(), self.table.clone());
        let mut settled = self.node().copy();
        settle(settled.dataplane())?;
        writes_nothing("a process that has just started", &mut *settled.restart(&settings), &table)?;
        let mut fresh = settled.fresh();
        let semantics = fresh.semantics();
        sync(fresh.dataplane(), &semantics, &table, Scope::Everything)?;
        let difference = difference(&settled.listing()?, &fresh.listing()?);
        if !difference.is_empty() {
            return Err(format!("step by step (here) and from scratch (there) differ: {difference}"));
        }
        writes_nothing("a second sync", &mut *settled, &table)
    }
}

fn writes_nothing(
    process: &str,
    node: &mut dyn SimulatedMode,
    table: &ForwardingTable,
) -> Result<(), String> {
    let (semantics, dataplane) = (node.semantics(), node.dataplane());
    let differences = dataplane.differences(table).map_err(|e| e.to_string())?;
    let written = sync(dataplane, &semantics, table, Scope::Everything)?.operations + settle(dataplane)?;
    if written == 0 && differences.is_empty() {
        return Ok(());
    }
    Err(format!("{process} writes {written} operations, but nothing changed: {differences:#?}"))
}

/// Syncs; what is refused is an error. What a mode cannot carry is skipped by its semantics.
pub(crate) fn sync(
    dataplane: &mut (impl Dataplane + ?Sized),
    semantics: &Promises,
    table: &ForwardingTable,
    scope: Scope<&ServicePortIds>,
) -> Result<Synced, String> {
    let mut synced = dataplane.sync(table, scope).map_err(|e| format!("{REFUSED}: {e}"))?;
    synced.refused.retain(|id, _| semantics.carries_sctp || id.protocol != Protocol::Sctp);
    if synced.refused.is_empty() { Ok(synced) } else { Err(format!("{REFUSED}: {:?}", synced.refused)) }
}

/// Deletes what waits for it.
pub(crate) fn settle(dataplane: &mut (impl Dataplane + ?Sized)) -> Result<usize, String> {
    dataplane.settle().map(|synced| synced.operations).map_err(|e| format!("{REFUSED}: {e}"))
}

impl Subject for Simulation {
    fn promises(&mut self, asked: &Promises) -> Promises {
        let by_rules = asked.loopback_node_ports == Loopback::Ipv4;
        let localhost_node_ports =
            if by_rules { LocalhostNodePorts::ByRules } else { LocalhostNodePorts::default() };
        let settings = ModeSettings { localhost_node_ports, ..self.settings.clone() };
        let now = self.node().semantics();
        if self.node().restart(&settings).semantics() != now {
            self.settings = settings;
            for world in &mut self.worlds {
                world.node = world.node.restart(&self.settings);
                let semantics = world.node.semantics();
                let synced = sync(world.node.dataplane(), &semantics, &self.table, Scope::Everything);
                self.problem = self.problem.take().or(synced.err());
            }
        }
        self.node().semantics()
    }

    fn apply(&mut self, table: &ForwardingTable, delta: &Delta) -> Result<(), String> {
        self.table = table.clone();
        let ids: BTreeSet<ServicePortId> = delta.before.keys().cloned().collect();
        for world in &mut self.worlds {
            let semantics = world.node.semantics();
            let synced = sync(world.node.dataplane(), &semantics, table, Scope::Changed(&ids))?;
            world.settle_after = synced.settle_after;
        }
        self.node().check(table)?;
        if self.is_checked { self.check() } else { Ok(()) }
    }

    fn pass(&mut self, seconds: u64) {
        for world in &mut self.worlds {
            world.node.pass(Duration::from_secs(seconds));
            self.problem = self.problem.take().or(settle(world.node.dataplane()).err());
        }
    }

    fn remembers(&mut self, packet: &Packet, table: &ForwardingTable) -> bool {
        self.node().remembers(packet, table)
    }

    fn ask(&mut self, packet: &Packet) -> Result<Vec<Visit>, String> {
        self.problem.take().map_or(Ok(()), Err)?;
        let (mut visits, mut after) = (Vec::new(), Vec::new());
        for world in &mut self.worlds {
            let previous = world.last;
            let (outcome, mut worlds) = world.follow(packet, &self.table)?;
            visits.push(Visit { previous, outcome, why: Vec::new() });
            after.append(&mut worlds);
        }
        self.worlds = after;
        Ok(visits)
    }
}

impl World {
    /// Where the packet ends here, and the worlds that come after it. Where it made no difference to what is remembered, they are one.
    fn follow(&mut self, packet: &Packet, table: &ForwardingTable) -> Result<(Outcome, Vec<Self>), String> {
        if self.settle_after.is_some_and(|after| after <= MOMENT) {
            settle(self.node.dataplane())?;
            self.settle_after = None;
        }
        let ends = self.node.ends(packet, &[table])?;
        let mut seen = Vec::new();
        for end in ends.0.keys() {
            let mut node = self.node.copy();
            node.send(packet, table, *end)?;
            seen.push((
                node.remembered()?,
                Self { node, last: end.endpoint(), settle_after: self.settle_after },
            ));
        }
        let is_remembered = seen.iter().any(|(remembered, _)| *remembered != seen[0].0);
        let (is_one_place, kept) = (seen.len() == 1, if is_remembered { seen.len() } else { 1 });
        let mut worlds: Vec<Self> = seen.into_iter().take(kept).map(|(_, world)| world).collect();
        if !is_remembered && !is_one_place {
            for world in &mut *worlds {
                world.last = None;
            }
        }
        Ok((outcome(&ends)?, worlds))
    }
}

/// In the words of scenarios.
fn outcome(ends: &Ends) -> Result<Outcome, String> {
    match ends.0.keys().collect::<Vec<_>>()[..] {
        [End::Untouched] => return Ok(Outcome::Untouched),
        [End::Rejected] => return Ok(Outcome::Rejected),
        [End::Dropped] => return Ok(Outcome::Dropped),
        _ => {}
    }
    let landing = |(end, (part, whole)): (&End, &(u64, u64))| match end {
        End::At { endpoint, masqueraded } => {
            let share = Share::new(u32::try_from(*part).ok()?, u32::try_from(*whole).ok()?)?;
            Some(Landing { endpoint: *endpoint, share, masqueraded: *masqueraded })
        }
        _ => None,
    };
    let landings: Option<BTreeSet<Landing>> = ends.0.iter().map(landing).collect();
    landings.map(Outcome::OneOf).ok_or_else(|| format!("the packet ends differently by chance: {ends:?}"))
}
