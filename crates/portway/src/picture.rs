//! The state of one node: objects, facts, table, and everything that is wrong with them.
//!
//! In: changes of objects, from any source; or a [`Snapshot`] of another process' picture. Out: a picture that the command
//! line shows and the loop acts upon.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use model::facts::{Fact, Node};
use model::object::Read;
use model::time::Timestamp;
use model::{Changed, Cluster, Config, Delta, Event, ForwardingTable, Report};

use crate::embedded::{Embedded, StoreError};
use crate::manifests::Source;
use crate::objects::{Change, Object, ObjectKey, Problem};
use crate::traffic::Traffic;

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
    Embedded(Box<Embedded>),
    /// Another process, which completed them.
    Other { objects: BTreeMap<ObjectKey, Object>, reports: Vec<Report> },
}

/// Everything that a picture is made of, so that another process sees the same one. Objects are shared, not copied.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// The operator's choices.
    pub config: Config,
    /// The objects, completed.
    pub objects: BTreeMap<ObjectKey, Object>,
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
    pub fn new(config: Config, embedded: Embedded, local_addresses: Option<BTreeSet<IpAddr>>) -> Self {
        let mut picture = Self::empty(config, Keeper::Embedded(Box::new(embedded)));
        picture.take(local_addresses.map(Event::LocalAddresses));
        picture
    }

    /// The picture that another process has. Nothing is given to anybody.
    pub fn of(snapshot: Snapshot) -> Self {
        let facts: Vec<Event> = snapshot.objects.values().filter_map(event).collect();
        let keeper = Keeper::Other { objects: snapshot.objects, reports: snapshot.reports };
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
            Keeper::Embedded(embedded) => embedded.apply(changes)?,
            Keeper::Other { .. } => Vec::new(),
        };
        Ok(self.take(events))
    }

    /// These are the problems with files now.
    pub fn set_problems(&mut self, problems: Vec<Problem>) {
        self.file_problems = problems;
    }

    /// It is so late now.
    pub fn set_now(&mut self, now: Timestamp) {
        if let Keeper::Embedded(embedded) = &mut self.keeper {
            embedded.set_now(now);
        }
    }

    /// Where nobody says what addresses this node has, this Node does.
    pub fn describe_node(&mut self, node: Option<Node>) -> Delta {
        let is_ours_to_say = self.cluster.node().is_none_or(|known| self.described.as_ref() == Some(known));
        let is_needed = self.cluster.config().node_ips.is_empty() && is_ours_to_say;
        let Some(node) = node.filter(|_| is_needed) else { return Delta::default() };
        self.described = Some(node.clone());
        self.take([Event::Apply(Fact::Node(node))])
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

    /// The objects, completed: with the addresses that we allocated and the slices that we made.
    pub fn objects(&self) -> &BTreeMap<ObjectKey, Object> {
        match &self.keeper {
            Keeper::Embedded(embedded) => embedded.objects(),
            Keeper::Other { objects, .. } => objects,
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
            objects: self.objects().clone(),
            problems: self.file_problems.clone(),
            reports: self.keepers_reports().into_iter().cloned().collect(),
            local_addresses: self.cluster.local_addresses().cloned(),
            described: self.described.clone(),
            traffic: self.traffic.clone(),
        }
    }

    fn keepers_reports(&self) -> Vec<&Report> {
        match &self.keeper {
            Keeper::Embedded(embedded) => embedded.reports().collect(),
            Keeper::Other { reports, .. } => reports.iter().collect(),
        }
    }
}

/// What an object tells the model. One of which nothing can be used tells nothing.
fn event(object: &Object) -> Option<Event> {
    match model::object::read(&object.value) {
        Read::Fact(fact) => Some(Event::Apply(fact)),
        Read::OtherKind | Read::Refused(_) => None,
    }
}
