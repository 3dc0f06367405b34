//! What the kernel shall hold, as data: single things, counted by how many service ports need each.
//!
//! In: the things of one service port, or those that were found in a kernel. Out: what must come, and what must go.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use kernel::IpProtocol;
use kernel::ipset::Entry;
use kernel::ipvs::{VirtualServer, What};
use model::{Family, Frontend, ServicePortId};

use super::names::SetId;

/// Where something is dialled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The address.
    pub ip: IpAddr,
    /// The protocol.
    pub protocol: IpProtocol,
    /// The port.
    pub port: u16,
}

impl Place {
    /// As an entry of a set.
    pub(super) fn entry(self) -> Entry {
        Entry::IpPort(self.ip, self.protocol, self.port)
    }

    /// As a virtual server.
    pub(super) fn what(self) -> What {
        What::Address(SocketAddr::new(self.ip, self.port), self.protocol)
    }
}

/// One thing that the kernel shall hold.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Item {
    /// An entry of a set.
    Entry(Family, SetId, Entry),
    /// A virtual server.
    Server(VirtualServer),
    /// A real server behind it, with its weight.
    Real(What, SocketAddr, u32),
    /// An address of the interface.
    Address(IpAddr),
    /// What comes from outside to a place gets this mark.
    Outside(Place, u32),
}

impl Item {
    /// The frontend of a virtual server by address, as if it were no node port.
    pub(super) fn frontend(&self) -> Option<Frontend> {
        let Item::Server(VirtualServer { what: What::Address(at, protocol), .. }) = self else { return None };
        Some(Frontend::Address { ip: at.ip(), protocol: protocol.transport()?, port: at.port() })
    }
}

/// What must come, and what must go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delta {
    /// It is not there and shall be.
    pub added: BTreeSet<Item>,
    /// It is there and shall not be.
    pub removed: BTreeSet<Item>,
}

impl Delta {
    /// From one to the other.
    pub(super) fn between(before: &BTreeSet<Item>, after: &BTreeSet<Item>) -> Self {
        Self {
            added: after.difference(before).cloned().collect(),
            removed: before.difference(after).cloned().collect(),
        }
    }

    /// Whether rules are different by it.
    pub(super) fn changes_outside(&self) -> bool {
        self.added.iter().chain(&self.removed).any(|item| matches!(item, Item::Outside(..)))
    }
}

/// Whose things they are. What belongs to no service port is everybody's.
type Owner = Option<ServicePortId>;

/// All things, by whom they are for.
#[derive(Clone, Debug, Default)]
pub(super) struct Items {
    of: BTreeMap<Owner, Vec<Item>>,
    counts: BTreeMap<Item, u32>,
}

impl Items {
    /// An owner needs these now, and no others.
    pub(super) fn replace(&mut self, owner: Owner, mut items: Vec<Item>, changes: &mut Changes) {
        items.sort();
        items.dedup();
        for item in &items {
            let count = self.counts.entry(item.clone()).or_insert(0);
            changes.note(item, *count);
            *count += 1;
        }
        let before = if items.is_empty() { self.of.remove(&owner) } else { self.of.insert(owner, items) };
        for item in before.unwrap_or_default() {
            let Some(count) = self.counts.get_mut(&item) else { continue };
            changes.note(&item, *count);
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&item);
            }
        }
    }

    /// Each thing once.
    pub(super) fn all(&self) -> BTreeSet<Item> {
        self.counts.keys().cloned().collect()
    }

    /// Whether anybody needs this.
    pub(super) fn has(&self, item: &Item) -> bool {
        self.counts.contains_key(item)
    }

    /// The service ports that have something.
    pub(super) fn owners(&self) -> impl Iterator<Item = &ServicePortId> {
        self.of.keys().flatten()
    }

    /// What a service port needs.
    pub(super) fn of(&self, id: &ServicePortId) -> &[Item] {
        self.of.get(&Some(id.clone())).map(Vec::as_slice).unwrap_or_default()
    }

    /// What each service port needs, in order.
    pub(super) fn by_owner(&self) -> impl Iterator<Item = (&ServicePortId, &[Item])> {
        self.of.iter().filter_map(|(owner, items)| Some((owner.as_ref()?, items.as_slice())))
    }

    /// The addresses of the interface.
    pub(super) fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        let first = Item::Address(IpAddr::from([0; 4]));
        self.counts
            .range(first..)
            .map_while(|(item, _)| if let Item::Address(ip) = item { Some(*ip) } else { None })
    }

    /// The virtual server of this name.
    pub(super) fn server(&self, what: &What) -> Option<&VirtualServer> {
        let first = Item::Server(VirtualServer { client_bits: 0, ..VirtualServer::new(*what, "") });
        match self.counts.range(first..).next() {
            Some((Item::Server(server), _)) if server.what == *what => Some(server),
            _ => None,
        }
    }

    /// The places whose outside is marked, with their marks.
    pub(super) fn outside(&self) -> impl Iterator<Item = (Place, u32)> {
        // They are the last in order.
        let outside = self.counts.keys().rev().map_while(|item| match item {
            Item::Outside(place, mark) => Some((*place, *mark)),
            _ => None,
        });
        outside.collect::<Vec<_>>().into_iter().rev()
    }

    /// What has changed.
    pub(super) fn delta(&self, changes: &Changes) -> Delta {
        let mut delta = Delta::default();
        for (item, had) in &changes.0 {
            match (had, self.counts.contains_key(item)) {
                (false, true) => drop(delta.added.insert(item.clone())),
                (true, false) => drop(delta.removed.insert(item.clone())),
                _ => {}
            }
        }
        delta
    }
}

/// Which things were touched, and whether they were there before.
#[derive(Debug, Default)]
pub(super) struct Changes(BTreeMap<Item, bool>);

impl Changes {
    fn note(&mut self, item: &Item, count: u32) {
        self.0.entry(item.clone()).or_insert(count > 0);
    }
}
