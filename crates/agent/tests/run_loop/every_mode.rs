//! The loop over each mode of the registry, on simulated nodes: it starts and serves, follows a change, repairs, ends, and leaves nothing
//! after a cleanup.
//!
//! A mode that has no simulation fails here: nothing else would run it under the loop.

use agent::Event;
use dataplane::registry::{MODES, known_chains};
use dataplane::sim::{Ends, Listing, SimulatedMode, difference};
use dataplane::{Dataplane, Meddled, Mode, ModeSettings, Scope, ServicePortIds, SyncError, Synced};
use model::fate::Payload;
use model::{Family, ForwardingTable, Frontend, Packet, Protocol};

use crate::sim::{Sim, changed, endpoints, ms, service, sim_in};

/// A simulated node, as the loop takes a mode.
struct Node(Box<dyn SimulatedMode>);

impl Dataplane for Node {
    fn sync(
        &mut self,
        desired: &ForwardingTable,
        scope: Scope<&ServicePortIds>,
    ) -> Result<Synced, SyncError> {
        self.0.dataplane().sync(desired, scope)
    }

    fn settle(&mut self) -> Result<Synced, SyncError> {
        self.0.dataplane().settle()
    }

    fn differences(&mut self, desired: &ForwardingTable) -> Result<Vec<String>, SyncError> {
        self.0.dataplane().differences(desired)
    }
}

/// A loop for each simulation of each mode, with its name.
fn of_every_mode() -> Vec<(String, Sim<Node>)> {
    let of_mode = |mode: &Mode| {
        let nodes = mode.simulate(&ModeSettings::of(*mode));
        assert!(!nodes.is_empty(), "the mode {mode} has no simulation");
        nodes.into_iter().map(|node| (node.name(), sim_in(*mode, Node(node)))).collect::<Vec<_>>()
    };
    MODES.iter().flat_map(of_mode).collect()
}

/// The same with two Services that are served.
fn in_sync() -> impl Iterator<Item = (String, Sim<Node>)> {
    of_every_mode().into_iter().map(|(name, mut sim)| {
        sim.files(vec![service("web"), endpoints("web", 1, 2), service("api"), endpoints("api", 7, 1)]);
        sim.pass(ms(5_000));
        (name, sim)
    })
}

impl Sim<Node> {
    /// Packets end on the node where the model says.
    fn serves(&mut self, name: &str) {
        let table = self.state.table().clone();
        let addresses =
            table.ports().flat_map(|port| port.frontends()).filter_map(|frontend| match frontend {
                Frontend::Address { ip, port, protocol: Protocol::Tcp } => Some((ip, port)),
                _ => None,
            });
        let addresses: Vec<_> = addresses.collect();
        assert!(!addresses.is_empty(), "{name}: there is nothing to dial");
        for (destination, port) in addresses {
            assert_eq!(Family::of(destination), Family::V4, "{name}");
            let payload = Payload::Transport { protocol: Protocol::Tcp, port };
            let packet =
                Packet { source: "10.244.0.99".parse().unwrap(), destination, payload, interface: None };
            let wanted = Ends::of_fate(&table.fate(&packet, &self.dataplane.0.semantics()).fate);
            assert!(wanted.is_served(), "{name}: {wanted:?}");
            assert_eq!(self.dataplane.0.ends(&packet, &[&table]), Ok(wanted), "{name}: {packet:?}");
        }
    }
}

#[test]
fn every_mode_starts_with_one_full_sync_and_serves() {
    let mut modes = Vec::new();
    for (name, mut sim) in of_every_mode() {
        sim.files(vec![service("web"), endpoints("web", 1, 2)]);
        assert_eq!(sim.syncs, [(ms(0), Scope::Everything)], "{name}");
        assert!(sim.status().is_in_sync, "{name}");
        modes.push(sim.status().mode);
        sim.pass(ms(5_000));
        sim.serves(&name);
    }
    modes.dedup();
    assert_eq!(modes, MODES.iter().map(|mode| mode.name()).collect::<Vec<_>>());
}

#[test]
fn in_every_mode_a_change_is_written_alone_and_then_nothing_is_left_to_write() {
    for (name, mut sim) in in_sync() {
        let (count, now) = (sim.syncs.len(), sim.now);
        sim.files(vec![endpoints("web", 1, 3)]);
        assert_eq!((sim.syncs.len(), sim.syncs[count].0), (count + 1, now), "{name}: no time passed");
        assert_eq!(changed(sim.last_work()), ["default/web/tcp"], "{name}");
        sim.pass(ms(5_000));
        sim.serves(&name);
        let table = sim.state.table().clone();
        assert_eq!(sim.dataplane.differences(&table), Ok(Vec::new()), "{name}");
        sim.pass(ms(60_000));
        assert!(sim.syncs[count + 1..].iter().all(|(_, scope)| scope.is_full()), "{name}: they only compare");
        assert_eq!((sim.syncs.len() > count + 1, sim.status().drift.repairs), (true, 0), "{name}");
    }
}

#[test]
fn in_every_mode_what_another_program_changed_is_put_right() {
    let mut count = 0;
    for (name, mut sim) in in_sync() {
        let whole = sim.dataplane.0.listing().unwrap();
        let damaged: Vec<_> = sim.dataplane.0.damaged().unwrap().collect();
        for (damage, node) in damaged {
            sim.dataplane.0 = node;
            sim.feed(Event::Meddled(Meddled::Unknown));
            sim.pass(ms(60_000));
            let found = sim.dataplane.0.listing().unwrap();
            assert_eq!(difference(&found, &whole), "", "{name}: {damage}");
            count += 1;
        }
    }
    assert!(count > 0, "nothing was changed");
    eprintln!("counted: {count} changes by another program");
}

#[test]
fn every_mode_leaves_its_rules_when_it_ends_and_nothing_after_a_cleanup() {
    for (name, mut sim) in in_sync() {
        let whole = sim.dataplane.0.listing().unwrap();
        sim.feed(Event::Stop("SIGTERM"));
        assert!(sim.has_exited, "{name}");
        assert_eq!(difference(&sim.dataplane.0.listing().unwrap(), &whole), "", "{name}");
        sim.serves(&name);
        sim.dataplane.0.clean_up(known_chains()).unwrap();
        let found = sim.dataplane.0.listing().unwrap();
        assert_ne!(difference(&whole, &found), "", "{name}: it has written something");
        assert_eq!(difference(&found, &cleaned(&*sim.dataplane.0)), "", "{name}");
    }
}

/// What is left of a mode that had nothing to serve: tables of the kernel's own stay, once a program has looked into them.
fn cleaned(node: &dyn SimulatedMode) -> Listing {
    let mut fresh = node.fresh();
    fresh.dataplane().sync(&ForwardingTable::default(), Scope::Everything).unwrap();
    fresh.clean_up(known_chains()).unwrap();
    fresh.listing().unwrap()
}
