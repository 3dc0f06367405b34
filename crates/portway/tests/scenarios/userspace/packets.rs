//! userspace behind one of the real programs, with packets that really are sent; see `packets.rs` of `nftables`.
//!
//! The rules leave nothing to chance, so each packet is sent once. Nothing listens: what the kernel delivers to a port of ours is
//! overheard there, and the relay's twin says to which pool that port belongs.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use dataplane::registry::known_chains;
use dataplane::sim::sim_packet;
use dataplane::userspace::sim::relayed;
use dataplane::userspace::{Options, Userspace};
use dataplane::{Scope, relay, upstream};
use kernel::xtables::{Family, Programs, Variant, Xtables};
use model::{Answer, Delta, Fate, ForwardingTable, Packet, Promises, ServicePortId};

use crate::iptables::packets::Inside;
use crate::nftables::heard::Refusal;
use crate::nftables::sent::Sent;
use crate::nftables::stage::{Met, Stage};
use crate::reference::World;
use crate::run;
use crate::simulated::{settle, sync};
use crate::step::Scenario;
use crate::subject::{Subject, Visit};

/// What must come comes within this time, also on a busy machine.
const LIMIT: Duration = Duration::from_secs(5);
/// What must not come would have come by then.
const SILENCE: Duration = Duration::from_millis(100);

/// Sends the packets of all scenarios by one program. Returns what was sent, and all that failed; an error says why nothing was.
pub(crate) fn send(variant: Variant, scenarios: &[Scenario]) -> Result<(Sent, Vec<String>), String> {
    let mut programs = Programs::find().programs;
    programs.retain(|program| program.variant() == variant);
    if programs.len() < Family::ALL.len() {
        return Err(format!("{variant} is not installed for both families"));
    }
    let mut stage = Stage::new(Refusal::PortUnreachable)?;
    stage.give_entries_addresses()?;
    let (mut sent, mut failures) = (Sent::default(), Vec::new());
    for scenario in scenarios {
        let mut packets = Packets::new(&mut stage, &programs)?;
        let outcomes = run::run(scenario, &mut packets);
        sent.add(&packets.sent);
        sent.add_steps(&packets.sent, outcomes.skipped);
        failures.extend(outcomes.failures);
    }
    Ok((sent, failures))
}

/// The mode on the real kernel, for one scenario.
struct Packets<'a> {
    stage: &'a mut Stage,
    dataplane: Userspace<Inside, relay::Simulated>,
    table: ForwardingTable,
    now_seconds: u64,
    worlds: Vec<World>,
    sent: Sent,
}

impl<'a> Packets<'a> {
    /// With no rules yet, whatever the scenario before has left behind.
    fn new(stage: &'a mut Stage, programs: &[Programs]) -> Result<Self, String> {
        let mut doors: Vec<_> = programs.iter().map(|program| Inside::new(stage.node(), program)).collect();
        let clear = |door| upstream::clear_all(known_chains(), door).map_err(|e| e.to_string());
        doors.iter_mut().try_for_each(clear)?;
        let dataplane = Userspace::new(doors, relay::Simulated::default(), Options::default());
        stage.set_addresses(&BTreeSet::new())?;
        let table = ForwardingTable::default();
        Ok(Self {
            stage,
            dataplane,
            table,
            now_seconds: 0,
            worlds: vec![World::default()],
            sent: Sent::default(),
        })
    }

    fn send(&mut self, packet: &Packet, limit: Duration) -> Result<Fate, String> {
        let path = sim_packet(packet, self.table.node()).path;
        let (probe, met) = self.stage.send(packet, &path, limit)?;
        self.sent.packets += 1;
        match met {
            Met::Nowhere => Ok(Fate::Dropped),
            Met::Refused => Ok(Fate::Rejected),
            Met::At { source, .. } if source != (probe.source, probe.source_port) => {
                Err(format!("{packet:?}: its source is {source:?} now"))
            }
            Met::At { destination, .. } if destination == (probe.destination, probe.port()) => {
                Ok(Fate::Untouched)
            }
            Met::At { destination, .. } => {
                self.sent.landed += 1;
                let (protocol, _) = packet.payload.transport().ok_or("a ping was led somewhere")?;
                relayed(self.dataplane.relays(), protocol, SocketAddr::from(destination)).map(Fate::OneOf)
            }
        }
    }
}

impl Subject for Packets<'_> {
    fn promises(&mut self, _asked: &Promises) -> Promises {
        dataplane::userspace::MODE.semantics().of_rules()
    }

    fn apply(&mut self, table: &ForwardingTable, delta: &Delta) -> Result<(), String> {
        self.table = table.clone();
        self.stage.set_addresses(&table.node().addresses)?;
        let ids: BTreeSet<ServicePortId> = delta.before.keys().cloned().collect();
        sync(&mut self.dataplane, table, Scope::Changed(&ids)).map(drop)
    }

    fn pass(&mut self, seconds: u64) {
        self.now_seconds += seconds;
    }

    fn ask(&mut self, packet: &Packet) -> Result<Vec<Visit>, String> {
        settle(&mut self.dataplane)?;
        self.sent.steps += 1;
        let expected = self.table.fate(packet, &dataplane::userspace::MODE.semantics().of_rules()).fate;
        let fate = self.send(packet, if expected == Fate::Dropped { SILENCE } else { LIMIT })?;
        let answer = Answer { fate, why: Vec::new() };
        Ok(World::visit_all(&mut self.worlds, self.now_seconds, packet, &answer))
    }
}
