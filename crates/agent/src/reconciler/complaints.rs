//! What is told of objects that have something wrong, as they come: one line for each object and change, and not too many of them.
//!
//! In: objects with their reports, and the time. Out: lines of the log. An object that comes again with the same mistakes is silent,
//! however often it changes otherwise.
//!
//! Absent on purpose: what is wrong with objects together, such as two Services that claim one address. That is in the status.

use std::collections::BTreeMap;
use std::time::Duration;

use model::facts::Fact;
use model::rate::TokenBucket;
use model::{Event, ObjectRef, Report};
use standalone::control_plane::value_reports;
use standalone::objects::{Change, ObjectKey};

use super::effect::Line;

/// So many lines may be written at once.
const BURST: u32 = 20;
/// After that, one in so long.
const ONE_IN: Duration = Duration::from_secs(10);
/// So many objects are remembered.
const KNOWN_MAX: usize = 1000;

/// What was told.
#[derive(Debug)]
pub(super) struct Complaints {
    told: BTreeMap<ObjectRef, Vec<Report>>,
    /// Lines that may be written.
    lines: TokenBucket,
    is_leaving_out: bool,
}

impl Default for Complaints {
    fn default() -> Self {
        Self { told: BTreeMap::new(), lines: TokenBucket::new(BURST, ONE_IN), is_leaving_out: false }
    }
}

impl Complaints {
    /// These objects changed.
    pub(super) fn follow(&mut self, events: &[Event], now: Duration) -> Vec<Line> {
        events.iter().filter_map(|event| self.follow_one(event, now)).collect()
    }

    fn follow_one(&mut self, event: &Event, now: Duration) -> Option<Line> {
        let gone = match event {
            Event::Apply(fact) if !fact.reports().is_empty() => return self.came(fact.reports(), now),
            _ if self.told.is_empty() => return None,
            Event::Apply(fact) => object(fact),
            Event::DeleteService(name) => ObjectRef::service(name),
            Event::DeleteSlice(name) => ObjectRef::slice(name),
            Event::DeleteNode(name) => ObjectRef { kind: "Node", name: (&**name).into() },
            Event::DeleteServiceCidr(name) => ObjectRef { kind: "ServiceCIDR", name: (&**name).into() },
            Event::LocalAddresses(_) | Event::Rechosen(_) | Event::EndpointsInDoubt(_) => return None,
        };
        self.told.remove(&gone);
        None
    }

    /// These objects of files changed.
    pub(super) fn follow_files(&mut self, changes: &[Change], now: Duration) -> Vec<Line> {
        changes.iter().filter_map(|change| self.follow_file(change, now)).collect()
    }

    fn follow_file(&mut self, change: &Change, now: Duration) -> Option<Line> {
        let (key, reports) = match change {
            Change::Apply(object) => (&object.key, value_reports(&object.key, &object.value, None)),
            Change::Delete(key) => (key, Vec::new()),
        };
        if reports.is_empty() {
            self.told.remove(&named(key));
        }
        self.came(&reports, now)
    }

    /// An object came with all this wrong. The line, where there is something new to tell.
    pub(super) fn came(&mut self, reports: &[Report], now: Duration) -> Option<Line> {
        let first = reports.first()?;
        if self.told.get(&first.object).is_some_and(|told| told == reports) {
            return None;
        }
        if self.told.len() < KNOWN_MAX || self.told.contains_key(&first.object) {
            self.told.insert(first.object.clone(), reports.to_vec());
        }
        if !self.lines.take(now) {
            return (!std::mem::replace(&mut self.is_leaving_out, true)).then_some(Line::MoreProblems);
        }
        self.is_leaving_out = false;
        Some(Line::Problem(match reports.len() - 1 {
            0 => first.to_string(),
            more => format!("{first} (and {more} more in this object: `portway check` names them)"),
        }))
    }
}

fn named(key: &ObjectKey) -> ObjectRef {
    let name = if key.namespace.is_empty() {
        key.name.to_string()
    } else {
        format!("{}/{}", key.namespace, key.name)
    };
    ObjectRef { kind: key.kind.name(), name: name.into() }
}

fn object(fact: &Fact) -> ObjectRef {
    match fact {
        Fact::Service(service) => ObjectRef::service(&service.name),
        Fact::EndpointSlice(slice) => ObjectRef::slice(&slice.name),
        Fact::Node(node) => ObjectRef { kind: "Node", name: (&*node.name).into() },
        Fact::ServiceCidr(cidr) => ObjectRef { kind: "ServiceCIDR", name: (&*cidr.name).into() },
    }
}

#[cfg(test)]
mod tests {
    use model::object::{Read, read};
    use serde_json::{Value, json};

    use super::*;

    fn service(name: &str, ports: &Value) -> Event {
        let object = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": { "name": name, "namespace": "default" },
            "spec": { "clusterIP": "10.96.0.1", "ports": ports },
        });
        match read(&object) {
            Read::Fact(fact) => Event::Apply(fact),
            other => panic!("{other:?}"),
        }
    }

    /// What is told of this one; empty where nothing is.
    fn told(complaints: &mut Complaints, event: Event, seconds: u64) -> String {
        match complaints.follow(&[event], Duration::from_secs(seconds)).as_slice() {
            [] => String::new(),
            [Line::Problem(text)] => text.clone(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_object_is_named_with_its_field_once_for_each_mistake() {
        let (wrong, right) = (json!("no list"), json!([{ "port": 80 }]));
        let mut complaints = Complaints::default();
        let said = told(&mut complaints, service("web", &wrong), 0);
        assert!(said.starts_with("Service default/web: spec.ports"), "{said}");
        assert_eq!(told(&mut complaints, service("web", &wrong), 1), "", "the same again");
        let other = told(&mut complaints, service("web", &json!([{ "port": 99_999 }])), 2);
        assert!(other.contains("spec.ports[0].port"), "{other}");
        assert_eq!(told(&mut complaints, service("web", &right), 3), "");
        assert_ne!(told(&mut complaints, service("web", &wrong), 4), "", "it was right in between");
        told(&mut complaints, Event::DeleteService(model::ServiceName::new("default", "web")), 5);
        assert_ne!(told(&mut complaints, service("web", &wrong), 6), "", "it is another one");
    }

    #[test]
    fn a_flood_of_mistakes_is_bounded_and_told_as_one() {
        let mut complaints = Complaints::default();
        let events: Vec<Event> =
            (0..5000).map(|number| service(&format!("s{number}"), &json!("no list"))).collect();
        let lines = complaints.follow(&events, Duration::ZERO);
        assert_eq!(lines.len(), usize::try_from(BURST).unwrap() + 1);
        assert_eq!(lines.last(), Some(&Line::MoreProblems));
        assert!(complaints.told.len() <= KNOWN_MAX);
        assert_ne!(told(&mut complaints, service("later", &json!("no list")), 10), "", "one in ten seconds");
    }
}
