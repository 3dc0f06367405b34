//! What is wanted, kept in step with the forwarding table: all things of all service ports.

use std::collections::{BTreeMap, BTreeSet};

use kernel::ipvs::What;
use model::{Family, ForwardingTable, Frontend, ServicePortId};

use super::Options;
use super::items::{Changes, Item, Items, Place};
use super::marks::Marks;
use super::render;
use super::render::port::{Rendered, Renderer};
use super::write::Trouble;
use crate::quarantine::{Accepted, Quarantine, UnknownPrior};

/// What is wanted.
#[derive(Clone, Debug, Default)]
pub(super) struct Wanted {
    pub(super) items: Items,
    pub(super) marks: Marks,
    /// Service ports that could not be written.
    pub(super) quarantine: Quarantine,
    pub(super) accepted: Accepted,
    /// While there are some, what a previous process left stays.
    pub(super) unknown_prior: UnknownPrior,
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
        self.accepted.forget();
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
            let Rendered { items, warnings, .. } = self.render_accepted(&renderer, id);
            self.items.replace(Some(id.clone()), items, &mut changes);
            self.warned.remove(id);
            if !warnings.is_empty() {
                self.warned.insert(id.clone(), warnings.join("; "));
            }
        }
        self.items.replace(None, render::of_nobody(desired, families), &mut changes);
        changes
    }

    /// One that cannot be written stays as it was.
    fn render_accepted(&mut self, renderer: &Renderer<'_>, id: &ServicePortId) -> Rendered {
        let mut result = self.render_port(renderer, id);
        while let Some(reason) = result.refusal.take() {
            self.unknown_prior.quarantined(id);
            if !self.quarantine.add(renderer.table, id, self.accepted.before(id), reason) {
                return Rendered::default();
            }
            result = self.render_port(renderer, id);
        }
        result
    }

    fn render_port(&mut self, renderer: &Renderer<'_>, id: &ServicePortId) -> Rendered {
        let port = self.quarantine.wanted(renderer.table, id);
        self.accepted.write(id, port.clone());
        let Some(port) = port else {
            for family in Family::ALL {
                self.marks.take_back(id, family);
            }
            return Rendered::default();
        };
        renderer.port(&port, &mut self.marks)
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

    /// Whoever needs one of these is quarantined, with the reason. Gives back what nobody needs for himself alone. The first reason is the
    /// one to tell: without its virtual server, a real server is refused as well. All service ports are looked through once, however
    /// much was refused.
    pub(super) fn quarantine_owners<'a>(
        &mut self,
        desired: &ForwardingTable,
        refused: &'a [Trouble],
    ) -> Option<&'a Trouble> {
        let mut places: BTreeMap<&Item, usize> = BTreeMap::new();
        for (place, trouble) in refused.iter().enumerate() {
            places.entry(&trouble.item).or_insert(place);
        }
        let mut owned = BTreeSet::new();
        for (id, items) in self.items.by_owner() {
            let found: BTreeSet<usize> = items.iter().filter_map(|item| places.get(item).copied()).collect();
            if let Some(first) = found.first() {
                self.unknown_prior.quarantined(id);
                self.quarantine.add(desired, id, self.accepted.before(id), refused[*first].reason.clone());
            }
            owned.extend(found);
        }
        refused.iter().find(|trouble| !owned.contains(&places[&trouble.item]))
    }

    /// Virtual servers of somebody else were there where these Services are dialled.
    pub(super) fn warn_of_strangers(&mut self, strangers: &BTreeSet<What>) {
        if strangers.is_empty() {
            return;
        }
        for (id, items) in self.items.by_owner() {
            let is_stranger = |what: &&What| strangers.contains(*what);
            let whats = items
                .iter()
                .filter_map(|item| if let Item::Server(one) = item { Some(&one.what) } else { None });
            for what in whats.filter(is_stranger) {
                let text = format!(
                    "a virtual server at {what} was there before, and not ours: it is this Service's now, with its endpoints, and \
                     goes with it"
                );
                let told = self.warned.entry(id.clone()).or_default();
                if !told.contains(&text) {
                    let both = [std::mem::take(told), text];
                    *told = both.iter().filter(|one| !one.is_empty()).cloned().collect::<Vec<_>>().join("; ");
                }
            }
        }
    }
}
