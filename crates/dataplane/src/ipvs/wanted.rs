//! What is wanted, kept in step with the forwarding table: all things of all service ports.

use std::collections::{BTreeMap, BTreeSet};

use model::{Family, ForwardingTable, Frontend, ServicePortId};

use super::Options;
use super::items::{Changes, Item, Items, Place};
use super::marks::Marks;
use super::render;
use super::render::port::{Rendered, Renderer};

/// So many service ports are withheld in one sync at most.
const MOST_WITHHELD: usize = 100;

/// What is wanted.
#[derive(Clone, Debug, Default)]
pub(super) struct Wanted {
    pub(super) items: Items,
    pub(super) marks: Marks,
    /// Service ports that could not be written, with the reason.
    pub(super) withheld: BTreeMap<ServicePortId, String>,
    /// Service ports with which something is wrong, though they work.
    pub(super) warned: BTreeMap<ServicePortId, String>,
}

impl Wanted {
    /// Everything from scratch. An earlier life marked places so.
    pub(super) fn render_all(
        &mut self,
        desired: &ForwardingTable,
        families: &[Family],
        options: &Options,
        earlier: Vec<(Place, u32)>,
    ) -> BTreeSet<Item> {
        self.items = Items::default();
        self.warned.clear();
        self.marks.retain(|id| desired.port(id).is_some());
        self.marks.recall(earlier);
        let ids = desired.ports().map(|port| port.id().clone()).collect();
        self.render(desired, &ids, families, options);
        self.items.all()
    }

    /// These service ports anew, and what is nobody's.
    pub(super) fn render(
        &mut self,
        desired: &ForwardingTable,
        ids: &BTreeSet<ServicePortId>,
        families: &[Family],
        options: &Options,
    ) -> Changes {
        let mut changes = Changes::default();
        let renderer = Renderer { table: desired, families, options };
        for id in ids {
            let Rendered { items, warning, refusal } = self.render_port(&renderer, id);
            self.items.replace(Some(id.clone()), items, &mut changes);
            self.warned.remove(id);
            self.warned.extend(warning.map(|warning| (id.clone(), warning)));
            self.withheld.extend(refusal.map(|reason| (id.clone(), reason)));
        }
        self.items.replace(None, render::of_nobody(desired, families), &mut changes);
        changes
    }

    fn render_port(&mut self, renderer: &Renderer<'_>, id: &ServicePortId) -> Rendered {
        let port = renderer.table.port(id).filter(|_| !self.withheld.contains_key(id));
        let Some(port) = port else {
            for family in Family::ALL {
                self.marks.take_back(id, family);
            }
            return Rendered::default();
        };
        renderer.port(port, &mut self.marks)
    }

    /// The places whose outside is marked, with their marks.
    pub(super) fn outside(&self) -> BTreeMap<Place, u32> {
        self.items.outside().collect()
    }

    /// Every service port that there is, or was.
    pub(super) fn all_ids(&self, desired: &ForwardingTable) -> BTreeSet<ServicePortId> {
        desired.ports().map(|port| port.id()).chain(self.items.owners()).cloned().collect()
    }

    /// These service ports, and those whose node ports yield to their addresses, or did so.
    pub(super) fn touched(
        &self,
        desired: &ForwardingTable,
        ids: &BTreeSet<ServicePortId>,
    ) -> BTreeSet<ServicePortId> {
        let mut all = ids.clone();
        for id in ids {
            let before = self.items.of(id).iter().filter_map(Item::frontend);
            let after = desired.port(id).into_iter().flat_map(|port| port.routes.iter().map(|r| r.frontend));
            for frontend in before.chain(after) {
                let Frontend::Address { ip, protocol, port } = frontend else { continue };
                let node_port = Frontend::NodePort { family: Family::of(ip), protocol, port };
                let yielding = desired.route(&node_port).filter(|_| desired.node().is_own(ip));
                all.extend(yielding.map(|(port, _)| port.id().clone()));
            }
        }
        all
    }

    /// Whoever needs this is withheld. False if nobody alone does. The first reason is the one to tell: without its virtual server, a
    /// real server is refused as well.
    pub(super) fn withhold(&mut self, item: &Item, reason: &str) -> bool {
        let Some(id) = self.items.owner(item) else { return false };
        self.withheld.entry(id).or_insert_with(|| reason.to_owned());
        self.withheld.len() <= MOST_WITHHELD
    }
}
