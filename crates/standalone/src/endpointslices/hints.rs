//! `trafficDistribution` → for which zones and nodes an endpoint is meant.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::pod::Pod;

/// The label of a Node that names its zone.
pub(crate) const ZONE_LABEL: &str = "topology.kubernetes.io/zone";

/// The zone of each Node.
pub(crate) type Zones = BTreeMap<Box<str>, Box<str>>;

/// `spec.trafficDistribution`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Distribution {
    /// `PreferSameZone`, and `PreferClose`, its older name.
    SameZone,
    /// `PreferSameNode`.
    SameNode,
}

impl Distribution {
    /// Reads it. `Err` with the value when it is an unknown one.
    pub(crate) fn read(spec: &Value) -> Result<Option<Self>, String> {
        match &spec["trafficDistribution"] {
            Value::Null => Ok(None),
            value if value == "" => Ok(None),
            value if value == "PreferClose" || value == "PreferSameZone" => Ok(Some(Self::SameZone)),
            value if value == "PreferSameNode" => Ok(Some(Self::SameNode)),
            value => Err(value.as_str().map_or_else(|| value.to_string(), str::to_owned)),
        }
    }
}

/// How the endpoints of a Service are hinted at.
#[derive(Debug)]
pub(crate) struct Hinting<'a> {
    distribution: Option<Distribution>,
    zones: &'a Zones,
    /// A service proxy uses zone hints only when all usable endpoints have one, so half of them would be noise.
    every_ready_pod_has_a_zone: bool,
}

impl<'a> Hinting<'a> {
    /// For a Service whose ready Pods are these.
    pub(crate) fn new<'p>(
        distribution: Option<Distribution>,
        zones: &'a Zones,
        mut ready: impl Iterator<Item = &'p Pod>,
    ) -> Self {
        let every_ready_pod_has_a_zone = ready.all(|pod| zone_of(zones, pod).is_some());
        Self { distribution, zones, every_ready_pod_has_a_zone }
    }

    /// The `zone` of a Pod's endpoint. Only where hints are asked for, so that other Services need not care about Nodes.
    pub(crate) fn zone(&self, pod: &Pod) -> Option<&str> {
        self.distribution.and_then(|_| zone_of(self.zones, pod))
    }

    /// The `hints` of a ready Pod's endpoint.
    pub(crate) fn hints(&self, pod: &Pod) -> Option<Value> {
        let distribution = self.distribution?;
        let mut hints = serde_json::Map::new();
        if self.every_ready_pod_has_a_zone
            && let Some(zone) = zone_of(self.zones, pod)
        {
            hints.insert("forZones".to_owned(), json!([{ "name": zone }]));
        }
        if distribution == Distribution::SameNode
            && let Some(node) = &pod.node
        {
            hints.insert("forNodes".to_owned(), json!([{ "name": &**node }]));
        }
        (!hints.is_empty()).then_some(Value::Object(hints))
    }
}

fn zone_of<'a>(zones: &'a Zones, pod: &Pod) -> Option<&'a str> {
    zones.get(pod.node.as_deref()?).map(|zone| &**zone)
}
