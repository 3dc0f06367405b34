//! A picture as JSON, and back.
//!
//! Written from borrowed objects straight to the socket: a huge cluster is never copied. Read with the same care as a file of
//! a stranger: what makes no sense is a sentence, never a panic.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::facts::Node;
use model::{ObjectRef, Report, Severity};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use standalone::objects::{Kind, Object, ObjectKey, Origin, Problem};

use super::choices::{WireConfig, nets, texts};
use crate::picture::Snapshot;
use crate::traffic::Traffic;

/// A [`Snapshot`], as it is written.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Picture<'a> {
    config: WireConfig,
    objects: Vec<WrittenObject<'a>>,
    is_trimmed: bool,
    problems: Vec<WireProblem>,
    reports: Vec<WireReport>,
    local_addresses: Option<&'a BTreeSet<IpAddr>>,
    described: Option<WireNode>,
    traffic: &'a [Traffic],
}

#[derive(Debug, Serialize)]
struct WrittenObject<'a> {
    kind: &'static str,
    origin: Option<WireOrigin>,
    value: &'a Value,
}

/// The same, as it is read.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReadPicture {
    config: WireConfig,
    objects: Vec<ReadObject>,
    #[serde(default)]
    is_trimmed: bool,
    problems: Vec<WireProblem>,
    reports: Vec<WireReport>,
    local_addresses: Option<BTreeSet<IpAddr>>,
    described: Option<WireNode>,
    #[serde(default)]
    traffic: Vec<Traffic>,
}

#[derive(Debug, Deserialize)]
struct ReadObject {
    kind: String,
    origin: Option<WireOrigin>,
    value: Value,
}

#[derive(Debug, Serialize, Deserialize)]
struct WireOrigin {
    file: PathBuf,
    line: usize,
}

#[derive(Debug, Serialize, Deserialize)]
struct WireProblem {
    origin: WireOrigin,
    message: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct WireReport {
    kind: String,
    name: String,
    field: String,
    value: String,
    problem: String,
    #[serde(default)]
    is_warning: bool,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireNode {
    name: String,
    zone: Option<String>,
    addresses: Vec<IpAddr>,
    pod_cidrs: Vec<String>,
}

impl<'a> Picture<'a> {
    pub(super) fn of(snapshot: &'a Snapshot) -> Self {
        Self {
            config: WireConfig::from(&snapshot.config),
            objects: snapshot.objects.values().map(WrittenObject::of).collect(),
            is_trimmed: snapshot.is_trimmed,
            problems: snapshot.problems.iter().map(WireProblem::of).collect(),
            reports: snapshot.reports.iter().map(WireReport::of).collect(),
            local_addresses: snapshot.local_addresses.as_ref(),
            described: snapshot.described.as_ref().map(WireNode::of),
            traffic: &snapshot.traffic,
        }
    }
}

impl<'a> WrittenObject<'a> {
    fn of(object: &'a Object) -> Self {
        let origin = object.origin.as_ref().map(WireOrigin::of);
        Self { kind: object.key.kind.name(), origin, value: &object.value }
    }
}

/// Reads a snapshot. The error is a sentence.
pub(super) fn read(answer: Value) -> Result<Snapshot, String> {
    let read: ReadPicture =
        serde_json::from_value(answer).map_err(|error| format!("its answer makes no sense: {error}"))?;
    let mut objects = BTreeMap::new();
    for object in read.objects {
        let object = object.read()?;
        objects.insert(object.key.clone(), object);
    }
    Ok(Snapshot {
        config: read.config.try_into()?,
        objects,
        is_trimmed: read.is_trimmed,
        problems: read.problems.into_iter().map(WireProblem::read).collect(),
        reports: read.reports.into_iter().map(WireReport::read).collect(),
        local_addresses: read.local_addresses,
        described: read.described.map(WireNode::read).transpose()?,
        traffic: read.traffic,
    })
}

impl ReadObject {
    fn read(self) -> Result<Object, String> {
        let kind = Kind::parse(&self.kind)
            .ok_or_else(|| format!("it knows a kind `{}`", self.kind.escape_debug()))?;
        let key = ObjectKey::of(kind, &self.value).map_err(|report| report.to_string())?;
        Ok(Object { key, origin: self.origin.map(WireOrigin::read), value: Arc::new(self.value) })
    }
}

impl WireOrigin {
    fn of(origin: &Origin) -> Self {
        // A name that is no UTF-8 is shown as well as it can be: JSON knows no other.
        Self { file: origin.file.to_string_lossy().into_owned().into(), line: origin.line }
    }

    fn read(self) -> Origin {
        Origin { file: Arc::<Path>::from(self.file), line: self.line }
    }
}

impl WireProblem {
    fn of(problem: &Problem) -> Self {
        Self { origin: WireOrigin::of(&problem.origin), message: problem.message.clone() }
    }

    fn read(self) -> Problem {
        Problem { origin: self.origin.read(), message: self.message }
    }
}

impl WireReport {
    fn of(report: &Report) -> Self {
        Self {
            kind: report.object.kind.to_owned(),
            name: report.object.name.to_string(),
            field: report.field.to_string(),
            value: report.value.to_string(),
            problem: report.problem.to_string(),
            is_warning: report.severity == Severity::Warning,
        }
    }

    fn read(self) -> Report {
        // The kinds of reports are constants of the program. What is no object of a manifest is the store.
        let kind = Kind::parse(&self.kind).map_or("Store", Kind::name);
        Report {
            object: ObjectRef { kind, name: self.name.into() },
            field: self.field.into(),
            value: self.value.into(),
            problem: self.problem.into(),
            severity: if self.is_warning { Severity::Warning } else { Severity::Error },
        }
    }
}

impl WireNode {
    fn of(node: &Node) -> Self {
        Self {
            name: node.name.to_string(),
            zone: node.zone.as_ref().map(ToString::to_string),
            addresses: node.addresses.clone(),
            pod_cidrs: texts(&node.pod_cidrs),
        }
    }

    fn read(self) -> Result<Node, String> {
        Ok(Node {
            name: self.name.into(),
            zone: self.zone.map(Into::into),
            addresses: self.addresses,
            pod_cidrs: nets(&self.pod_cidrs)?,
            is_leaving: false,
            reports: Vec::new(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traffic::Carried;
    use model::{Config, DetectLocal, NodePortAddress};
    use serde_json::json;

    fn snapshot() -> Snapshot {
        let value = json!({ "kind": "Service", "metadata": { "name": "web", "namespace": "default" } });
        let key = ObjectKey::of(Kind::Service, &value).unwrap();
        let origin = Origin { file: Path::new("a/b.yaml").into(), line: 7 };
        let object = Object { key: key.clone(), origin: Some(origin.clone()), value: Arc::new(value) };
        Snapshot {
            config: Config {
                node_name: "a".into(),
                node_ips: vec!["192.0.2.1".parse().unwrap()],
                detect_local: DetectLocal::ClusterCidr(vec!["10.244.0.0/16".parse().unwrap()]),
                masquerade_all: true,
                node_port_addresses: vec![
                    NodePortAddress::Primary,
                    NodePortAddress::Within("192.0.2.0/24".parse().unwrap()),
                ],
                service_proxy_name: Some("other".into()),
                allowed_external_ips: vec!["2001:db8::/32".parse().unwrap()],
                refuses_external_ips: true,
            },
            objects: [(key, object)].into(),
            is_trimmed: true,
            problems: vec![Problem { origin, message: "is wrong".into() }],
            reports: vec![Report::new(
                ObjectRef { kind: "Pod", name: "default/p".into() },
                "status.podIP",
                "x",
                "is no address",
            )],
            local_addresses: Some(["192.0.2.1".parse().unwrap()].into()),
            described: Some(Node {
                name: "a".into(),
                zone: Some("z".into()),
                addresses: vec!["fd00::1".parse().unwrap()],
                pod_cidrs: vec!["10.244.1.0/24".parse().unwrap()],
                is_leaving: false,
                reports: Vec::new(),
            }),
            traffic: vec![Traffic {
                service_port: "default/web:http/tcp".into(),
                family: "IPv4".into(),
                purpose: "cluster".into(),
                all: Carried { connections: 2, active: 1, ..Carried::default() },
                endpoints: vec![("10.244.0.2:8080".parse().unwrap(), Carried::default())],
            }],
        }
    }

    #[test]
    fn a_picture_is_read_as_it_was_written() {
        let written = serde_json::to_value(Picture::of(&snapshot())).unwrap();
        assert_eq!(read(written).unwrap(), snapshot());
    }

    #[test]
    fn nonsense_is_a_sentence() {
        let mut written = serde_json::to_value(Picture::of(&snapshot())).unwrap();
        written["objects"][0]["kind"] = "Gadget".into();
        assert!(read(written).unwrap_err().contains("Gadget"));
        assert!(read(json!({})).unwrap_err().contains("makes no sense"));
    }
}
