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
//! A Service gets its cluster IPs, node ports and ingress IPs (`ipam`), which are its own for as long as it lives and
//! longer. A Service with a selector gets endpoints (`endpointslices`). Everything we make goes through
//! [`model::object::read`] like everything people write, so there is one reader.
//!
//! Absent on purpose: clocks. Time arrives by [`ControlPlane::set_now`].

mod made;
mod misspelt;
mod pending;

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::sync::Arc;

use model::facts::Fact;
use model::net::{IpNet, parse_cidr};
use model::object::Read;
use model::time::Timestamp;
use model::{Event, Report, ServiceName};
use serde_json::Value;

pub use misspelt::misspelt_fields;

use crate::endpointslices::{self, Endpoints};
use crate::ipam::allocate::complete::complete;
use crate::ipam::allocate::demand::{Demand, demand};
use crate::ipam::allocate::{self, Allocation, Answer, Applicant, Usage, seeker};
use crate::ipam::ranges::{Pool, Ranges};
use crate::ipam::store::{Record, Resource, Slot, Store, Tenant, Turn};
use crate::ipam::{HostNetwork, Options, StoreError, host, refuse_overlap};
use crate::json;
use crate::objects::{Change, Kind, Object, ObjectKey};
use made::{fact_of, gone, hides_ours, key, our_service_cidr, our_service_cidr_key, slice_key};
use pending::Pending;

/// After a change of ranges every Service has another address: a few examples are enough.
const MOST_MOVES_SAID: usize = 10;

/// What is wrong with the values of an object as it was written, whatever other objects say. Node ports outside of `node_ports` are
/// never granted.
pub fn value_reports(
    key: &ObjectKey,
    object: &Value,
    node_ports: Option<&RangeInclusive<u16>>,
) -> Vec<Report> {
    let mut reports = match key.kind {
        Kind::Service => {
            allocate::malformed_values(&ServiceName::new(&key.namespace, &key.name), object, node_ports)
        }
        Kind::Pod => endpointslices::malformed_values(key, object),
        Kind::EndpointSlice | Kind::Node | Kind::ServiceCidr => Vec::new(),
    };
    match crate::objects::read(object) {
        Read::Fact(fact) => reports.extend(fact.reports().iter().cloned()),
        Read::Refused(report) => reports.push(report),
        Read::OtherKind => {}
    }
    reports.extend(misspelt_fields(key, object));
    reports
}

/// Objects, completed.
#[derive(Debug)]
pub struct ControlPlane {
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
    /// What could not be written down at the last attempt.
    waiting: Option<Waiting>,
    /// Addresses of this host.
    reserved: BTreeSet<Resource>,
    /// Addresses of this host in the range for load balancers that are no Service's.
    host_reports: Vec<Report>,
    is_first: bool,
}

/// Services that need a new address or port while the state folder cannot be written. All others are served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Why it cannot be written, and the way out.
    pub reason: String,
    /// Who waits. Empty where only the bookkeeping waits.
    pub services: BTreeSet<ServiceName>,
    /// How often writing was tried in this process.
    pub attempts: u64,
    /// An attempt takes long, since another process has the lock.
    is_slow: bool,
}

/// A Service, and what became of its wants.
#[derive(Debug)]
struct ServiceState {
    created: Option<Timestamp>,
    demand: Demand,
    answers: Vec<Answer>,
}

impl ControlPlane {
    /// Opens the store and checks the ranges, also against the addresses and routes of this host.
    pub fn open(options: Options, now: Timestamp) -> Result<Self, StoreError> {
        Self::open_on(&HostNetwork::read(), options, now)
    }

    /// As [`ControlPlane::open`], on a host with this network.
    #[expect(clippy::needless_pass_by_value, reason = "the options belong to what they open")]
    pub fn open_on(host: &HostNetwork, options: Options, now: Timestamp) -> Result<Self, StoreError> {
        let ranges = options.ranges()?;
        refuse_overlap(&options, host).or_else(|error| {
            // What is bound for a Service that holds it clashes with nothing.
            let held = Store::open(&options.state_dir, true)?.ledger().held_addresses();
            refuse_overlap(&options, &host.without(&held)).map_err(|_| error)
        })?;
        let store = Store::open(&options.state_dir, options.dry_run)?;
        if let Some(error) = store.unread() {
            tracing::warn!("{}", error.of_a_preview());
        }
        let mut pending = Pending::default();
        pending.keys.insert(our_service_cidr_key());
        let mut control_plane = Self {
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
            waiting: None,
            reserved: BTreeSet::new(),
            host_reports: Vec::new(),
            is_first: true,
        };
        control_plane.set_host_addresses(&host.own_addresses());
        Ok(control_plane)
    }

    /// These are the addresses of this host. No Service is given one that it does not name.
    pub fn set_host_addresses(&mut self, addresses: &BTreeSet<IpAddr>) {
        self.reserved = addresses.iter().copied().map(Resource::Address).collect();
        self.look_at_host();
    }

    /// What an operator should know of a range for load balancers that covers addresses of this host. An address that a Service holds is
    /// where it should be.
    fn look_at_host(&mut self) {
        let pools: Vec<IpNet> = self.ranges.load_balancer.iter().filter_map(|(_, net)| *net).collect();
        let report = |resource: &Resource| {
            let ip = resource.address()?;
            let pool = pools.iter().find(|pool| pool.contains(&ip))?;
            self.store.ledger().holder(resource).is_none().then(|| host::skipped(pool, ip))
        };
        let reports: Vec<Report> = self.reserved.iter().filter_map(report).collect();
        if !self.store.is_dry() {
            for report in reports.iter().filter(|report| !self.host_reports.contains(report)) {
                tracing::warn!("{report}");
            }
        }
        self.host_reports = reports;
    }

    /// Takes in changes. What is given to Services is on the disk before the events are returned.
    ///
    /// Where the store can be read but not written, Services that need something new wait ([`ControlPlane::waiting`]), and all else goes on.
    /// After an error nothing was given; the changes are remembered. In both cases the next call, with or without more changes, tries
    /// again.
    pub fn apply(&mut self, changes: &[Change]) -> Result<Vec<Event>, StoreError> {
        for change in changes {
            self.take(change);
        }
        if self.is_first || self.pending.needs_the_store() {
            self.settle(changes.is_empty())?;
            self.look_at_host();
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

    /// Who waits for the store, and why.
    pub fn waiting(&self) -> Option<&Waiting> {
        self.waiting.as_ref()
    }

    /// The load balancer IPs that are not the ones that their Services prefer, since those were taken. What another machine gives to the
    /// same Services on an empty store depends on the order in which they come there, unless these addresses are written into the
    /// manifests (`loadBalancerIP`).
    pub fn displaced(&self) -> Vec<(ServiceName, IpAddr)> {
        self.services.keys().flat_map(|name| self.displaced_of(name)).collect()
    }

    fn displaced_of(&self, name: &ServiceName) -> Vec<(ServiceName, IpAddr)> {
        let Some(state) = self.services.get(name) else { return Vec::new() };
        let given = state.demand.wants.iter().zip(&state.answers).filter(|(want, _)| want.wish.is_none());
        let displaced = given.filter_map(|(want, answer)| {
            let Slot::LoadBalancerIp(family) = want.slot else { return None };
            let pool = Pool::Addresses((*self.ranges.load_balancer.get(family))?);
            let resource = answer.granted().filter(|given| pool.contains(given))?;
            (resource != pool.preferred(&seeker(name, want.slot)))
                .then_some((name.clone(), resource.address()?))
        });
        displaced.collect()
    }

    /// What is wrong: refused and missing addresses, malformed Pods, a damaged store.
    pub fn reports(&self) -> impl Iterator<Item = &Report> {
        let services = self.services.values().flat_map(|state| {
            state.demand.reports.iter().chain(state.answers.iter().filter_map(Answer::report))
        });
        let objects = self.object_reports.values().chain(self.moves.values().flatten());
        services
            .chain(self.endpoints.reports())
            .chain(objects)
            .chain(self.store.reports())
            .chain(&self.host_reports)
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

    /// Gives what is asked for. Where that cannot be written down, Services keep what they hold.
    fn settle(&mut self, is_retry: bool) -> Result<(), StoreError> {
        if !is_retry && self.waiting.as_ref().is_some_and(|waiting| waiting.is_slow) {
            self.keep_what_is_held();
            return Ok(());
        }
        match self.give() {
            Ok(()) => self.waiting = None,
            Err(error) if self.store.is_durable() => {
                let attempts = self.waiting.as_ref().map_or(0, |waiting| waiting.attempts) + 1;
                let is_slow = matches!(error, StoreError::Busy { .. });
                let (reason, services) = (error.to_string(), BTreeSet::new());
                self.waiting = Some(Waiting { reason, services, attempts, is_slow });
                self.keep_what_is_held();
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Answers by what the store has, and writes nothing.
    fn keep_what_is_held(&mut self) {
        let Some(mut waiting) = self.waiting.take() else { return };
        self.pending.addresses.extend(std::mem::take(&mut self.pending.unsettled));
        self.pending.addresses.retain(|name| self.services.contains_key(name));
        let (turn, mut batch, mut moves) = (Turn::alone(), Vec::new(), Vec::new());
        let answers = self.allocate(&turn, Some(&waiting.reason), &mut batch, &mut moves);
        assert!(batch.is_empty(), "nothing is given that cannot be written down");
        for (name, answers) in answers {
            self.adopt(&name, answers);
        }
        let served = std::mem::take(&mut self.pending.addresses);
        self.pending.unrecorded.extend(served);
        let is_waiting = |name: &&ServiceName| {
            self.services.get(*name).is_some_and(|state| state.answers.iter().any(Answer::is_waiting))
        };
        waiting.services = self.pending.unsettled.iter().filter(is_waiting).cloned().collect();
        self.waiting = Some(waiting);
    }

    /// Gives what is asked for, in one turn at the store.
    fn give(&mut self) -> Result<(), StoreError> {
        let (turn, changed_by_others) = self.store.begin()?;
        self.pending.addresses.extend(changed_by_others);
        self.pending.addresses.extend(std::mem::take(&mut self.pending.unsettled));
        self.pending.addresses.retain(|name| self.services.contains_key(name));
        let (mut batch, mut moves) = (Vec::new(), Vec::new());
        self.note_presence(&turn, &mut batch);
        let answers = self.allocate(&turn, None, &mut batch, &mut moves);
        if let Err(error) = self.store.commit(turn, &batch) {
            self.forget_what_was_not_written();
            return Err(error);
        }
        self.is_first = false;
        self.tell_moves(moves);
        self.pending.gone.clear();
        self.pending.addresses.clear();
        self.pending.unrecorded.clear();
        for (name, answers) in answers {
            let known = self.displaced_of(&name);
            self.adopt(&name, answers);
            self.tell_displaced(&name, &known);
        }
        Ok(())
    }

    /// Whoever runs two machines wants to know which addresses depend on the order of arrival.
    fn tell_displaced(&self, name: &ServiceName, known: &[(ServiceName, IpAddr)]) {
        for (service, ip) in self.displaced_of(name).iter().filter(|one| !known.contains(one)) {
            if !self.store.is_dry() {
                tracing::info!(
                    %service, %ip,
                    "the load balancer IP that this Service prefers is taken: another machine with the same files may give it another one, \
                     unless its manifest says `loadBalancerIP: {ip}`"
                );
            }
        }
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
        for service in self.pending.addresses.union(&self.pending.unrecorded).cloned().collect::<Vec<_>>() {
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
        unwritable: Option<&str>,
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
            reserved: &self.reserved,
            unwritable,
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
        if answers.iter().any(|answer| answer.granted().is_none() || answer.is_waiting()) {
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

#[cfg(test)]
mod tests {
    use model::facts::Service;
    use serde_json::json;

    use super::*;

    const ENOSPC: i32 = 28;
    const EROFS: i32 = 30;

    fn options(name: &str) -> Options {
        let net = |text: &str| parse_cidr(text).expect("it is a network");
        Options {
            service_cidrs: vec![net("10.96.0.0/16"), net("fd00:96::/112")],
            load_balancer_cidrs: Vec::new(),
            node_port_range: 30000..=32767,
            state_dir: std::env::temp_dir()
                .join(format!("portway-control-plane-{name}-{}", std::process::id())),
            dry_run: false,
        }
    }

    fn open(options: &Options) -> ControlPlane {
        ControlPlane::open_on(&HostNetwork::default(), options.clone(), Timestamp(0)).expect("it opens")
    }

    fn service(name: &str, spec: &Value) -> Change {
        let mut value =
            json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": name }, "spec": spec });
        value["metadata"]["namespace"] = "default".into();
        value["spec"]["ports"] = json!([{ "port": 80 }]);
        value["spec"]["ipFamilyPolicy"] = "RequireDualStack".into();
        let key = ObjectKey::of(Kind::Service, &value).expect("it has a name");
        Change::Apply(Object { key, origin: None, value: Arc::new(value) })
    }

    fn told<'a>(events: &'a [Event], name: &str) -> Option<&'a Service> {
        events.iter().find_map(|event| match event {
            Event::Apply(Fact::Service(service)) if service.name.name() == name => Some(service),
            _ => None,
        })
    }

    fn waiting(control_plane: &ControlPlane) -> Vec<String> {
        let waiting = control_plane.waiting().map(|waiting| &waiting.services);
        waiting.into_iter().flatten().map(ToString::to_string).collect()
    }

    #[test]
    fn a_full_or_read_only_state_folder_holds_back_only_what_needs_a_new_address() {
        for errno in [ENOSPC, EROFS] {
            let options = options("fault");
            let mut control_plane = open(&options);
            let before = control_plane.apply(&[service("held", &json!({}))]).expect("it is written");
            let held = told(&before, "held").expect("it has its addresses").cluster_ips;
            control_plane.store.fault = Some(errno);
            let changes = [
                service("new", &json!({})),
                service("wish", &json!({ "clusterIPs": ["10.96.0.77"] })),
                service("held", &json!({ "type": "NodePort" })),
            ];
            let events = control_plane.apply(&changes).expect("all else goes on");
            assert_eq!(waiting(&control_plane), ["default/held", "default/new", "default/wish"]);
            let held_now = told(&events, "held").expect("its type changed");
            assert_eq!(held_now.cluster_ips, held, "only its node port waits");
            assert!(held_now.ports[0].node_port.is_none());
            for name in ["new", "wish"] {
                let ips = told(&events, name).map(|service| service.cluster_ips).unwrap_or_default();
                assert!(
                    ips.iter().all(|(_, ip)| ip.is_none()),
                    "{name}: nothing is given that is not on the disk"
                );
            }
            // What another process sees is what is on the disk.
            assert_eq!(open(&options).store.ledger().tenants().count(), 1);
            // A wish for another address waits, and the old one is served until then.
            let events = control_plane.apply(&[service("held", &json!({ "clusterIPs": ["10.96.0.78"] }))]);
            let events = events.expect("all else goes on");
            assert_eq!(told(&events, "held").map(|service| service.cluster_ips), Some(held));
            control_plane.store.fault = None;
            let events = control_plane.apply(&[]).expect("it is written");
            assert_eq!(waiting(&control_plane), [""; 0]);
            let ips = told(&events, "wish").expect("it has its address").cluster_ips;
            assert_eq!(ips.v4, "10.96.0.77".parse().ok());
            assert!(told(&events, "new").is_some_and(|service| service.cluster_ips.v6.is_some()));
            std::fs::remove_dir_all(&options.state_dir).expect("it is ours");
        }
    }

    #[test]
    fn a_service_that_goes_and_comes_back_on_a_read_only_folder_keeps_its_address() {
        let options = options("presence");
        let mut control_plane = open(&options);
        let before = control_plane.apply(&[service("held", &json!({}))]).expect("it is written");
        let held = told(&before, "held").map(|service| service.cluster_ips);
        control_plane.store.fault = Some(EROFS);
        let Change::Apply(object) = service("held", &json!({})) else { unreachable!("it is applied") };
        let gone = control_plane.apply(&[Change::Delete(object.key)]).expect("all goes on");
        assert!(gone.iter().any(|event| matches!(event, Event::DeleteService(_))), "{gone:?}");
        let back = control_plane.apply(&[service("held", &json!({}))]).expect("all goes on");
        assert_eq!(told(&back, "held").map(|service| service.cluster_ips), held);
        assert_eq!(waiting(&control_plane), [""; 0]);
        std::fs::remove_dir_all(&options.state_dir).expect("it is ours");
    }
}
