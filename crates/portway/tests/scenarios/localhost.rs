//! Node ports on localhost as a subject: the listeners that stand there beside the rules of any mode, on the relay's twin.
//!
//! It is asked about packets to 127.0.0.1 and `::1` alone; all others are the rules' business.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use dataplane::localhost::{Choice, Localhost};
use dataplane::relay::Simulated;
use dataplane::{Dataplane, Scope, ServicePortIds, SyncError, Synced};
use model::fate::Loopback;
use model::{Delta, Family, ForwardingTable, Packet, Promises, ServicePortId};

use crate::reference::outcome_of;
use crate::step::Outcome;
use crate::subject::{Subject, Visit};

/// The listeners, beside rules that do nothing.
#[derive(Debug)]
pub(crate) struct Listeners {
    beside: Localhost<NoRules, Simulated>,
    table: ForwardingTable,
    promises: Promises,
}

impl Default for Listeners {
    fn default() -> Self {
        let promises = Promises { loopback_node_ports: Loopback::Localhost, ..Promises::default() };
        Self { beside: fresh(&promises), table: ForwardingTable::default(), promises }
    }
}

fn fresh(promises: &Promises) -> Localhost<NoRules, Simulated> {
    let default_node_port_addresses = promises.default_node_port_addresses;
    let choice = Choice { families: Family::ALL.to_vec(), default_node_port_addresses };
    Localhost::new(NoRules, Simulated::default(), choice)
}

impl Subject for Listeners {
    fn promises(&mut self, asked: &Promises) -> Promises {
        self.promises = Promises { loopback_node_ports: Loopback::Localhost, ..*asked };
        self.beside = fresh(&self.promises);
        let _ = self.beside.sync(&self.table, Scope::Everything);
        self.promises
    }

    fn apply(&mut self, table: &ForwardingTable, delta: &Delta) -> Result<(), String> {
        self.table = table.clone();
        let ids: BTreeSet<ServicePortId> = delta.before.keys().cloned().collect();
        refuses_nothing(&mut self.beside, table, Scope::Changed(&ids))?;
        let mut anew = fresh(&self.promises);
        refuses_nothing(&mut anew, table, Scope::Everything)?;
        if self.beside.relay() == anew.relay() {
            return Ok(());
        }
        Err(format!("step by step {:#?}, from scratch {:#?}", self.beside.relay(), anew.relay()))
    }

    fn pass(&mut self, _seconds: u64) {}

    fn ask(&mut self, packet: &Packet) -> Result<Vec<Visit>, String> {
        let Some((protocol, port)) = packet.payload.transport() else { return Ok(Vec::new()) };
        if !Loopback::Localhost.serves(protocol, packet.destination) {
            return Ok(Vec::new());
        }
        if !self.table.node().is_own(packet.source) {
            // The kernel drops it before anything can listen: a martian destination.
            return Ok(vec![Visit { previous: None, outcome: Outcome::Dropped, why: Vec::new() }]);
        }
        let at = SocketAddr::new(packet.destination, port);
        // Without a listener the kernel refuses, as it does without us.
        let refused = match self.table.fate(packet, &self.promises).fate {
            model::Fate::Rejected => Outcome::Rejected,
            _ => Outcome::Untouched,
        };
        let found = self.beside.relay().listening_at(protocol, at);
        let outcome = found.map_or(refused, |(_, listener)| {
            let landing = |endpoint: &model::Endpoint| model::Landing {
                address: endpoint.address,
                port: endpoint.port,
                slots: endpoint.slots,
                masqueraded: true,
            };
            outcome_of(&listener.pool.endpoints().iter().map(landing).collect::<Vec<_>>())
        });
        Ok(vec![Visit { previous: None, outcome, why: Vec::new() }])
    }
}

fn refuses_nothing(
    listeners: &mut Localhost<NoRules, Simulated>,
    table: &ForwardingTable,
    scope: Scope<&ServicePortIds>,
) -> Result<(), String> {
    let synced = listeners.sync(table, scope).map_err(|error| error.to_string())?;
    if synced.refused.is_empty() { Ok(()) } else { Err(format!("refused: {:?}", synced.refused)) }
}

/// A mode that does nothing.
#[derive(Debug)]
struct NoRules;

impl Dataplane for NoRules {
    fn sync(&mut self, _: &ForwardingTable, _: Scope<&ServicePortIds>) -> Result<Synced, SyncError> {
        Ok(Synced::default())
    }

    fn settle(&mut self) -> Result<Synced, SyncError> {
        Ok(Synced::default())
    }

    fn differences(&mut self, _: &ForwardingTable) -> Result<Vec<String>, SyncError> {
        Ok(Vec::new())
    }
}
