//! Objects, their versions, and what happened since.
//!
//! Every write gets the next version of the whole store, as in etcd. What happened is remembered until it is compacted: who
//! then wants to go on from an earlier version hears "410 Gone".

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::selector::Selector;

/// A kind of objects, as it stands in a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Resource {
    /// The part before the plural: `/api/v1`.
    pub prefix: &'static str,
    /// `services`.
    pub plural: &'static str,
    /// `Service`.
    pub kind: &'static str,
}

/// Services.
pub const SERVICES: Resource = Resource { prefix: "/api/v1", plural: "services", kind: "Service" };
/// EndpointSlices.
pub const SLICES: Resource =
    Resource { prefix: "/apis/discovery.k8s.io/v1", plural: "endpointslices", kind: "EndpointSlice" };
/// Nodes.
pub const NODES: Resource = Resource { prefix: "/api/v1", plural: "nodes", kind: "Node" };
/// ServiceCIDRs.
pub const SERVICE_CIDRS: Resource =
    Resource { prefix: "/apis/networking.k8s.io/v1", plural: "servicecidrs", kind: "ServiceCIDR" };
/// Events, which clients write.
pub const EVENTS: Resource = Resource { prefix: "/apis/events.k8s.io/v1", plural: "events", kind: "Event" };

impl Resource {
    /// All that are listed and watched.
    pub(crate) const ALL: [Resource; 4] = [SERVICES, SLICES, NODES, SERVICE_CIDRS];

    /// The resource at this path.
    pub(crate) fn at(path: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|r| path.strip_prefix(r.prefix).is_some_and(|rest| rest == format!("/{}", r.plural)))
    }

    /// `v1`, `discovery.k8s.io/v1`.
    pub(crate) fn api_version(self) -> &'static str {
        self.prefix.strip_prefix("/apis/").unwrap_or("v1")
    }

    /// The group, empty for the oldest kinds.
    pub(crate) fn group(self) -> &'static str {
        self.api_version().split_once('/').map_or("", |(group, _)| group)
    }
}

/// An object as it is sent.
#[derive(Debug)]
pub(crate) struct Stored {
    /// For selectors.
    pub(crate) value: Value,
    /// As it goes over the wire, with its version.
    pub(crate) text: String,
}

/// What happened to an object.
#[derive(Clone, Debug)]
pub(crate) struct Happened {
    pub(crate) version: u64,
    pub(crate) resource: Resource,
    pub(crate) before: Option<Arc<Stored>>,
    /// As it is now; for one that is gone, as it was last, with the version at which it went.
    pub(crate) after: Arc<Stored>,
    pub(crate) is_gone: bool,
}

impl Happened {
    /// What it is for somebody who sees only what a selector picks: an object that is no longer picked is gone for him.
    pub(crate) fn seen_by(&self, selector: &Selector) -> Option<(&'static str, &str)> {
        let was = self.before.as_ref().is_some_and(|before| selector.picks(&before.value));
        let is = !self.is_gone && selector.picks(&self.after.value);
        let word = match (was, is) {
            (false, false) => return None,
            (false, true) => "ADDED",
            (true, true) => "MODIFIED",
            (true, false) => "DELETED",
        };
        Some((word, &self.after.text))
    }
}

/// Objects by resource and `namespace/name`.
type Objects = BTreeMap<(Resource, String), Arc<Stored>>;

/// All objects.
#[derive(Debug, Default)]
pub(crate) struct Store {
    pub(crate) version: u64,
    /// What happened up to this version is forgotten.
    pub(crate) compacted: u64,
    objects: Objects,
    pub(crate) happened: Vec<Happened>,
    /// How often all watches were asked to send a bookmark.
    pub(crate) bookmarks: u64,
}

/// The store as it was at some moment.
#[derive(Clone, Debug)]
pub struct Backup {
    version: u64,
    objects: Objects,
}

impl Store {
    /// Puts an object. Returns the version of that.
    pub(crate) fn put(&mut self, resource: Resource, key: String, value: Value) -> u64 {
        let after = self.next(value);
        let before = self.objects.insert((resource, key), Arc::clone(&after));
        self.remember(resource, before, after, false)
    }

    /// Takes an object away. Returns the version of that.
    pub(crate) fn remove(&mut self, resource: Resource, key: String) -> u64 {
        let Some(before) = self.objects.remove(&(resource, key)) else { return self.version };
        let after = self.next(before.value.clone());
        self.remember(resource, Some(before), after, true)
    }

    fn next(&mut self, mut value: Value) -> Arc<Stored> {
        self.version += 1;
        if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.insert("resourceVersion".into(), json!(self.version.to_string()));
        }
        Arc::new(Stored { text: value.to_string(), value })
    }

    fn remember(
        &mut self,
        resource: Resource,
        before: Option<Arc<Stored>>,
        after: Arc<Stored>,
        is_gone: bool,
    ) -> u64 {
        self.happened.push(Happened { version: self.version, resource, before, after, is_gone });
        self.version
    }

    /// What happened after a version.
    pub(crate) fn since(&self, version: u64) -> &[Happened] {
        &self.happened[self.happened.partition_point(|one| one.version <= version)..]
    }

    /// Forgets what happened up to now.
    pub(crate) fn compact(&mut self) {
        self.compacted = self.version;
        self.happened.clear();
    }

    /// The store as it is now.
    pub(crate) fn backup(&self) -> Backup {
        Backup { version: self.version, objects: self.objects.clone() }
    }

    /// The store as it was then: versions go back, too.
    pub(crate) fn restore(&mut self, backup: &Backup) {
        (self.version, self.objects) = (backup.version, backup.objects.clone());
        self.compact();
    }

    /// The objects of a resource that a selector picks, in the order of their names.
    pub(crate) fn list(&self, resource: Resource, selector: &Selector) -> Vec<Arc<Stored>> {
        let all = self.objects.range((resource, String::new())..).take_while(|((r, _), _)| *r == resource);
        all.filter(|(_, object)| selector.picks(&object.value))
            .map(|(_, object)| Arc::clone(object))
            .collect()
    }
}
