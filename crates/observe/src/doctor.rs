//! `portway doctor`, and the checks of a running portway: preconditions of this host that no rule of ours can make up for.
//!
//! In: the picture of this node. Out: findings. [`Sample::of`] takes from the picture what the checks need, bounded, so that the cost
//! does not follow the cluster; [`Doctor::examine`] reads the host and runs the checks of the mode, which `dataplane::checks` has.

use std::collections::{BTreeMap, BTreeSet};

use dataplane::checks::{self, Conditions, Finding, NodeFacts, Path, SAMPLE_MAX, Severity, Subject};
use dataplane::{Mode, registry};
use kernel::forward_filter::Filter;
use kernel::xtables::Variant;
use model::facts::{Fact, Node};
use model::fate::OneOf;
use model::object::Read;
use model::{ForwardingTable, Packet, Promises, ServiceName};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use standalone::objects::{Kind, Object, ObjectKey};

use crate::picture::Picture;

/// EndpointSlices that are searched for endpoints on this host by another name.
const SLICES_MAX: usize = 10_000;

/// What of a picture the checks look at.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// A part of the table.
    pub table: ForwardingTable,
    /// What is known of the Node.
    pub node: NodeFacts,
}

/// Runs the checks of one mode on this host.
#[derive(Clone, Debug)]
pub struct Doctor {
    /// The mode.
    pub mode: Mode,
    /// The iptables program that it writes with, where one runs.
    pub program: Option<Variant>,
    /// The bit of the packet mark that hides sources.
    pub masquerade_bit: u8,
    /// What the mode does where Kubernetes leaves the choice.
    pub promises: Promises,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Examined {
    /// What is wrong, the worst first.
    pub findings: Vec<Finding>,
    /// How many example packets were tried.
    pub packets: usize,
    /// What could not be read.
    pub unread: Vec<String>,
}

/// A finding for people and programs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FindingStatus {
    /// The check.
    pub check: String,
    /// `error` or `possible`.
    pub severity: String,
    /// Why packets are lost.
    pub cause: String,
    /// The packet that is lost, or the kind of traffic.
    pub traffic: String,
    /// The command that helps.
    pub fix: String,
}

impl From<&Finding> for FindingStatus {
    fn from(finding: &Finding) -> Self {
        Self {
            check: finding.check.to_owned(),
            severity: finding.severity.name().to_owned(),
            cause: finding.cause.clone(),
            traffic: finding.traffic.clone(),
            fix: finding.fix.clone(),
        }
    }
}

impl FindingStatus {
    /// Whether it names a packet that is lost.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error.name()
    }
}

impl std::fmt::Display for FindingStatus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { check, severity, cause, traffic, fix } = self;
        write!(f, "{check} ({severity}): {cause}. Affected: {traffic}. Fix: {fix}")
    }
}

impl Sample {
    /// What the checks need of this picture. `is_node_told`: an API server has told whether there is a Node of our name.
    pub fn of(picture: &Picture, is_node_told: bool) -> Self {
        Self { table: picture.table().sample(SAMPLE_MAX), node: node_facts(picture, is_node_told) }
    }
}

impl Doctor {
    /// Reads this host and runs the checks.
    pub fn examine(&self, sample: &Sample) -> Examined {
        let conditions = self.conditions();
        let mut paths = checks::paths(&conditions, &sample.table, &self.promises);
        self.ask_filter(&mut paths);
        self.judge(sample, conditions, &paths)
    }

    /// Runs the checks on what was read.
    fn judge(&self, sample: &Sample, conditions: Conditions, paths: &[Path]) -> Examined {
        let (table, node) = (&sample.table, &sample.node);
        let subject = Subject { conditions: &conditions, table, promises: &self.promises, node, paths };
        let findings = checks::examine(self.mode.checks(), &subject);
        Examined { findings, packets: paths.len(), unread: conditions.unread }
    }

    /// What stops this very packet on this host, the worst first.
    pub fn decides(&self, table: &ForwardingTable, packet: &Packet, one_of: &OneOf) -> Vec<Finding> {
        let conditions = self.conditions();
        let mut paths = checks::paths_of(&conditions, table, packet, one_of);
        self.ask_filter(&mut paths);
        let mut findings: Vec<Finding> =
            paths.iter().flat_map(|path| checks::decides(self.mode.checks(), &conditions, path)).collect();
        findings.sort();
        findings.dedup_by(|a, b| (a.check, &a.cause) == (b.check, &b.cause));
        findings
    }

    /// What makes this host another Node than its packets are for, the worst first.
    pub fn decides_node(&self, picture: &Picture) -> Vec<Finding> {
        let (sample, conditions) = (Sample::of(picture, true), self.conditions());
        let (table, node) = (&sample.table, &sample.node);
        let subject = Subject { conditions: &conditions, table, promises: &self.promises, node, paths: &[] };
        checks::examine(&[checks::NODE_ADDRESS, checks::NODE_NAME], &subject)
    }

    fn conditions(&self) -> Conditions {
        Conditions::read(registry::serving_signs(), &|served| self.mode.owns(served, self.program))
    }

    /// Only where the mode's packets pass the forward hook.
    fn ask_filter(&self, paths: &mut [Path]) {
        if self.mode.checks().any(|check| check.name == checks::FORWARD_FILTER.name) {
            let mut filter = Filter::default();
            for path in paths {
                path.ask(&mut filter, 1 << self.masquerade_bit);
            }
        }
    }
}

fn node_facts(picture: &Picture, is_node_told: bool) -> NodeFacts {
    let config = picture.cluster().config();
    let is_known = picture.cluster().node().is_some() && !picture.is_node_of_host();
    let mut facts = NodeFacts {
        name: config.node_name.clone(),
        is_known,
        has_chosen_ips: !config.node_ips.is_empty(),
        is_unknown_to_server: picture.is_trimmed() && is_node_told && !is_known,
        ..NodeFacts::default()
    };
    if is_known {
        return facts;
    }
    let nodes = of_kind(picture, Kind::Node).filter_map(|object| node(&object.value));
    facts.others = nodes
        .map(|node| (node.name.to_string(), node.addresses))
        .filter(|(name, _)| *name != facts.name)
        .collect();
    let own = picture.cluster().local_addresses();
    let same_host =
        facts.same_host(|ip| own.is_some_and(|own| own.contains(ip))).map(|(name, _)| name.clone());
    facts.services_of = same_host
        .map(|name| (name.clone(), services_on(picture, &name)))
        .into_iter()
        .collect::<BTreeMap<_, _>>();
    facts
}

fn node(value: &Value) -> Option<Node> {
    match model::object::read(value) {
        Read::Fact(Fact::Node(node)) => Some(node),
        _ => None,
    }
}

/// The Services with an endpoint on the node of this name.
fn services_on(picture: &Picture, node: &str) -> BTreeSet<ServiceName> {
    let service = |object: &Object| {
        let endpoints = object.value.get("endpoints")?.as_array()?;
        let is_there = |endpoint: &Value| endpoint.get("nodeName").and_then(Value::as_str) == Some(node);
        let label = object.value.get("metadata")?.get("labels")?.get(model::object::SERVICE_NAME_LABEL)?;
        endpoints
            .iter()
            .any(is_there)
            .then(|| ServiceName::new(&object.key.namespace, label.as_str().unwrap_or_default()))
    };
    of_kind(picture, Kind::EndpointSlice).take(SLICES_MAX).filter_map(service).collect()
}

/// The objects of one kind; they stand together.
fn of_kind(picture: &Picture, kind: Kind) -> impl Iterator<Item = &Object> {
    let first = ObjectKey { kind, namespace: "".into(), name: "".into() };
    picture
        .objects()
        .range(first..)
        .map(|(_, object)| object)
        .take_while(move |object| object.key.kind == kind)
}

#[cfg(test)]
mod tests {
    use model::Config;
    use serde_json::json;

    use super::*;
    use crate::picture::Snapshot;

    fn object(kind: Kind, value: Value) -> (ObjectKey, Object) {
        let key = ObjectKey::of(kind, &value).expect("it has a name");
        (key.clone(), Object { key, origin: None, value: value.into() })
    }

    fn node(name: &str, ip: &str) -> (ObjectKey, Object) {
        let addresses = json!([{ "type": "InternalIP", "address": ip }]);
        object(
            Kind::Node,
            json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": name }, "status": { "addresses": addresses } }),
        )
    }

    fn slice(name: &str, node: &str) -> (ObjectKey, Object) {
        let labels = json!({ model::object::SERVICE_NAME_LABEL: name });
        object(
            Kind::EndpointSlice,
            json!({
                "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
                "metadata": { "name": name, "namespace": "default", "labels": labels },
                "endpoints": [{ "addresses": ["10.244.1.5"], "nodeName": node }],
            }),
        )
    }

    fn facts(name: &str, objects: Vec<(ObjectKey, Object)>, is_trimmed: bool) -> NodeFacts {
        let picture = Picture::of(Snapshot {
            config: Config { node_name: name.to_owned(), ..Config::default() },
            objects: objects.into_iter().collect(),
            is_trimmed,
            problems: Vec::new(),
            reports: Vec::new(),
            local_addresses: Some(["192.0.2.10".parse().expect("it is an address")].into()),
            described: None,
            traffic: Vec::new(),
        });
        Sample::of(&picture, true).node
    }

    #[test]
    fn a_host_that_is_a_node_by_another_name_knows_whose_endpoints_are_here() {
        let objects =
            || vec![node("b", "192.0.2.10"), node("c", "192.0.2.11"), slice("web", "b"), slice("shop", "c")];
        let known = facts("b", objects(), false);
        assert!(known.is_known && known.others.is_empty(), "{known:?}");
        let unknown = facts("a", objects(), false);
        assert!(!unknown.is_known && !unknown.is_unknown_to_server, "{unknown:?}");
        assert_eq!(unknown.others.keys().collect::<Vec<_>>(), ["b", "c"]);
        assert_eq!(
            unknown.services_of,
            [("b".to_owned(), [ServiceName::new("default", "web")].into())].into()
        );
        let of_server = facts("a", Vec::new(), true);
        assert!(of_server.is_unknown_to_server, "{of_server:?}");
    }
}
