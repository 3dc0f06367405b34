//! A mode on the node of a stage, for one scenario: opened with no rules yet, told of changes, sent packets.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use dataplane::leftovers::CleanupRequest;
use dataplane::registry::known_chains;
use dataplane::sim::{relayed, sim_packet};
use dataplane::{Dataplane, OpenRequest, Scope, relay};
use model::fate::OneOf;
use model::{Delta, ForwardingTable, Packet, Promises, Protocol, ServicePortId};

use super::links::text;
use super::probe::Probe;
use super::sent::Sent;
use super::stage::{Met, Stage};
use crate::simulated::{settle, sync};
use crate::way::Way;

/// Nothing is kept there: it is for what outlives a process.
const RUN_DIR: &str = env!("CARGO_TARGET_TMPDIR");

pub(super) struct Node<'a> {
    stage: &'a mut Stage,
    dataplane: Box<dyn Dataplane>,
    relay: Arc<Mutex<relay::Simulated>>,
    /// What the rules do where Kubernetes leaves the choice.
    pub(super) semantics: Promises,
    pub(super) table: ForwardingTable,
    pub(super) sent: Sent,
}

impl<'a> Node<'a> {
    /// Opens the mode, whatever the scenario before has left behind. The calling thread is in the node's namespace.
    pub(super) fn open(way: Way, stage: &'a mut Stage) -> Result<Self, String> {
        clean_up(way)?;
        let (settings, relay) = (way.settings(), Arc::new(Mutex::new(relay::Simulated::default())));
        let request = OpenRequest {
            settings: &settings,
            relay: relay.clone(),
            run_dir: Path::new(RUN_DIR),
            known_chains: known_chains(),
        };
        let dataplane = way.mode.open(&request).map_err(text)?.dataplane;
        stage.set_addresses(&BTreeSet::new())?;
        let (semantics, table) = (way.mode.semantics().of_rules(), ForwardingTable::default());
        Ok(Self { stage, dataplane, relay, semantics, table, sent: Sent::default() })
    }

    pub(super) fn take_in(&mut self, table: &ForwardingTable, delta: &Delta) -> Result<(), String> {
        self.table = table.clone();
        self.stage.set_addresses(&table.node().addresses)?;
        let ids: BTreeSet<ServicePortId> = delta.before.keys().cloned().collect();
        sync(&mut *self.dataplane, &self.semantics, table, Scope::Changed(&ids)).map(drop)
    }

    pub(super) fn settle(&mut self) -> Result<(), String> {
        settle(&mut *self.dataplane).map(drop)
    }

    /// Sends a packet, and says where it was met within `limit`.
    pub(super) fn send(&mut self, packet: &Packet, limit: Duration) -> Result<(Probe, Met), String> {
        let path = sim_packet(packet, self.table.node()).path;
        let sent = self.stage.send(packet, &path, limit)?;
        self.sent.packets += 1;
        Ok(sent)
    }

    /// Where the relay sends what is delivered there.
    pub(super) fn relayed(&self, protocol: Protocol, at: SocketAddr) -> Result<OneOf, String> {
        relayed(&self.relay.lock().unwrap_or_else(PoisonError::into_inner), protocol, at)
    }
}

fn clean_up(way: Way) -> Result<(), String> {
    let request = CleanupRequest {
        own: way.settings().own,
        run_dir: RUN_DIR.into(),
        of_other_programs: false,
        known_chains: known_chains(),
    };
    let done = way.mode.leftovers().clean_up(&request).map_err(text)?;
    if done.warnings.is_empty() { Ok(()) } else { Err(done.warnings.concat()) }
}
