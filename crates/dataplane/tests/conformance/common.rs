//! The simulations of all modes, and what every check needs of one.

use std::collections::BTreeSet;

use dataplane::registry::MODES;
use dataplane::sim::{Ends, SimulatedMode, difference, is_delivered_here, sim_packet};
use dataplane::{Dataplane, LocalhostNodePorts, Mode, ModeSettings, Scope, ServicePortIds, Synced};
use model::{Fate, ForwardingTable, Packet, Protocol, ServicePortId};

/// One of the simulations of a mode.
#[derive(Clone)]
pub(crate) struct Simulation {
    pub(crate) name: String,
    pub(crate) mode: Mode,
    pub(crate) place: usize,
    /// The mode has no other simulation.
    pub(crate) is_alone: bool,
}

pub(crate) fn simulations() -> Vec<Simulation> {
    let of_mode = |mode: &Mode| {
        let nodes = mode.simulate(&ModeSettings::of(*mode));
        let is_alone = nodes.len() == 1;
        let simulation = |(place, node): (usize, Box<dyn SimulatedMode>)| {
            let name = node.name();
            Simulation { name, mode: *mode, place, is_alone }
        };
        nodes.into_iter().enumerate().map(simulation).collect::<Vec<_>>()
    };
    MODES.iter().flat_map(of_mode).collect()
}

impl Simulation {
    /// The settings of every second cluster have node ports answer on loopback addresses by rules, for modes that can.
    pub(crate) fn settings(&self, seed: u64) -> ModeSettings {
        let localhost_node_ports =
            if seed.is_multiple_of(2) { LocalhostNodePorts::ByRules } else { LocalhostNodePorts::Listening };
        ModeSettings { localhost_node_ports, ..ModeSettings::of(self.mode) }
    }

    /// The modules of the kernel without which there is no such mode.
    pub(crate) fn modules(&self) -> &'static [&'static str] {
        self.mode.behaviour().kernel_modules
    }

    /// A node to which nothing was written.
    pub(crate) fn node(&self, seed: u64) -> Box<dyn SimulatedMode> {
        self.mode.simulate(&self.settings(seed)).swap_remove(self.place)
    }
}

pub(crate) fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("the variable must be a number"))
}

/// Nothing may be refused but what the mode does not carry.
pub(crate) fn sync(
    node: &mut dyn SimulatedMode,
    table: &ForwardingTable,
    scope: Scope<&ServicePortIds>,
) -> Synced {
    let synced = node.dataplane().sync(table, scope).expect("the kernel takes it");
    assert_eq!(refused(node, &synced), BTreeSet::new(), "{:?}", synced.refused);
    synced
}

/// The service ports that were refused, without those that the mode does not carry.
pub(crate) fn refused(node: &dyn SimulatedMode, synced: &Synced) -> BTreeSet<ServicePortId> {
    let carries_sctp = node.semantics().carries_sctp;
    let is_carried = |id: &&ServicePortId| carries_sctp || id.protocol != Protocol::Sctp;
    synced.refused.keys().filter(is_carried).cloned().collect()
}

pub(crate) fn settle(node: &mut dyn SimulatedMode) {
    node.dataplane().settle().expect("the kernel takes it");
}

pub(crate) fn from_scratch(node: &dyn SimulatedMode, table: &ForwardingTable) -> Box<dyn SimulatedMode> {
    let mut fresh = node.fresh();
    sync(&mut *fresh, table, Scope::Everything);
    fresh
}

pub(crate) fn assert_same(one: &mut dyn SimulatedMode, other: &mut dyn SimulatedMode, when: &str) {
    let difference = difference(&one.listing().unwrap(), &other.listing().unwrap());
    assert!(difference.is_empty(), "{when}: {difference}");
}

pub(crate) fn assert_writes_nothing(node: &mut dyn SimulatedMode, table: &ForwardingTable, when: &str) {
    assert_eq!(node.dataplane().differences(table).unwrap(), Vec::<String>::new(), "{when}");
    let synced = node.dataplane().sync(table, Scope::Everything).unwrap();
    assert_eq!((synced.operations, synced.settle_after), (0, None), "{when}");
}

/// What the model says of a packet of a client of whom nothing is remembered.
pub(crate) fn fate(node: &dyn SimulatedMode, table: &ForwardingTable, packet: &Packet) -> Fate {
    let fate = table.fate(packet, &node.semantics()).fate;
    let mut fate = node.corrected(packet, fate);
    if let Fate::OneOf(one_of) = &mut fate
        && node.semantics().keeps_source
    {
        // What this host itself gets from elsewhere leaves it by no postrouting, and so is not hidden.
        let sent = sim_packet(packet, table.node());
        for landing in &mut one_of.landings {
            landing.masqueraded &= !is_delivered_here(&sent, landing.address);
        }
    }
    fate
}

pub(crate) fn expected(node: &dyn SimulatedMode, table: &ForwardingTable, packet: &Packet) -> Ends {
    Ends::of_fate(&fate(node, table, packet))
}

/// One error of the dataplane in the way of many.
pub(crate) fn go(
    dataplane: &mut dyn Dataplane,
    table: &ForwardingTable,
    scope: Scope<&ServicePortIds>,
) -> Result<Synced, String> {
    let synced = dataplane.sync(table, scope).map_err(|error| error.to_string())?;
    dataplane.settle().map_err(|error| error.to_string())?;
    Ok(synced)
}
