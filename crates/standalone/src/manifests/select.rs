//! Finds the objects that mean something to us.
//!
//! In: documents as values. Out: Services, slices, Pods, Nodes and `ServiceCIDR`s, those inside of lists too, each with
//! its key; and what is wrong with the others.
//!
//! A folder of manifests holds much that is not ours: Deployments, or a `Service` of Knative. They are passed over in
//! silence. What looks as if it were meant for us, and cannot be used, is a problem.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::objects::{Kind, ObjectKey};

/// Lists inside of lists; `kubectl` never writes even two.
const LIST_DEPTH_MAX: usize = 8;

/// What is said at most about one file: a wrong file is as well described by a hundred sentences as by a million.
const PROBLEMS_MAX: usize = 100;

/// The annotation in which `kubectl apply` keeps a second copy of the object.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The kinds of `v1`: one that is not among them is a typing error.
const CORE_KINDS: [&str; 18] = [
    "Binding",
    "ComponentStatus",
    "ConfigMap",
    "Endpoints",
    "Event",
    "LimitRange",
    "List",
    "Namespace",
    "Node",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "Pod",
    "PodTemplate",
    "ReplicationController",
    "ResourceQuota",
    "Secret",
    "Service",
    "ServiceAccount",
];

/// What to write in the place of `Endpoints`, which Kubernetes itself has given up.
const USE_SLICES: &str = "write an `EndpointSlice` (`apiVersion: discovery.k8s.io/v1`) with the label \
                          `kubernetes.io/service-name`, which has taken its place";

/// An object that means something to us.
#[derive(Debug)]
pub(super) struct Found {
    /// The line on which its document begins.
    pub(super) line: usize,
    /// Which object.
    pub(super) key: ObjectKey,
    /// What it says, without the copies that tools keep in it.
    pub(super) value: Arc<Value>,
}

/// What a file holds.
#[derive(Debug, Default)]
pub(super) struct Selection {
    /// The objects, in their order.
    pub(super) objects: Vec<Found>,
    /// What is wrong, with the line.
    pub(super) problems: Vec<(usize, String)>,
    unsaid: usize,
    unusable: usize,
    /// Documents that may be objects of ours with a typing error in their kind, version or name.
    pub(super) misspelt: BTreeSet<Misspelt>,
}

/// A document that is no object of ours as it is written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Misspelt {
    pub(super) line: usize,
    pub(super) namespace: Box<str>,
}

impl Selection {
    /// Takes what means something from a document.
    pub(super) fn take(&mut self, line: usize, document: Value) {
        self.select(&Item { line, depth: 0, inherited: None }, document);
    }

    /// Closes the selection.
    pub(super) fn finish(mut self) -> Self {
        if self.unsaid > 0 {
            self.problems.push((0, format!("{} more problems in this file", self.unsaid)));
        }
        self
    }

    /// How many documents and items of lists cannot be used.
    pub(super) fn unusable(&self) -> usize {
        self.unusable
    }

    fn select(&mut self, item: &Item, value: Value) {
        match value {
            Value::Null => {}
            Value::Object(object) => self.select_object(item, object),
            other => self.object_to(item, format!("{} is no object; remove it", shown(&other.to_string()))),
        }
    }

    fn select_object(&mut self, item: &Item, mut object: Map<String, Value>) {
        item.bequeath(&mut object);
        match Role::of(text(&object, "kind"), text(&object, "apiVersion")) {
            Role::Ours(kind) => self.keep(item, kind, object),
            Role::List => self.select_items(item, None, object),
            Role::ListOf(kind) => {
                let api_version = text(&object, "apiVersion").to_owned();
                self.select_items(item, Some(&(kind, api_version)), object);
            }
            Role::Other => {}
            Role::NotRead(reason) => self.object_to(item, reason),
            Role::Wrong(reason) => self.misspelt(item, &object, reason),
        }
    }

    fn misspelt(&mut self, item: &Item, object: &Map<String, Value>, reason: String) {
        let namespace = object.get("metadata").and_then(|metadata| metadata.get("namespace")?.as_str());
        let namespace = namespace.unwrap_or("default").into();
        if self.misspelt.len() < PROBLEMS_MAX {
            self.misspelt.insert(Misspelt { line: item.line, namespace });
        }
        self.object_to(item, reason);
    }

    fn select_items(
        &mut self,
        item: &Item,
        inherited: Option<&(Kind, String)>,
        mut list: Map<String, Value>,
    ) {
        if item.depth == LIST_DEPTH_MAX {
            return self.object_to(
                item,
                format!("more than {LIST_DEPTH_MAX} lists inside of each other; unpack them"),
            );
        }
        match list.remove("items") {
            None | Some(Value::Null) => {}
            Some(Value::Array(items)) => {
                for value in items {
                    let inherited = inherited.cloned();
                    self.select(&Item { line: item.line, depth: item.depth + 1, inherited }, value);
                }
            }
            Some(other) => {
                self.object_to(
                    item,
                    format!("`items` {} is no list; write a list of objects", shown(&other.to_string())),
                );
            }
        }
    }

    fn keep(&mut self, item: &Item, kind: Kind, object: Map<String, Value>) {
        let mut value = Value::Object(object);
        match (ObjectKey::of(kind, &value), &mut value) {
            (Ok(key), value) => {
                drop_copies(value);
                self.objects.push(Found { line: item.line, key, value: Arc::new(value.take()) });
            }
            (Err(report), Value::Object(object)) => self.misspelt(item, object, report.to_string()),
            (Err(report), _) => self.object_to(item, report.to_string()),
        }
    }

    fn object_to(&mut self, item: &Item, reason: String) {
        self.unusable += 1;
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push((item.line, reason));
        } else {
            self.unsaid += 1;
        }
    }
}

/// Where an object stands.
struct Item {
    line: usize,
    depth: usize,
    /// In a `ServiceList` the items do not repeat what they are.
    inherited: Option<(Kind, String)>,
}

impl Item {
    fn bequeath(&self, object: &mut Map<String, Value>) {
        if let Some((kind, api_version)) = &self.inherited {
            object.entry("kind").or_insert_with(|| kind.name().into());
            object.entry("apiVersion").or_insert_with(|| api_version.as_str().into());
        }
    }
}

/// What an object is to us.
enum Role {
    Ours(Kind),
    List,
    ListOf(Kind),
    /// Well-formed, and nothing to us.
    Other,
    /// Well-formed and meant for us, but of a kind that is not read.
    NotRead(String),
    /// Meant for us, perhaps, and misspelt.
    Wrong(String),
}

impl Role {
    fn of(kind: &str, api_version: &str) -> Self {
        if kind.is_empty() {
            return Role::Wrong("no `kind`: write what it is, as in `kind: Service`".into());
        }
        if api_version.is_empty() {
            return Role::Wrong(without_api_version(kind));
        }
        if let Some(ours) = Kind::parse(kind) {
            return Self::of_ours(ours, api_version);
        }
        if (kind, api_version) == ("List", "v1") {
            return Role::List;
        }
        if api_version == "v1" && matches!(kind, "Endpoints" | "EndpointsList") {
            return Role::NotRead(format!("kind `{kind}` is not read: {USE_SLICES}"));
        }
        match kind.strip_suffix("List").and_then(Kind::parse) {
            Some(ours) if api_versions(ours).contains(&api_version) => Role::ListOf(ours),
            _ if is_unknown(kind, api_version) => Role::Wrong(unknown_kind(kind, api_version)),
            _ => Role::Other,
        }
    }

    fn of_ours(kind: Kind, api_version: &str) -> Self {
        let known = api_versions(kind);
        if known.contains(&api_version) {
            Role::Ours(kind)
        } else if group(api_version) == group(known[0]) || !is_somebody_elses(kind, api_version) {
            Role::Wrong(format!("`apiVersion` {} is not read; write `{}`", shown(api_version), known[0]))
        } else {
            Role::Other
        }
    }
}

/// The versions in which a kind is read, the best first.
fn api_versions(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::Service | Kind::Pod | Kind::Node => &["v1"],
        Kind::EndpointSlice => &["discovery.k8s.io/v1"],
        // The fields are the same in both.
        Kind::ServiceCidr => &["networking.k8s.io/v1", "networking.k8s.io/v1beta1"],
    }
}

/// Other projects have kinds of the same name, in groups of their own: Knative's `Service`. Slices and CIDRs are Kubernetes' alone.
fn is_somebody_elses(kind: Kind, api_version: &str) -> bool {
    matches!(kind, Kind::Service | Kind::Pod | Kind::Node) && group(api_version).contains('.')
}

fn group(api_version: &str) -> &str {
    api_version.rsplit_once('/').map_or("", |(group, _)| group)
}

/// The group of slices has no other kind.
fn is_unknown(kind: &str, api_version: &str) -> bool {
    let item = kind.strip_suffix("List").filter(|k| !k.is_empty()).unwrap_or(kind);
    match group(api_version) {
        "" => api_version == "v1" && !CORE_KINDS.contains(&item),
        group => group == "discovery.k8s.io" && item != Kind::EndpointSlice.name(),
    }
}

fn without_api_version(kind: &str) -> String {
    let mut reason = format!("kind {} without `apiVersion`", shown(kind));
    if let Some(ours) = Kind::parse(kind) {
        let _ = write!(reason, ": write `apiVersion: {}`", api_versions(ours)[0]);
    }
    reason
}

fn unknown_kind(kind: &str, api_version: &str) -> String {
    let known: Vec<_> = Kind::ALL.iter().map(|kind| format!("`{}`", kind.name())).collect();
    let (kind, api_version) = (shown(kind), shown(api_version));
    format!("unknown kind {kind} of {api_version}; read are {} and `List`", known.join(", "))
}

fn text<'a>(object: &'a Map<String, Value>, field: &str) -> &'a str {
    object.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// Drops the copies of an object that tools keep in its own metadata: together they are larger than the rest.
fn drop_copies(object: &mut Value) {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    metadata.remove("managedFields");
    if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
        annotations.remove(LAST_APPLIED);
    }
}

/// A value in backticks: at most 80 characters of it, and none that moves a terminal's cursor.
pub(super) fn shown(value: &str) -> String {
    const LONGEST: usize = 80;
    let mut shown = String::from("`");
    for c in value.chars().take(LONGEST) {
        if c.is_control() { shown.extend(c.escape_default()) } else { shown.push(c) }
    }
    shown.push_str(if value.chars().nth(LONGEST).is_some() { "…`" } else { "`" });
    shown
}
