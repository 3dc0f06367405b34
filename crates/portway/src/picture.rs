//! The state of one node: objects, facts, table, and everything that is wrong with them.
//!
//! In: changes of objects, from any source. Out: a picture that the command line shows and the loop acts upon.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use model::{Changed, Cluster, Config, Delta, Event, ForwardingTable, Report};

use crate::embedded::Embedded;
use crate::manifests::Source;
use crate::objects::{Object, ObjectKey, Problem};

/// The state of one node.
#[derive(Debug)]
pub struct Picture {
    cluster: Cluster,
    table: ForwardingTable,
    embedded: Embedded,
    file_problems: Vec<Problem>,
}

impl Picture {
    /// A node about which nothing is known but its configuration and its own addresses.
    pub fn new(config: Config, embedded: Embedded, local_addresses: Option<BTreeSet<IpAddr>>) -> Self {
        let cluster = Cluster::new(config);
        let table = ForwardingTable::of(&cluster);
        let mut picture = Self { cluster, table, embedded, file_problems: Vec::new() };
        picture.take(local_addresses.map(Event::LocalAddresses));
        picture
    }

    /// Takes in what changed in the files.
    pub fn follow(&mut self, source: &mut Source) -> Result<Delta, crate::embedded::StoreError> {
        let (changes, problems) = source.changes();
        self.file_problems = problems;
        let events = self.embedded.apply(&changes)?;
        Ok(self.take(events))
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
        self.embedded.objects()
    }

    /// What is wrong with files.
    pub fn problems(&self) -> &[Problem] {
        &self.file_problems
    }

    /// What is wrong with objects: malformed fields, clashes, refused addresses. Ordered, each once.
    pub fn reports(&self) -> BTreeSet<&Report> {
        let mut reports = self.table.reports();
        reports.extend(self.cluster.reports());
        reports.extend(self.embedded.reports());
        reports
    }
}
