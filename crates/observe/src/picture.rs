//! The state of one node: objects, facts, table, and everything that is wrong with them.
//!
//! In: changes of objects, from any source; or a [`Snapshot`] of another process' picture. Out: a picture that the command
//! line shows and the loop acts upon.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use apiserver::Watched;
use model::facts::{Fact, Node};
use model::object::Read;
use model::time::Timestamp;
use model::{Changed, Cluster, Config, Delta, Event, ForwardingTable, Report};
use serde_json::Value;
use standalone::control_plane::{ControlPlane, Waiting};
use standalone::ipam::StoreError;
use standalone::manifests::Source;
use standalone::objects::{Change, Kind, Object, ObjectKey, Problem};

use crate::traffic::Traffic;

/// So many unusable objects of a kind are told.
const UNREADABLE_MAX: usize = 100;

static NO_OBJECTS: BTreeMap<ObjectKey, Object> = BTreeMap::new();

/// The state of one node.
#[derive(Debug)]
pub struct Picture {
    cluster: Cluster,
    table: ForwardingTable,
    keeper: Keeper,
    file_problems: Vec<Problem>,
    /// The Node that stands for this host where no object does.
    described: Option<Node>,
    traffic: Vec<Traffic>,
}

/// Who keeps the objects.
#[derive(Debug)]
enum Keeper {
    /// We do, and complete them.
    ControlPlane(Box<ControlPlane>),
    /// The API server. Here are only facts.
    Server { reports: BTreeMap<Watched, Vec<Report>> },
    /// Another process, which completed them; or made them of facts.
    Other { objects: BTreeMap<ObjectKey, Object>, reports: Vec<Report>, is_trimmed: bool },
}

/// Everything that a picture is made of, so that another process sees the same one. Objects are shared, not copied.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// The operator's choices.
    pub config: Config,
    /// The objects, completed.
    pub objects: BTreeMap<ObjectKey, Object>,
    /// They were made of facts, and say no more than these.
    pub is_trimmed: bool,
    /// What is wrong with files.
    pub problems: Vec<Problem>,
    /// What is wrong with objects beyond what they say themselves: refused addresses, malformed Pods.
    pub reports: Vec<Report>,
    /// The addresses of the host, where they are known.
    pub local_addresses: Option<BTreeSet<IpAddr>>,
    /// The Node that stands for the host where no object does.
    pub described: Option<Node>,
    /// What the relay has carried, where there is one.
    pub traffic: Vec<Traffic>,
}

impl Picture {
    /// A node about which nothing is known but its configuration and its own addresses.
    pub fn new(
        config: Config,
        control_plane: ControlPlane,
        local_addresses: Option<BTreeSet<IpAddr>>,
    ) -> Self {
        let mut picture = Self::empty(config, Keeper::ControlPlane(Box::new(control_plane)));
        picture.take(local_addresses.map(Event::LocalAddresses));
        picture
    }

    /// A node of a cluster, whose API server tells facts.
    pub fn of_server(config: Config) -> Self {
        Self::empty(config, Keeper::Server { reports: BTreeMap::new() })
    }

    /// The picture that another process has. Nothing is given to anybody.
    pub fn of(snapshot: Snapshot) -> Self {
        let facts: Vec<Event> = snapshot.objects.values().filter_map(event).collect();
        let Snapshot { objects, reports, is_trimmed, .. } = snapshot;
        let keeper = Keeper::Other { objects, reports, is_trimmed };
        let mut picture = Self::empty(snapshot.config, keeper);
        picture.file_problems = snapshot.problems;
        picture.take(facts.into_iter().chain(snapshot.local_addresses.map(Event::LocalAddresses)));
        picture.describe_node(snapshot.described);
        picture.traffic = snapshot.traffic;
        picture
    }

    fn empty(config: Config, keeper: Keeper) -> Self {
        let cluster = Cluster::new(config);
        let table = ForwardingTable::of(&cluster);
        Self { cluster, table, keeper, file_problems: Vec::new(), described: None, traffic: Vec::new() }
    }

    /// Takes in what changed in the files.
    pub fn follow(&mut self, source: &mut Source) -> Result<Delta, StoreError> {
        let (changes, problems) = source.changes();
        self.file_problems = problems;
        self.apply(&changes)
    }

    /// Takes in changes of objects. After an error they are remembered, and the next call, with or without more of them,
    /// tries again.
    pub fn apply(&mut self, changes: &[Change]) -> Result<Delta, StoreError> {
        let events = match &mut self.keeper {
            Keeper::ControlPlane(control_plane) => control_plane.apply(changes)?,
            Keeper::Server { .. } | Keeper::Other { .. } => Vec::new(),
        };
        Ok(self.take(events))
    }

    /// Services that wait for a new address or port since the state folder cannot be written.
    pub fn waiting(&self) -> Option<&Waiting> {
        match &self.keeper {
            Keeper::ControlPlane(control_plane) => control_plane.waiting(),
            Keeper::Server { .. } | Keeper::Other { .. } => None,
        }
    }

    /// These are the addresses of this host: no Service is given one of them by chance.
    pub fn set_host_addresses(&mut self, addresses: &BTreeSet<IpAddr>) {
        if let Keeper::ControlPlane(control_plane) = &mut self.keeper {
            control_plane.set_host_addresses(addresses);
        }
    }

    /// These are the problems with files now.
    pub fn set_problems(&mut self, problems: Vec<Problem>) {
        self.file_problems = problems;
    }

    /// These objects of the API server are unusable.
    pub fn set_unreadable(&mut self, of: Watched, unreadable: Vec<Report>) {
        if let Keeper::Server { reports } = &mut self.keeper {
            reports.insert(of, unreadable);
        }
    }

    /// This object of the API server is unusable, too.
    pub fn add_unreadable(&mut self, of: Watched, report: Report) {
        if let Keeper::Server { reports } = &mut self.keeper {
            let known = reports.entry(of).or_default();
            if known.len() < UNREADABLE_MAX && !known.contains(&report) {
                known.push(report);
            }
        }
    }

    /// It is so late now.
    pub fn set_now(&mut self, now: Timestamp) {
        if let Keeper::ControlPlane(control_plane) = &mut self.keeper {
            control_plane.set_now(now);
        }
    }

    /// Where nobody says what addresses this node has, this Node does.
    pub fn describe_node(&mut self, node: Option<Node>) -> Delta {
        let is_ours_to_say = self.cluster.node().is_none() || self.is_node_of_host();
        let is_needed = self.cluster.config().node_ips.is_empty() && is_ours_to_say;
        let Some(node) = node.filter(|_| is_needed) else { return Delta::default() };
        self.described = Some(node.clone());
        self.take([Event::Apply(Fact::Node(node))])
    }

    /// Is this node known only by the host's own addresses?
    pub fn is_node_of_host(&self) -> bool {
        self.cluster.node().is_some_and(|known| self.described.as_ref() == Some(known))
    }

    /// Takes in events.
    pub fn take(&mut self, events: impl IntoIterator<Item = Event>) -> Delta {
        let mut changed = Changed::default();
        for event in events {
            changed.merge(self.cluster.apply(event));
        }
        self.table.update(&self.cluster, &changed)
    }

    /// The table.
    pub fn table(&self) -> &ForwardingTable {
        &self.table
    }

    /// The facts.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// The objects, completed: with the addresses that we allocated and the slices that we made. None of an API server's.
    pub fn objects(&self) -> &BTreeMap<ObjectKey, Object> {
        match &self.keeper {
            Keeper::ControlPlane(control_plane) => control_plane.objects(),
            Keeper::Server { .. } => &NO_OBJECTS,
            Keeper::Other { objects, .. } => objects,
        }
    }

    /// Do objects say only what decides packets? An API server's are kept as facts, so what else they said is not known.
    pub fn is_trimmed(&self) -> bool {
        match &self.keeper {
            Keeper::ControlPlane(_) => false,
            Keeper::Server { .. } => true,
            Keeper::Other { is_trimmed, .. } => *is_trimmed,
        }
    }

    /// What is wrong with files.
    pub fn problems(&self) -> &[Problem] {
        &self.file_problems
    }

    /// What is wrong with objects: malformed fields, clashes, refused addresses. Ordered, each once.
    pub fn reports(&self) -> BTreeSet<&Report> {
        let mut reports = self.table.reports();
        reports.extend(self.cluster.reports());
        reports.extend(self.keepers_reports());
        reports
    }

    /// What the relay of a running portway has carried.
    pub fn traffic(&self) -> &[Traffic] {
        &self.traffic
    }

    /// Everything that the picture is made of.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            config: self.cluster.config().clone(),
            objects: match &self.keeper {
                Keeper::Server { .. } => self.cluster.objects().filter_map(written).collect(),
                _ => self.objects().clone(),
            },
            is_trimmed: self.is_trimmed(),
            problems: self.file_problems.clone(),
            reports: self.unsaid_reports().into_iter().cloned().collect(),
            local_addresses: self.cluster.local_addresses().cloned(),
            described: self.described.clone(),
            traffic: self.traffic.clone(),
        }
    }

    /// The reports that do not follow from the objects of a snapshot. Facts that become objects again are clean.
    fn unsaid_reports(&self) -> Vec<&Report> {
        let of_facts = self.cluster.reports().filter(|_| matches!(self.keeper, Keeper::Server { .. }));
        self.keepers_reports().into_iter().chain(of_facts).collect()
    }

    fn keepers_reports(&self) -> Vec<&Report> {
        match &self.keeper {
            Keeper::ControlPlane(control_plane) => control_plane.reports().collect(),
            Keeper::Server { reports } => reports.values().flatten().collect(),
            Keeper::Other { reports, .. } => reports.iter().collect(),
        }
    }
}

/// An object that was made of a fact.
fn written(value: Value) -> Option<(ObjectKey, Object)> {
    let kind = value.get("kind").and_then(Value::as_str).and_then(Kind::parse)?;
    let key = ObjectKey::of(kind, &value).ok()?;
    Some((key.clone(), Object { key, origin: None, value: Arc::new(value) }))
}

/// What an object tells the model. One of which nothing can be used tells nothing.
fn event(object: &Object) -> Option<Event> {
    match standalone::objects::read(&object.value) {
        Read::Fact(fact) => Some(Event::Apply(fact)),
        Read::OtherKind | Read::Refused(_) => None,
    }
}
