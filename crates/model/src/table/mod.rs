//! The forwarding table: what this node must do for every frontend. The one input of every dataplane.
//!
//! It follows the [`Cluster`]: [`ForwardingTable::update`] decides anew the service ports that an event touched, and those
//! alone, and returns how they were before ([`Delta`]).

mod build;
mod candidates;
mod choose;
mod claims;
mod node_view;
mod slots;
mod types;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use claims::Claims;
pub use node_view::{NodeView, PodDetector};
pub use types::{
    Absence, Action, AllowedSources, Claim, Endpoint, HealthCheck, How, Masquerade, Pool, Route, ServicePort,
};

use crate::cluster::{Changed, Cluster, VanishedEndpoints, add_vanished, port_ids};
use crate::frontend::{Frontend, FrontendKind};
use crate::name::{ObjectRef, ServiceName, ServicePortId};
use crate::net::{Family, IpNet};
use crate::report::Report;

/// All routes of this node, and what a packet is judged by beside them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ForwardingTable {
    ports: BTreeMap<Arc<Claim>, Arc<ServicePort>>,
    claims: Claims,
    health_checks: BTreeMap<ServiceName, HealthCheck>,
    left_alone: BTreeMap<ServiceName, BTreeSet<IpAddr>>,
    bare: BTreeMap<ServiceName, BTreeSet<IpAddr>>,
    node: NodeView,
    service_networks: BTreeSet<IpNet>,
}

/// What an update changed: how things were before. How they are now, the table says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delta {
    /// The service ports that are different now, as they were; `None` for one that was not there.
    pub before: BTreeMap<ServicePortId, Option<Arc<ServicePort>>>,
    /// The node's addresses, where they are different now, as they were.
    pub node_before: Option<NodeView>,
    /// The ranges of cluster IPs are different now, or the Services in them that other proxies serve or that have no route.
    pub service_networks: bool,
    /// What load balancers may ask about is different now.
    pub health_checks: bool,
    /// Endpoints that have vanished: their connections are to be ended once the table is in force.
    pub vanished: VanishedEndpoints,
    /// Endpoints of these nodes left: see [`Changed::departed_nodes`]. No rule depends upon them.
    pub departed_nodes: BTreeSet<Box<str>>,
}

impl Delta {
    /// Is nothing different, and nothing to be done?
    pub fn is_empty(&self) -> bool {
        self.before.is_empty()
            && self.node_before.is_none()
            && !self.service_networks
            && !self.health_checks
            && self.vanished.is_empty()
    }

    /// Adds a later change to this one: what was there first stays what was before.
    pub fn merge(&mut self, later: Delta) {
        for (id, port) in later.before {
            self.before.entry(id).or_insert(port);
        }
        self.node_before = self.node_before.take().or(later.node_before);
        self.service_networks |= later.service_networks;
        self.health_checks |= later.health_checks;
        add_vanished(&mut self.vanished, later.vanished);
        self.departed_nodes.extend(later.departed_nodes);
    }
}

impl ForwardingTable {
    /// The table of a whole cluster.
    pub fn of(cluster: &Cluster) -> Self {
        let mut table = Self::default();
        let services = cluster.services().map(|service| service.name.clone()).collect();
        let everything = Changed {
            ports: cluster.all_ports(),
            services,
            node: true,
            service_networks: true,
            ..Changed::default()
        };
        table.update(cluster, &everything);
        table
    }

    /// Follows `cluster`, of which `changed` may be different now.
    pub fn update(&mut self, cluster: &Cluster, changed: &Changed) -> Delta {
        let mut delta = Delta {
            vanished: changed.vanished.clone(),
            departed_nodes: changed.departed_nodes.clone(),
            ..Delta::default()
        };
        if changed.node {
            self.update_node(cluster, &mut delta);
        }
        if changed.service_networks {
            let networks = cluster.service_networks();
            delta.service_networks = networks != self.service_networks;
            self.service_networks = networks;
        }
        self.update_ports(cluster, changed, &mut delta);
        delta
    }

    /// All service ports that have a frontend, or something to report.
    pub fn ports(&self) -> impl Iterator<Item = &Arc<ServicePort>> {
        self.ports.values()
    }

    /// The first `max` service ports, and everything about the node. A bounded example of this table, for the checks of the host.
    #[must_use]
    pub fn sample(&self, max: usize) -> Self {
        let (node, service_networks) = (self.node.clone(), self.service_networks.clone());
        let mut sample = Self { node, service_networks, ..Self::default() };
        for (claim, port) in self.ports.iter().take(max) {
            for route in &port.routes {
                sample.claims.claim(route.frontend, claim);
            }
            sample.ports.insert(Arc::clone(claim), Arc::clone(port));
        }
        sample
    }

    /// One service port.
    pub fn port(&self, id: &ServicePortId) -> Option<&Arc<ServicePort>> {
        self.ports.get(id)
    }

    /// The route of a frontend, with its service port.
    pub fn route(&self, frontend: &Frontend) -> Option<(&Arc<ServicePort>, &Route)> {
        let port = self.ports.get(&self.claims.holder(frontend)?.id)?;
        port.routes.iter().find(|route| route.frontend == *frontend).map(|route| (port, route))
    }

    /// Whose cluster IP `address` is, if it is one.
    pub fn cluster_ip_owner(&self, address: IpAddr) -> Option<&ServiceName> {
        let with_route = self.claims.at(address).find_map(|(frontend, claim)| {
            let port = self.ports.get(&claim.id)?;
            let is_cluster_ip = |r: &Route| r.frontend == *frontend && r.kind == FrontendKind::ClusterIp;
            port.routes.iter().any(is_cluster_ip).then_some(&claim.id.service)
        });
        with_route
            .or_else(|| self.bare.iter().find(|(_, ips)| ips.contains(&address)).map(|(service, _)| service))
    }

    /// Is `address` that of some frontend?
    pub fn is_dialled(&self, address: IpAddr) -> bool {
        self.claims.at(address).next().is_some()
    }

    /// Cluster IPs of Services that have no route there: they have no port, or others hold their ports. All their ports are
    /// undefined ones.
    pub fn bare_cluster_ips(&self) -> &BTreeMap<ServiceName, BTreeSet<IpAddr>> {
        &self.bare
    }

    /// This node: its addresses, and how it knows its pods.
    pub fn node(&self) -> &NodeView {
        &self.node
    }

    /// The ranges that cluster IPs come from.
    pub fn service_networks(&self) -> &BTreeSet<IpNet> {
        &self.service_networks
    }

    /// The health checks that load balancers ask this node for.
    pub fn health_checks(&self) -> &BTreeMap<ServiceName, HealthCheck> {
        &self.health_checks
    }

    /// The cluster IPs of Services that another proxy serves: their packets are not ours, not even to refuse.
    pub fn left_alone(&self) -> &BTreeMap<ServiceName, BTreeSet<IpAddr>> {
        &self.left_alone
    }

    /// What is wrong with several objects together: two claim one frontend, an endpoint that cannot be one, ...
    pub fn reports(&self) -> BTreeSet<&Report> {
        self.ports.values().flat_map(|port| port.reports()).collect()
    }

    fn update_node(&mut self, cluster: &Cluster, delta: &mut Delta) {
        let node = NodeView::of(cluster);
        if node != self.node {
            delta.node_before = Some(std::mem::replace(&mut self.node, node));
        }
    }

    /// Decides `todo` anew, and with it every service port that gains or loses a frontend by that.
    fn update_ports(&mut self, cluster: &Cluster, changed: &Changed, delta: &mut Delta) {
        let (mut todo, mut services) = (changed.ports.clone(), changed.services.clone());
        while let Some(id) = todo.pop_first() {
            let before = self.ports.get(&id).cloned();
            let wanted = build::service_port(cluster, &self.node, &id);
            self.replace(&id, before.as_deref(), wanted, &mut todo);
            services.insert(id.service.clone());
            delta.before.entry(id).or_insert(before);
        }
        for service in services {
            delta.health_checks |= self.update_health_check(cluster, &service);
            delta.service_networks |= self.update_left_alone(cluster, &service);
            delta.service_networks |= self.update_bare(cluster, &service);
        }
        delta.before.retain(|id, before| before.as_ref() != self.ports.get(id));
    }

    fn replace(
        &mut self,
        id: &ServicePortId,
        before: Option<&ServicePort>,
        wanted: Option<ServicePort>,
        todo: &mut BTreeSet<ServicePortId>,
    ) {
        let keeps =
            |frontend: &Frontend| wanted.iter().any(|w| w.routes.iter().any(|r| r.frontend == *frontend));
        for frontend in before.iter().flat_map(|port| port.frontends()).filter(|f| !keeps(f)) {
            todo.extend(self.claims.release(&frontend, id));
        }
        self.ports.remove(id);
        let Some(mut port) = wanted else { return };
        for route in &port.routes {
            todo.extend(self.claims.claim(route.frontend, &port.claim));
        }
        self.give_up_frontends_of_others(&mut port);
        self.ports.insert(Arc::clone(&port.claim), Arc::new(port));
    }

    /// Takes out of `port` the routes of frontends that an older Service holds, and reports them.
    fn give_up_frontends_of_others(&self, port: &mut ServicePort) {
        let holder =
            |route: &Route| self.claims.holder(&route.frontend).filter(|holder| holder.id != port.claim.id);
        if !port.routes.iter().any(|route| holder(route).is_some()) {
            return;
        }
        let (mut held, mut trouble) = (Vec::new(), port.trouble.take().unwrap_or_default());
        for route in port.routes.iter().cloned() {
            match holder(&route) {
                None => held.push(route),
                Some(holder) => {
                    trouble.reports.push(taken(&port.claim, &route, holder));
                    trouble.lost.push(route.frontend);
                }
            }
        }
        (port.routes, port.trouble) = (held.into(), Some(trouble));
    }

    fn update_health_check(&mut self, cluster: &Cluster, service: &ServiceName) -> bool {
        replace(&mut self.health_checks, service, build::health_check(cluster, service))
    }

    fn update_left_alone(&mut self, cluster: &Cluster, service: &ServiceName) -> bool {
        let others = cluster.service(service).filter(|found| cluster.config().leaves_to_others(found));
        replace(&mut self.left_alone, service, others.and_then(|found| non_empty(found.cluster_ips.iter())))
    }

    fn update_bare(&mut self, cluster: &Cluster, service: &ServiceName) -> bool {
        let served = cluster.service(service).filter(|found| cluster.config().serves(found));
        let bare = served.and_then(|found| {
            let routed: BTreeSet<IpAddr> = port_ids(found).flat_map(|id| self.cluster_ips_of(&id)).collect();
            non_empty(found.cluster_ips.iter().filter(|(_, ip)| ip.is_some_and(|ip| !routed.contains(&ip))))
        });
        replace(&mut self.bare, service, bare)
    }

    /// The cluster IPs on which a service port has a route.
    fn cluster_ips_of(&self, id: &ServicePortId) -> Vec<IpAddr> {
        let routes = self.ports.get(id).into_iter().flat_map(|port| port.routes.iter());
        let cluster_ips = routes.filter(|route| route.kind == FrontendKind::ClusterIp);
        cluster_ips
            .filter_map(
                |route| if let Frontend::Address { ip, .. } = route.frontend { Some(ip) } else { None },
            )
            .collect()
    }
}

/// The addresses, unless there is none.
fn non_empty<'a>(ips: impl Iterator<Item = (Family, &'a Option<IpAddr>)>) -> Option<BTreeSet<IpAddr>> {
    let ips: BTreeSet<IpAddr> = ips.filter_map(|(_, ip)| *ip).collect();
    (!ips.is_empty()).then_some(ips)
}

/// Makes `map` hold `value` for `service`, or nothing. Returns whether that is something new.
fn replace<T: PartialEq>(
    map: &mut BTreeMap<ServiceName, T>,
    service: &ServiceName,
    value: Option<T>,
) -> bool {
    if map.get(service) == value.as_ref() {
        return false;
    }
    match value {
        Some(value) => drop(map.insert(service.clone(), value)),
        None => drop(map.remove(service)),
    }
    true
}

fn taken(claim: &Claim, route: &Route, holder: &Claim) -> Report {
    let object = ObjectRef::service(&claim.id.service);
    let value = route.frontend.to_string();
    if claim.id.service == holder.id.service {
        let problem =
            "another port of this Service has this number and protocol; this one has no effect there";
        return Report::new(object, "spec.ports", &value, problem);
    }
    let problem = format!(
        "Service {} has it already (it was created earlier, or its name comes first); this Service gets it when that one goes",
        holder.id.service
    );
    Report::new(object, route.kind.field(), &value, problem)
}
