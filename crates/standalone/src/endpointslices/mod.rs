//! Makes the EndpointSlices of Services that have a selector, as the EndpointSlice controller of a cluster does.
//!
//! In: Services, Pods and the zones of Nodes, one change at a time. Out: which Services need their slices made anew, and
//! the slices. A Pod concerns only the Services that select it, a zone only those that ask for `trafficDistribution`.
//!
//! Absent on purpose: Services without a selector. Their slices are written by hand and used as they are.

mod hints;
mod pod;
mod ports;
mod select;
mod slices;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::{Family, ObjectRef, Report, ServiceName};
use serde_json::Value;

use self::hints::{Distribution, ZONE_LABEL, Zones};
use self::pod::Pod;
use self::select::{Index, Selector};
use self::slices::SliceSpec;
use crate::ipam::allocate::demand::is_headless;
use crate::objects::ObjectKey;

/// What is wrong with the values of a Pod.
pub(crate) fn malformed_values(key: &ObjectKey, pod: &Value) -> Vec<Report> {
    Pod::read(key, pod).reports
}

/// Everything that decides endpoints.
#[derive(Debug, Default)]
pub(crate) struct Endpoints {
    index: Index,
    specs: BTreeMap<ServiceName, SliceSpec>,
    zones: Zones,
    /// Services that ask for `trafficDistribution`.
    zone_watchers: BTreeSet<ServiceName>,
    reports: BTreeMap<ServiceName, Report>,
}

impl Endpoints {
    /// A Service is so now, and speaks these families.
    pub(crate) fn set_service(&mut self, name: &ServiceName, service: &Value, families: &[Family]) {
        self.remove_service(name);
        let spec = &service["spec"];
        let selector = Selector::read(spec).filter(|_| spec["type"] != "ExternalName");
        let distribution = Distribution::read(spec).unwrap_or_else(|value| {
            self.reports.insert(name.clone(), unknown_distribution(name, &value));
            None
        });
        if distribution.is_some() {
            self.zone_watchers.insert(name.clone());
        }
        self.index.set_selector(name, selector);
        self.specs.insert(
            name.clone(),
            SliceSpec {
                families: families.to_vec(),
                ports: ports::target_ports(spec),
                is_headless: is_headless(spec),
                publishes_not_ready: spec["publishNotReadyAddresses"] == Value::Bool(true),
                distribution,
            },
        );
    }

    /// A Service is gone.
    pub(crate) fn remove_service(&mut self, name: &ServiceName) {
        self.index.set_selector(name, None);
        self.specs.remove(name);
        self.zone_watchers.remove(name);
        self.reports.remove(name);
    }

    /// A Pod is so now, or gone. Returns the Services that it concerns.
    pub(crate) fn set_pod(&mut self, key: &ObjectKey, pod: Option<&Value>) -> BTreeSet<ServiceName> {
        let pod = pod.map(|pod| Pod::read(key, pod));
        self.index.set_pod(&key.namespace, &key.name, pod)
    }

    /// A Node is so now, or gone. Returns the Services that it concerns.
    pub(crate) fn set_node(&mut self, name: &str, node: Option<&Value>) -> BTreeSet<ServiceName> {
        let zone = node
            .and_then(|node| node["metadata"]["labels"][ZONE_LABEL].as_str())
            .filter(|zone| !zone.is_empty());
        let before = match zone {
            Some(zone) => self.zones.insert(name.into(), zone.into()),
            None => self.zones.remove(name),
        };
        if before.as_deref() == zone { BTreeSet::new() } else { self.zone_watchers.clone() }
    }

    /// The slices of a Service, by name.
    pub(crate) fn slices(&self, service: &ServiceName) -> BTreeMap<Box<str>, Arc<Value>> {
        let pods = self.index.pods_of(service);
        match self.specs.get(service) {
            Some(spec) => slices::slices(service, spec, &pods, &self.zones),
            None => BTreeMap::new(),
        }
    }

    /// What is malformed.
    pub(crate) fn reports(&self) -> impl Iterator<Item = &Report> {
        self.index.reports().chain(self.reports.values())
    }
}

fn unknown_distribution(name: &ServiceName, value: &str) -> Report {
    let problem = "must be PreferSameZone, PreferSameNode or PreferClose; all endpoints are used alike";
    Report::new(ObjectRef::service(name), "spec.trafficDistribution", value, problem)
}
