//! The one picture of the cluster, kept in memory: the newest version of every fact.
//!
//! In: one [`Event`] at a time. Out: [`Changed`], the service ports whose forwarding may be different now. The picture
//! depends on the facts alone: the order in which they arrive, and repetitions, leave no trace.
//!
//! One thing does depend on their order, and no route follows from it: which endpoints have vanished (`history.rs`).

mod endpoint_index;
mod history;
mod node_names;
mod shared;
mod stored;
mod vips;
mod written;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use endpoint_index::EndpointIndex;
use history::{Departure, EndpointHistory};
use node_names::NodeNames;
use shared::Shared;
pub(crate) use stored::{StoredEndpoint, StoredSlice};
pub(crate) use vips::Vips;

use crate::config::{Config, Rechoice};
use crate::facts::{EndpointSlice, Fact, Node, Service, ServiceCidr, SlicePort};
use crate::name::{ServiceName, ServicePortId, SliceName};
use crate::net::{IpNet, Protocol};
use crate::report::Report;

/// Something that a source learnt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// This is how an object is now.
    Apply(Fact),
    /// The Service is gone.
    DeleteService(ServiceName),
    /// The EndpointSlice is gone.
    DeleteSlice(SliceName),
    /// The Node is gone.
    DeleteNode(Box<str>),
    /// The ServiceCIDR is gone.
    DeleteServiceCidr(Box<str>),
    /// These are the addresses of this host now.
    LocalAddresses(BTreeSet<IpAddr>),
    /// The operator chose anew.
    Rechosen(Rechoice),
    /// Endpoints of Services in these namespaces, or in all where one is empty, may be missing by a mistake: a Service port there
    /// without any endpoint has no route, so that what a previous process wrote for it stays.
    EndpointsInDoubt(BTreeSet<Box<str>>),
}

/// TCP endpoints that have vanished, by the service port through which they were reached.
pub type VanishedEndpoints = BTreeMap<ServicePortId, BTreeSet<(IpAddr, u16)>>;

/// What an event may have changed. Empty when it told nothing new.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changed {
    /// Service ports to decide anew.
    pub ports: BTreeSet<ServicePortId>,
    /// Services of which more than their ports may be different.
    pub services: BTreeSet<ServiceName>,
    /// Something about this node: its addresses, its zone, its pod networks.
    pub node: bool,
    /// The ranges that cluster IPs come from.
    pub service_networks: bool,
    /// Endpoints whose Pod is gone without a trace: nobody will answer or reset their connections.
    pub vanished: VanishedEndpoints,
    /// Endpoints of these nodes left all slices without having been seen terminating. If such a node is deleted
    /// ([`Event::DeleteNode`]), they have vanished.
    pub departed_nodes: BTreeSet<Box<str>>,
}

impl Changed {
    /// Did the event tell nothing new?
    pub fn is_empty(&self) -> bool {
        self.ports.is_empty()
            && self.services.is_empty()
            && !self.node
            && !self.service_networks
            && self.vanished.is_empty()
            && self.departed_nodes.is_empty()
    }

    /// Both changes.
    pub fn merge(&mut self, other: Changed) {
        self.ports.extend(other.ports);
        self.services.extend(other.services);
        self.node |= other.node;
        self.service_networks |= other.service_networks;
        add_vanished(&mut self.vanished, other.vanished);
        self.departed_nodes.extend(other.departed_nodes);
    }
}

/// Adds one set of vanished endpoints to another.
pub(crate) fn add_vanished(to: &mut VanishedEndpoints, more: VanishedEndpoints) {
    for (port, endpoints) in more {
        to.entry(port).or_default().extend(endpoints);
    }
}

/// All facts. Each is kept as small as it can be: every node holds the whole cluster.
#[derive(Debug)]
pub struct Cluster {
    config: Config,
    services: BTreeMap<ServiceName, Box<ServiceState>>,
    slice_owners: BTreeMap<SliceName, ServiceName>,
    /// Slices that name no Service: only their reports count.
    orphans: BTreeMap<SliceName, Box<[Report]>>,
    nodes: BTreeMap<Box<str>, Node>,
    service_cidrs: BTreeMap<Box<str>, ServiceCidr>,
    local_addresses: Option<BTreeSet<IpAddr>>,
    in_doubt: BTreeSet<Box<str>>,
    vips: Vips,
    endpoints: EndpointIndex,
    history: EndpointHistory,
    node_names: NodeNames,
    port_names: Shared<str>,
    slice_ports: Shared<[SlicePort]>,
}

/// A Service and its slices, either of which may come first.
#[derive(Debug, Default)]
struct ServiceState {
    service: Option<Service>,
    /// Ordered by name.
    slices: Vec<StoredSlice>,
    /// Its number in the index of endpoints, while it has some.
    number: Option<u32>,
}

impl Cluster {
    /// A cluster of which nothing is known yet.
    pub fn new(config: Config) -> Self {
        Self {
            config,
            services: BTreeMap::new(),
            slice_owners: BTreeMap::new(),
            orphans: BTreeMap::new(),
            nodes: BTreeMap::new(),
            service_cidrs: BTreeMap::new(),
            local_addresses: None,
            in_doubt: BTreeSet::new(),
            vips: Vips::default(),
            endpoints: EndpointIndex::default(),
            history: EndpointHistory::default(),
            node_names: NodeNames::default(),
            port_names: Shared::default(),
            slice_ports: Shared::default(),
        }
    }

    /// Takes in what a source learnt, and says which service ports may be different now.
    pub fn apply(&mut self, event: Event) -> Changed {
        match event {
            Event::Apply(Fact::Service(service)) => self.apply_service(service),
            Event::DeleteService(name) => self.set_service(&name, None),
            Event::Apply(Fact::EndpointSlice(slice)) => self.apply_slice(slice),
            Event::DeleteSlice(name) => self.delete_slice(&name),
            Event::Apply(Fact::Node(mut node)) => {
                node.reports.extend(self.config.objection_to(&node));
                self.set_node(node.name.clone(), Some(node))
            }
            Event::DeleteNode(name) => self.set_node(name, None),
            Event::Apply(Fact::ServiceCidr(cidr)) => self.set_service_cidr(cidr.name.clone(), Some(cidr)),
            Event::DeleteServiceCidr(name) => self.set_service_cidr(name, None),
            Event::LocalAddresses(addresses) => {
                let is_new = self.local_addresses.as_ref() != Some(&addresses);
                self.local_addresses = Some(addresses);
                Changed { node: is_new, ..Changed::default() }
            }
            Event::Rechosen(choice) => self.choose_anew(choice),
            Event::EndpointsInDoubt(namespaces) => self.set_in_doubt(namespaces),
        }
    }

    fn set_in_doubt(&mut self, namespaces: BTreeSet<Box<str>>) -> Changed {
        let before = std::mem::replace(&mut self.in_doubt, namespaces);
        let changed: BTreeSet<&str> =
            before.symmetric_difference(&self.in_doubt).map(|name| &**name).collect();
        let is_changed = |namespace: &str| changed.contains(namespace) || changed.contains("");
        let services = self.services().filter(|service| is_changed(service.name.namespace()));
        Changed { ports: services.flat_map(port_ids).collect(), ..Changed::default() }
    }

    /// May endpoints of this Service be missing by a mistake?
    pub(crate) fn is_in_doubt(&self, service: &ServiceName) -> bool {
        self.in_doubt.contains(service.namespace()) || self.in_doubt.contains("")
    }

    /// Where node ports answer is something of the node; who is masqueraded stands in every route.
    fn choose_anew(&mut self, choice: Rechoice) -> Changed {
        let Rechoice { masquerade_all, node_port_addresses } = choice;
        let node = self.config.node_port_addresses != node_port_addresses;
        self.config.node_port_addresses = node_port_addresses;
        let is_other = std::mem::replace(&mut self.config.masquerade_all, masquerade_all) != masquerade_all;
        let ports = if is_other { self.all_ports() } else { BTreeSet::new() };
        Changed { ports, node, ..Changed::default() }
    }

    /// The operator's choices.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The Service of this name.
    pub fn service(&self, name: &ServiceName) -> Option<&Service> {
        self.services.get(name)?.service.as_ref()
    }

    /// All Services, by name.
    pub fn services(&self) -> impl Iterator<Item = &Service> {
        self.services.values().filter_map(|state| state.service.as_ref())
    }

    /// This node's object.
    pub fn node(&self) -> Option<&Node> {
        self.nodes.get(self.config.node_name.as_str())
    }

    /// The addresses of this host, where they were told.
    pub fn local_addresses(&self) -> Option<&BTreeSet<IpAddr>> {
        self.local_addresses.as_ref()
    }

    /// The ranges that cluster IPs come from.
    pub fn service_networks(&self) -> BTreeSet<IpNet> {
        self.service_cidrs.values().flat_map(|cidr| cidr.cidrs.iter().copied()).collect()
    }

    /// Every service port there is.
    pub fn all_ports(&self) -> BTreeSet<ServicePortId> {
        self.services().flat_map(port_ids).collect()
    }

    /// What was malformed in the objects themselves. What follows from several objects together is reported by the table.
    pub fn reports(&self) -> impl Iterator<Item = &Report> {
        let services = self.services.values().flat_map(|state| {
            let own = state.service.iter().flat_map(|service| &service.reports);
            own.chain(state.slices.iter().flat_map(StoredSlice::reports))
        });
        let orphans = self.orphans.values().flat_map(|reports| reports.iter());
        let nodes = self.nodes.values().flat_map(|node| &node.reports);
        let cidrs = self.service_cidrs.values().flat_map(|cidr| &cidr.reports);
        services.chain(orphans).chain(nodes).chain(cidrs)
    }

    pub(crate) fn slices(&self, service: &ServiceName) -> &[StoredSlice] {
        self.services.get(service).map_or(&[], |state| &state.slices)
    }

    pub(crate) fn vips(&self) -> &Vips {
        &self.vips
    }

    /// Does any slice have an endpoint at this address?
    pub fn has_endpoint_at(&self, address: IpAddr) -> bool {
        let has_it = |slice: &StoredSlice| slice.endpoints().iter().any(|e| e.address == address);
        self.endpoints.services_at(address).any(|service| self.slices(service).iter().any(has_it))
    }

    fn apply_service(&mut self, mut service: Service) -> Changed {
        for port in &mut service.ports {
            self.port_names.share(&mut port.name);
        }
        self.set_service(&service.name.clone(), Some(service))
    }

    fn set_service(&mut self, name: &ServiceName, service: Option<Service>) -> Changed {
        let before = self.services.get_mut(name).and_then(|state| state.service.take());
        if before == service {
            self.put_service(name, service);
            return Changed::default();
        }
        let addresses = self.vips.replace(&self.config, before.as_ref(), service.as_ref());
        let mut ports: BTreeSet<_> = before.iter().chain(&service).flat_map(port_ids).collect();
        self.put_service(name, service);
        for address in addresses {
            ports.extend(self.ports_with_endpoint_at(address));
        }
        Changed { ports, services: BTreeSet::from([name.clone()]), ..Changed::default() }
    }

    fn put_service(&mut self, name: &ServiceName, service: Option<Service>) {
        if let Some(service) = service {
            let name = self.known_name(name.clone());
            let state = self.services.entry(name.clone()).or_default();
            state.service = Some(Service { name, ..service });
        }
        self.forget_if_empty(name);
    }

    fn ports_with_endpoint_at(&self, address: IpAddr) -> Vec<ServicePortId> {
        let names = self.endpoints.services_at(address);
        names.filter_map(|name| self.service(name)).flat_map(port_ids).collect()
    }

    fn apply_slice(&mut self, mut slice: EndpointSlice) -> Changed {
        for port in &mut slice.ports {
            self.port_names.share(&mut port.name);
        }
        let Some(owner) = slice.service.take().map(|owner| self.known_name(owner)) else {
            let changed = self.delete_slice(&slice.name);
            self.orphans.insert(slice.name, slice.reports.into());
            return changed;
        };
        let mut changed = match self.slice_owners.get(&slice.name) {
            Some(previous) if *previous != owner => self.delete_slice(&slice.name),
            _ => Changed::default(),
        };
        self.orphans.remove(&slice.name);
        self.slice_owners.insert(slice.name.clone(), owner.clone());
        if self.node_names.is_full() {
            let slices = self.services.values().flat_map(|state| &state.slices);
            let used = slices.flat_map(|slice| slice.endpoints().iter().map(|e| e.node)).collect();
            self.node_names.keep(&used);
        }
        let mut stored = StoredSlice::new(slice, &self.config.node_name, &mut self.node_names);
        self.slice_ports.share(&mut stored.ports);
        changed.merge(self.set_slice(&owner, &stored.name.clone(), Some(stored)));
        changed
    }

    /// The same name, as the string that is kept already where there is one.
    fn known_name(&self, name: ServiceName) -> ServiceName {
        self.services.get_key_value(&name).map_or(name, |(known, _)| known.clone())
    }

    fn delete_slice(&mut self, name: &SliceName) -> Changed {
        self.orphans.remove(name);
        match self.slice_owners.remove(name) {
            Some(owner) => self.set_slice(&owner, name, None),
            None => Changed::default(),
        }
    }

    fn set_slice(&mut self, owner: &ServiceName, name: &SliceName, slice: Option<StoredSlice>) -> Changed {
        let state = self.services.entry(owner.clone()).or_default();
        let place = state.slices.binary_search_by(|s| s.name.cmp(name));
        let before = place.ok().map(|at| &state.slices[at]);
        if before == slice.as_ref() {
            return Changed::default();
        }
        // Also a port that the slice does not have is told: why it has no endpoint may be another reason now.
        let ports = state.service.iter().flat_map(port_ids).collect();
        let addresses_before = state.addresses();
        self.history.saw(slice.as_ref());
        let mut before = None;
        match (place, slice) {
            (Ok(at), Some(slice)) => before = Some(std::mem::replace(&mut state.slices[at], slice)),
            (Ok(at), None) => before = Some(state.slices.remove(at)),
            (Err(at), Some(slice)) => {
                // Most Services have one slice, and a vector that grows by itself would make room for four.
                state.slices.reserve_exact(1);
                state.slices.insert(at, slice);
            }
            (Err(_), None) => {}
        }
        let after = state.addresses();
        self.endpoints.replace(&mut state.number, owner, &addresses_before, &after);
        let mut changed = Changed { ports, ..Changed::default() };
        if let Some(before) = before {
            self.endpoints_left(owner, name, &before, &mut changed);
        }
        self.forget_if_empty(owner);
        changed
    }

    /// Endpoints that are no longer in a slice, and perhaps in none. Those of a Service that is gone are left alone: it took its
    /// slices with it, whatever became of the Pods.
    fn endpoints_left(
        &mut self,
        owner: &ServiceName,
        name: &SliceName,
        before: &StoredSlice,
        changed: &mut Changed,
    ) {
        let Some(state) = self.services.get(owner) else { return };
        let now = state.slices.iter().find(|slice| slice.name == *name);
        let stays = |address: IpAddr| {
            now.is_some_and(|slice| slice.endpoints().iter().any(|one| one.address == address))
        };
        let through = state.service.iter().flat_map(|service| tcp_ports(service, before)).collect();
        let departure = Departure { slice: before, through };
        let left: Vec<usize> =
            (0..before.endpoints().len()).filter(|at| !stays(before.endpoints()[*at].address)).collect();
        for at in left {
            let is_gone = !self.has_endpoint_at(before.endpoints()[at].address);
            self.history.left(&departure, at, is_gone, &self.node_names, changed);
        }
    }

    fn forget_if_empty(&mut self, name: &ServiceName) {
        if self.services.get(name).is_some_and(|state| state.service.is_none() && state.slices.is_empty()) {
            self.services.remove(name);
        }
    }

    /// Zone, addresses and pod networks decide routes of any Service, and change rarely: all are decided anew.
    fn set_node(&mut self, name: Box<str>, node: Option<Node>) -> Changed {
        let is_ours = *name == *self.config.node_name;
        let departed = match &node {
            Some(_) => {
                self.history.node_exists(&name);
                Vec::new()
            }
            None => self.history.node_deleted(&name, self.nodes.contains_key(&name)),
        };
        let mut changed = Changed::default();
        for (address, through) in departed {
            if !self.has_endpoint_at(address) {
                history::vanish(address, through, &mut changed);
            }
        }
        if self.nodes.get(&name) == node.as_ref() {
            return changed;
        }
        match node {
            Some(node) => drop(self.nodes.insert(name, node)),
            None => drop(self.nodes.remove(&name)),
        }
        if is_ours {
            (changed.ports, changed.node) = (self.all_ports(), true);
        }
        changed
    }

    fn set_service_cidr(&mut self, name: Box<str>, cidr: Option<ServiceCidr>) -> Changed {
        let before = self.service_networks();
        match cidr {
            Some(cidr) => drop(self.service_cidrs.insert(name, cidr)),
            None => drop(self.service_cidrs.remove(&name)),
        }
        Changed { service_networks: before != self.service_networks(), ..Changed::default() }
    }
}

impl ServiceState {
    fn addresses(&self) -> BTreeSet<IpAddr> {
        self.slices.iter().flat_map(|slice| slice.endpoints().iter().map(|e| e.address)).collect()
    }
}

/// The TCP ports of a Service that a slice has, each with the number at which its endpoints listen.
fn tcp_ports(service: &Service, slice: &StoredSlice) -> Vec<(ServicePortId, u16)> {
    let tcp = port_ids(service).filter(|id| id.protocol == Protocol::Tcp);
    let with_number = |id: ServicePortId| -> Vec<(ServicePortId, u16)> {
        slice.numbers_of(&id.port, id.protocol).map(|number| (id.clone(), number)).collect()
    };
    tcp.flat_map(with_number).collect()
}

/// The names of a Service's ports.
pub(crate) fn port_ids(service: &Service) -> impl Iterator<Item = ServicePortId> {
    service.ports.iter().map(|port| ServicePortId {
        service: service.name.clone(),
        port: port.name.clone(),
        protocol: port.protocol,
    })
}
