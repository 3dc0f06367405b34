//! The mode on a simulated node, whose kernel is the table in memory.
//!
//! The kernel refuses what is added for one address: service ports that have it stay as they were, as in any other mode.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use model::{ForwardingTable, Frontend, Packet, Promises, ServicePortId};

use super::{MODE, Null, lines};
use crate::sim::{Clients, End, Ends, Listing, SimulatedMode, frontends};
use crate::upstream::KnownChains;
use crate::{Dataplane, ModeSettings, Scope, ServicePortIds, SyncError, Synced};

pub(super) fn simulate(_: &ModeSettings) -> Vec<Box<dyn SimulatedMode>> {
    vec![Box::new(Node::default())]
}

#[derive(Clone, Default)]
struct Node {
    dataplane: Refusing,
    clients: Clients,
}

impl Node {
    fn fate(&self, packet: &Packet) -> model::Fate {
        self.dataplane.table_for(packet).fate(packet, &self.semantics()).fate
    }
}

/// The mode, and what is refused.
#[derive(Clone, Default)]
struct Refusing {
    null: Null,
    address: Option<IpAddr>,
    /// Each with the table of when it was taken last.
    quarantined: BTreeMap<ServicePortId, ForwardingTable>,
}

impl Refusing {
    fn table_for(&self, packet: &Packet) -> &ForwardingTable {
        let frontends = frontends(packet);
        let has = |table: &ForwardingTable, id: &ServicePortId| {
            frontends.iter().any(|frontend| table.route(frontend).is_some_and(|(port, _)| port.id() == id))
        };
        let is_its =
            |(id, before): &(&ServicePortId, &ForwardingTable)| has(before, id) || has(&self.null.table, id);
        self.quarantined.iter().find(is_its).map_or(&self.null.table, |(_, before)| before)
    }

    fn is_refused(&self, frontend: Frontend) -> bool {
        matches!(frontend, Frontend::Address { ip, .. } if self.address == Some(ip))
    }
}

impl Dataplane for Refusing {
    fn sync(
        &mut self,
        desired: &ForwardingTable,
        scope: Scope<&ServicePortIds>,
    ) -> Result<Synced, SyncError> {
        let before = std::mem::take(&mut self.quarantined);
        let refused = desired.ports().filter(|port| port.frontends().any(|one| self.is_refused(one)));
        let as_it_was = |id| before.get(id).unwrap_or(&self.null.table).clone();
        self.quarantined = refused.map(|port| (port.id().clone(), as_it_was(port.id()))).collect();
        let reason = |id: &ServicePortId| (id.clone(), format!("{:?} is refused", self.address));
        let refused = self.quarantined.keys().map(reason).collect();
        Ok(Synced { refused, ..self.null.sync(desired, scope)? })
    }

    fn settle(&mut self) -> Result<Synced, SyncError> {
        self.null.settle()
    }

    fn differences(&mut self, desired: &ForwardingTable) -> Result<Vec<String>, SyncError> {
        self.null.differences(desired)
    }
}

impl SimulatedMode for Node {
    fn name(&self) -> String {
        MODE.name().to_owned()
    }

    fn dataplane(&mut self) -> &mut dyn Dataplane {
        &mut self.dataplane
    }

    fn semantics(&self) -> Promises {
        MODE.semantics().of_rules()
    }

    fn copy(&self) -> Box<dyn SimulatedMode> {
        Box::new(self.clone())
    }

    fn restart(&self, _: &ModeSettings) -> Box<dyn SimulatedMode> {
        self.copy()
    }

    fn fresh(&self) -> Box<dyn SimulatedMode> {
        Box::new(Self::default())
    }

    fn listing(&mut self) -> Result<Listing, String> {
        let Refusing { null, quarantined, .. } = &self.dataplane;
        let is_of = |line: &str, id: &ServicePortId| line.starts_with(&format!("{id} "));
        let mut all = lines(&null.table);
        all.retain(|line| !quarantined.keys().any(|id| is_of(line, id)));
        for (id, before) in quarantined {
            all.extend(lines(before).into_iter().filter(|line| is_of(line, id)));
        }
        Ok(Listing::from([("routes".to_owned(), all.into_iter().collect())]))
    }

    fn clean_up(&mut self, _: &KnownChains) -> Result<(), String> {
        self.dataplane = Refusing::default();
        Ok(())
    }

    fn ends(&mut self, packet: &Packet, _: &[&ForwardingTable]) -> Result<Ends, String> {
        Ok(match self.fate(packet) {
            model::Fate::OneOf(one_of) => Ends::of_landings(&self.clients.narrow(packet.source, &one_of)),
            fate => Ends::of_fate(&fate),
        })
    }

    fn send(&mut self, packet: &Packet, _: &ForwardingTable, end: End) -> Result<(), String> {
        if let model::Fate::OneOf(one_of) = self.fate(packet) {
            self.clients.remember(packet.source, &one_of, end);
        }
        Ok(())
    }

    fn remembered(&mut self) -> Result<String, String> {
        Ok(self.clients.remembered())
    }

    fn refuse(&mut self, address: Option<IpAddr>) -> bool {
        self.dataplane.address = address;
        true
    }

    fn pass(&mut self, time: Duration) {
        self.clients.pass(time);
    }
}
