//! The mode on a simulated node, whose kernel is the table in memory.

use std::time::Duration;

use model::{ForwardingTable, Packet, Promises};

use super::{MODE, Null, lines};
use crate::sim::{Clients, End, Ends, Listing, SimulatedMode};
use crate::upstream::KnownChains;
use crate::{Dataplane, ModeSettings};

pub(super) fn simulate(_: &ModeSettings) -> Vec<Box<dyn SimulatedMode>> {
    vec![Box::new(Node::default())]
}

#[derive(Clone, Default)]
struct Node {
    dataplane: Null,
    clients: Clients,
}

impl Node {
    fn fate(&self, packet: &Packet) -> model::Fate {
        self.dataplane.table.fate(packet, &self.semantics()).fate
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
        let lines = lines(&self.dataplane.table).into_iter().collect();
        Ok(Listing::from([("routes".to_owned(), lines)]))
    }

    fn clean_up(&mut self, _: &KnownChains) -> Result<(), String> {
        self.dataplane.table = ForwardingTable::default();
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

    fn pass(&mut self, time: Duration) {
        self.clients.pass(time);
    }
}
