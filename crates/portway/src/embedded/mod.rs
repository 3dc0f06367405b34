//! What a cluster's control plane would do, when there is no cluster.
//!
//! In: changes of objects as they were written. Out: completed objects, and the events that tell the model of them.
//!
//! ```text
//!   changes ──► written ──allocate──► addresses and ports, remembered in the store ─┐
//!                  │                                                                 ├──► completed ──► events
//!                  └──endpoints──► EndpointSlices of selectors ─────────────────────┘
//! ```
//!
//! A Service gets its cluster IPs, node ports and ingress IPs (`allocate`), which are its own for as long as it lives and
//! longer (`store`). A Service with a selector gets endpoints (`endpoints`). Everything we make goes through
//! [`model::object::read`] like everything people write, so there is one reader.
//!
//! Absent on purpose: clocks. Time arrives by [`Embedded::set_now`].

mod allocate;
mod endpoints;
mod error;
mod host;
mod json;
mod made;
mod options;
mod pending;
mod ranges;
mod store;

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::facts::Fact;
use model::net::{IpNet, parse_cidr};
use model::time::Timestamp;
use model::{Event, Report, ServiceName};
use serde_json::Value;

pub use error::StoreError;
pub use host::{HostNetwork, refuse_overlap};
pub use options::{Options, default_state_dir};

use crate::objects::{Change, Kind, Object, ObjectKey};
use allocate::complete::complete;
use allocate::demand::{Demand, demand};
use allocate::{Allocation, Answer, Applicant, Usage};
use endpoints::Endpoints;
use made::{fact_of, gone, hides_ours, key, our_service_cidr, our_service_cidr_key, slice_key};
use pending::Pending;
use ranges::Ranges;
use store::{Record, Store, Tenant, Turn};

/// After a change of ranges every Service has another address: a few examples are enough.
const MOST_MOVES_SAID: usize = 10;

/// Objects, completed.
#[derive(Debug)]
pub struct Embedded {
    ranges: Ranges,
    store: Store,
    now: Timestamp,
    /// As people wrote them.
    written: BTreeMap<ObjectKey, Object>,
    services: BTreeMap<ServiceName, ServiceState>,
    usage: Usage,
    endpoints: Endpoints,
    /// Slices that we made, each with its Service.
    made: BTreeMap<ObjectKey, (ServiceName, Arc<Value>)>,
    made_for: BTreeMap<ServiceName, BTreeSet<ObjectKey>>,
    completed: BTreeMap<ObjectKey, Object>,
    /// Objects of which nothing can be used, and hand-written slices that hide ours.
    object_reports: BTreeMap<ObjectKey, Report>,
    /// Services that this process gave another value, since their old one lies outside of the ranges now.
    moves: BTreeMap<ServiceName, Vec<Report>>,
    pending: Pending,
    is_first: bool,
}

/// A Service, and what became of its wants.
#[derive(Debug)]
struct ServiceState {
    created: Option<Timestamp>,
    demand: Demand,
    answers: Vec<Answer>,
}

impl Embedded {
    /// Opens the store and checks the ranges, also against the addresses and routes of this host.
    pub fn open(options: Options, now: Timestamp) -> Result<Self, StoreError> {
        Self::open_on(&HostNetwork::read(), options, now)
    }

    /// As [`Embedded::open`], on a host with this network.
    #[expect(clippy::needless_pass_by_value, reason = "the options belong to what they open")]
    pub fn open_on(host: &HostNetwork, options: Options, now: Timestamp) -> Result<Self, StoreError> {
        let ranges = options.ranges()?;
        refuse_overlap(&options, host)?;
        let store = Store::open(&options.state_dir, options.dry_run)?;
        let mut pending = Pending::default();
        pending.keys.insert(our_service_cidr_key());
        Ok(Self {
            ranges,
            store,
            now,
            written: BTreeMap::new(),
            services: BTreeMap::new(),
            usage: Usage::default(),
            endpoints: Endpoints::default(),
            made: BTreeMap::new(),
            made_for: BTreeMap::new(),
            completed: BTreeMap::new(),
            object_reports: BTreeMap::new(),
            moves: BTreeMap::new(),
            pending,
            is_first: true,
        })
    }

    /// Takes in changes. What is given to Services is on the disk before the events are returned.
    ///
    /// After an error nothing was given; the changes are remembered, and the next call, with or without more of them,
    /// tries again.
    pub fn apply(&mut self, changes: &[Change]) -> Result<Vec<Event>, StoreError> {
        for change in changes {
            self.take(change);
        }
        if self.is_first || self.pending.needs_the_store() {
            self.settle()?;
        }
        self.make_slices();
        Ok(self.publish())
    }

    /// It is so late now.
    pub fn set_now(&mut self, now: Timestamp) {
        self.now = now;
    }

    /// The objects, completed.
    pub fn objects(&self) -> &BTreeMap<ObjectKey, Object> {
        &self.completed
    }

    /// What is wrong: refused and missing addresses, malformed Pods, a damaged store.
    pub fn reports(&self) -> impl Iterator<Item = &Report> {
        let services = self.services.values().flat_map(|state| {
            let refused = state.answers.iter().filter_map(|answer| match answer {
                Answer::Refused(report) => Some(report),
                Answer::Granted(_) => None,
            });
            state.demand.reports.iter().chain(refused)
        });
        let objects = self.object_reports.values().chain(self.moves.values().flatten());
        services.chain(self.endpoints.reports()).chain(objects).chain(self.store.reports())
    }

    fn take(&mut self, change: &Change) {
        let (key, object) = match change {
            Change::Apply(object) => (&object.key, Some(object)),
            Change::Delete(key) => (key, None),
        };
        let before = match object {
            Some(object) => self.written.insert(key.clone(), object.clone()),
            None => self.written.remove(key),
        };
        self.pending.keys.insert(key.clone());
        let (before, value) = (before.as_ref().map(|o| &o.value), object.map(|object| &*object.value));
        if before.map(|value| &**value) == value {
            return;
        }
        match key.kind {
            Kind::Service => self.take_service(&ServiceName::new(&key.namespace, &key.name), value),
            Kind::Pod => self.pending.endpoints.extend(self.endpoints.set_pod(key, value)),
            Kind::Node => self.pending.endpoints.extend(self.endpoints.set_node(&key.name, value)),
            // Any wanted cluster IP may be inside a range now, or no more.
            Kind::ServiceCidr => self.pending.addresses.extend(self.services.keys().cloned()),
            Kind::EndpointSlice => {}
        }
    }

    fn take_service(&mut self, name: &ServiceName, service: Option<&Value>) {
        self.pending.endpoints.insert(name.clone());
        let Some(service) = service else {
            let answers = self.services.remove(name).map(|state| state.answers).unwrap_or_default();
            self.usage.drop_all(name, &answers);
            self.moves.remove(name);
            self.endpoints.remove_service(name);
            return self.pending.service_is_gone(name);
        };
        let demand = demand(name, service, &self.ranges);
        self.endpoints.set_service(name, service, &demand.families);
        let created = service["metadata"]["creationTimestamp"].as_str().and_then(Timestamp::parse);
        let answers = self.services.remove(name).map(|state| state.answers).unwrap_or_default();
        self.services.insert(name.clone(), ServiceState { created, demand, answers });
        self.usage.known.insert(name.clone());
        self.pending.service_is_new(name);
    }

    /// Gives what is asked for, in one turn at the store.
    fn settle(&mut self) -> Result<(), StoreError> {
        let (turn, changed_by_others) = self.store.begin()?;
        self.pending.addresses.extend(changed_by_others);
        self.pending.addresses.extend(std::mem::take(&mut self.pending.unsettled));
        self.pending.addresses.retain(|name| self.services.contains_key(name));
        let (mut batch, mut moves) = (Vec::new(), Vec::new());
        self.note_presence(&turn, &mut batch);
        let answers = self.allocate(&turn, &mut batch, &mut moves);
        if let Err(error) = self.store.commit(turn, &batch) {
            self.forget_what_was_not_written();
            return Err(error);
        }
        self.is_first = false;
        self.tell_moves(moves);
        self.pending.gone.clear();
        self.pending.addresses.clear();
        for (name, answers) in answers {
            self.adopt(&name, answers);
        }
        Ok(())
    }

    /// A later command finds the new value in its place, so this is the moment to say it.
    fn tell_moves(&mut self, moves: Vec<(ServiceName, Report)>) {
        let (count, is_said) = (moves.len(), !self.store.is_dry());
        for (index, (name, report)) in moves.into_iter().enumerate() {
            if is_said && index < MOST_MOVES_SAID {
                tracing::warn!("{report}");
            }
            self.moves.entry(name).or_default().push(report);
        }
        if is_said && count > MOST_MOVES_SAID {
            tracing::warn!("{} more values changed for the same reason", count - MOST_MOVES_SAID);
        }
    }

    /// Notes which Services came and went. The first batch is all there is: who is not in it is absent. Where other
    /// processes are at work, absence from our manifests says nothing.
    fn note_presence(&mut self, turn: &Turn, batch: &mut Vec<Record>) {
        let at = self.now.0;
        for service in self.pending.addresses.clone() {
            match self.store.ledger().tenant(&service) {
                None => self.store.note(Record::Seen { service, at }, batch),
                Some(Tenant { absent_since: Some(_), .. }) => {
                    self.store.note(Record::Present { service }, batch);
                }
                Some(_) => {}
            }
        }
        let mut absent = self.pending.gone.clone();
        if self.is_first && self.store.is_alone(turn) {
            absent.extend(self.store.ledger().tenants().map(|(name, _)| name.clone()));
            absent.retain(|name| !self.services.contains_key(name));
        }
        for service in absent {
            if self.store.ledger().tenant(&service).is_some_and(|tenant| tenant.absent_since.is_none()) {
                self.store.note(Record::Absent { service, at }, batch);
            }
        }
    }

    fn allocate(
        &mut self,
        turn: &Turn,
        batch: &mut Vec<Record>,
        moves: &mut Vec<(ServiceName, Report)>,
    ) -> Vec<(ServiceName, Vec<Answer>)> {
        let extra_ranges = self.extra_ranges();
        let mut names: Vec<&ServiceName> = self.pending.addresses.iter().collect();
        names.sort_by_key(|name| (self.created(name), *name));
        let mut applicants = Vec::new();
        for name in names {
            let Some(state) = self.services.get(name) else { continue };
            self.usage.drop_all(name, &state.answers);
            applicants.push(Applicant { name, demand: &state.demand });
        }
        let mut allocation = Allocation {
            ranges: &self.ranges,
            extra_ranges: &extra_ranges,
            usage: &mut self.usage,
            store: &mut self.store,
            turn,
            batch,
            moves,
            is_alone: OnceCell::new(),
        };
        let answers = allocation.answer(&applicants);
        applicants.iter().map(|applicant| applicant.name.clone()).zip(answers).collect()
    }

    /// When a Service was created, as its manifest says, or else when we first saw it.
    fn created(&self, name: &ServiceName) -> Option<Timestamp> {
        self.services.get(name).and_then(|state| state.created).or_else(|| self.first_seen(name))
    }

    fn first_seen(&self, name: &ServiceName) -> Option<Timestamp> {
        self.store.ledger().tenant(name).map(|tenant| Timestamp(tenant.first_seen))
    }

    fn adopt(&mut self, name: &ServiceName, answers: Vec<Answer>) {
        if answers.iter().any(|answer| answer.granted().is_none()) {
            self.pending.unsettled.insert(name.clone());
        }
        self.pending.keys.insert(key(Kind::Service, name));
        if let Some(state) = self.services.get_mut(name) {
            state.answers = answers;
        }
    }

    /// What is in use is again what was last on the disk.
    fn forget_what_was_not_written(&mut self) {
        self.usage.in_use.clear();
        for (name, state) in &self.services {
            for resource in state.answers.iter().filter_map(Answer::granted) {
                self.usage.in_use.insert(resource, name.clone());
            }
        }
    }

    /// The ranges of ServiceCIDR objects that people wrote.
    fn extra_ranges(&self) -> BTreeSet<IpNet> {
        let first = ObjectKey { kind: Kind::ServiceCidr, namespace: "".into(), name: "".into() };
        let objects = self.written.range(first..).take_while(|(key, _)| key.kind == Kind::ServiceCidr);
        let cidrs = objects.flat_map(|(_, object)| json::items(&object.value["spec"]["cidrs"]));
        cidrs.filter_map(|cidr| parse_cidr(cidr.as_str()?)).collect()
    }

    fn make_slices(&mut self) {
        for service in std::mem::take(&mut self.pending.endpoints) {
            let slices = self.endpoints.slices(&service);
            let keys: BTreeSet<ObjectKey> = slices.keys().map(|name| slice_key(&service, name)).collect();
            for key in self.made_for.remove(&service).unwrap_or_default() {
                self.made.remove(&key);
                self.pending.keys.insert(key);
            }
            for (key, (_, slice)) in keys.iter().zip(slices) {
                self.made.insert(key.clone(), (service.clone(), slice));
            }
            self.pending.keys.extend(keys.iter().cloned());
            if !keys.is_empty() {
                self.made_for.insert(service, keys);
            }
        }
    }

    /// Compares what should be with what was last told.
    fn publish(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        for key in std::mem::take(&mut self.pending.keys) {
            self.object_reports.remove(&key);
            let desired = self.desired(&key);
            let after = desired.as_ref().and_then(|object| self.fact(object));
            let before = match desired {
                Some(object) => self.completed.insert(key.clone(), object),
                None => self.completed.remove(&key),
            };
            let before = before.and_then(|object| fact_of(&object.value).ok().flatten());
            match (before, after) {
                (before, Some(after)) if before.as_ref() != Some(&after) => events.push(Event::Apply(after)),
                (Some(_), None) => events.extend(gone(&key)),
                _ => {}
            }
        }
        events
    }

    fn fact(&mut self, object: &Object) -> Option<Fact> {
        fact_of(&object.value).unwrap_or_else(|report| {
            self.object_reports.insert(object.key.clone(), report);
            None
        })
    }

    /// The object as it should be.
    fn desired(&mut self, key: &ObjectKey) -> Option<Object> {
        let Some(written) = self.written.get(key) else { return self.made_by_us(key) };
        if let Some((service, _)) = self.made.get(key) {
            self.object_reports.insert(key.clone(), hides_ours(key, service));
        }
        if key.kind != Kind::Service {
            return Some(written.clone());
        }
        let name = ServiceName::new(&key.namespace, &key.name);
        let state = self.services.get(&name)?;
        let value = complete(&written.value, &state.demand, &state.answers, self.first_seen(&name));
        Some(Object { value: Arc::new(value), ..written.clone() })
    }

    fn made_by_us(&self, key: &ObjectKey) -> Option<Object> {
        let value = match key.kind {
            Kind::EndpointSlice => Arc::clone(&self.made.get(key)?.1),
            Kind::ServiceCidr if *key == our_service_cidr_key() => Arc::new(our_service_cidr(&self.ranges)),
            _ => return None,
        };
        Some(Object { key: key.clone(), origin: None, value })
    }
}
