//! Who holds what: the sum of all records.
//!
//! It changes by records alone, so what is in memory and what a replay of the file gives are the same.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use model::ServiceName;

use super::record::{Record, Resource, Slot};

/// Who holds what.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    tenants: BTreeMap<ServiceName, Tenant>,
    holders: BTreeMap<Resource, (ServiceName, Slot)>,
}

/// A Service that was ever seen.
#[derive(Debug, Default)]
pub(crate) struct Tenant {
    /// In seconds since 1970.
    pub(crate) first_seen: i64,
    /// Since when no manifest has it.
    pub(crate) absent_since: Option<i64>,
    /// What is its own. One slot may have several: only one of them is inside the ranges of today.
    pub(crate) holdings: BTreeSet<(Slot, Resource)>,
}

impl Ledger {
    /// Takes in a record. Returns the Services whose holdings it changed.
    pub(crate) fn apply(&mut self, record: &Record) -> Vec<ServiceName> {
        match record {
            Record::Seen { service, at } => {
                self.tenants.entry(service.clone()).or_default().first_seen = *at;
                Vec::new()
            }
            Record::Absent { service, at } => self.set_absent(service, Some(*at)),
            Record::Present { service } => self.set_absent(service, None),
            Record::Hold { service, slot, resource } => {
                let mut changed = self.free(resource);
                self.tenants.entry(service.clone()).or_default().holdings.insert((*slot, *resource));
                self.holders.insert(*resource, (service.clone(), *slot));
                changed.push(service.clone());
                changed
            }
            Record::Free { resource } => self.free(resource),
        }
    }

    /// The records that make this ledger out of an empty one. A Service that is gone and holds nothing is forgotten.
    pub(crate) fn records(&self) -> Vec<Record> {
        let mut records = Vec::new();
        for (service, tenant) in &self.tenants {
            if tenant.absent_since.is_some() && tenant.holdings.is_empty() {
                continue;
            }
            records.push(Record::Seen { service: service.clone(), at: tenant.first_seen });
            records.extend(tenant.absent_since.map(|at| Record::Absent { service: service.clone(), at }));
            let hold = |&(slot, resource)| Record::Hold { service: service.clone(), slot, resource };
            records.extend(tenant.holdings.iter().map(hold));
        }
        records
    }

    /// A Service that was ever seen.
    pub(crate) fn tenant(&self, service: &ServiceName) -> Option<&Tenant> {
        self.tenants.get(service)
    }

    /// All of them.
    pub(crate) fn tenants(&self) -> impl Iterator<Item = (&ServiceName, &Tenant)> {
        self.tenants.iter()
    }

    /// Whose is it?
    pub(crate) fn holder(&self, resource: &Resource) -> Option<&ServiceName> {
        self.holders.get(resource).map(|(service, _)| service)
    }

    /// What is held from the first to the last of these, in order.
    pub(crate) fn held_between(&self, first: Resource, last: Resource) -> impl Iterator<Item = &Resource> {
        self.holders.range(first..=last).map(|(resource, _)| resource)
    }

    /// All addresses that Services hold.
    pub(crate) fn held_addresses(&self) -> BTreeSet<IpAddr> {
        self.holders.keys().filter_map(Resource::address).collect()
    }

    /// The Services that hold something else here than in `other`.
    pub(crate) fn changed_since(&self, other: &Ledger) -> BTreeSet<ServiceName> {
        let holdings = |ledger: &Self, name| {
            ledger.tenant(name).map(|tenant| tenant.holdings.clone()).unwrap_or_default()
        };
        let names = self.tenants.keys().chain(other.tenants.keys());
        names.filter(|name| holdings(self, name) != holdings(other, name)).cloned().collect()
    }

    /// How many records it would take to write it down, at least.
    pub(crate) fn weight(&self) -> usize {
        self.tenants.len() + self.holders.len()
    }

    fn set_absent(&mut self, service: &ServiceName, since: Option<i64>) -> Vec<ServiceName> {
        if let Some(tenant) = self.tenants.get_mut(service) {
            tenant.absent_since = since;
        }
        Vec::new()
    }

    fn free(&mut self, resource: &Resource) -> Vec<ServiceName> {
        let Some((service, slot)) = self.holders.remove(resource) else { return Vec::new() };
        if let Some(tenant) = self.tenants.get_mut(&service) {
            tenant.holdings.remove(&(slot, *resource));
        }
        vec![service]
    }
}
