//! One service port of the cluster → its place in the table, as if it held every frontend that it claims.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use super::candidates::{self, Candidate};
use super::choose::{self, Choice};
use super::node_view::NodeView;
use super::slots;
use super::types::{
    Absence, Action, AllowedSources, Claim, Endpoint, HealthCheck, Masquerade, Pool, Route, ServicePort,
    Trouble,
};
use crate::cluster::{Cluster, port_ids};
use crate::facts::{External, IpMode, Policy, PortSpec, Service};
use crate::frontend::{Frontend, FrontendKind};
use crate::name::{ObjectRef, ServiceName, ServicePortId};
use crate::net::{ByFamily, Family, IpNet, Protocol};
use crate::place::Place;
use crate::report::Report;

/// The service port `id`, if this node serves it.
pub(super) fn service_port(cluster: &Cluster, node: &NodeView, id: &ServicePortId) -> Option<ServicePort> {
    let service = cluster.service(&id.service).filter(|service| cluster.config().serves(service))?;
    let spec = service.ports.iter().find(|p| p.name == id.port && p.protocol == id.protocol)?;
    let mut reports = Vec::new();
    let mut candidates = candidates::gather(cluster, id, &mut reports);
    if candidates.v4.is_empty() && candidates.v6.is_empty() && cluster.is_in_doubt(&id.service) {
        return None;
    }
    let serving = serving(id.protocol, &candidates);
    let absence_in = |family: Family| {
        let is_wanted = service.cluster_ips.get(family).is_some();
        is_wanted.then(|| absence(cluster, id, family, candidates.get(family))).flatten()
    };
    let absence = ByFamily { v4: absence_in(Family::V4), v6: absence_in(Family::V6) };
    let has_drained = ByFamily { v4: has_drained(&candidates.v4), v6: has_drained(&candidates.v6) };
    candidates::leave_out_drained(&mut candidates);
    let builder = Builder { cluster, service, spec, node };
    let mut routes = Vec::new();
    for family in Family::ALL {
        if service.cluster_ips.get(family).is_some() {
            builder.routes(family, candidates.get(family), &mut routes, &mut reports);
        }
    }
    let trouble = Trouble { absence, has_drained, lost: Vec::new(), reports };
    Some(ServicePort {
        claim: Arc::new(Claim { id: id.clone(), created: service.created }),
        affinity_seconds: service.affinity_seconds,
        annotations: service.annotations(),
        routes: routes.into(),
        serving,
        trouble: (trouble != Trouble::default()).then(|| Box::new(trouble)),
    })
}

/// What a load balancer may ask about a Service: how many ready addresses of each family are here, over all its ports.
pub(super) fn health_check(cluster: &Cluster, name: &ServiceName) -> Option<HealthCheck> {
    let is_served = |service: &&Service| cluster.config().serves(service) && !service.ports.is_empty();
    let service = cluster.service(name).filter(is_served)?;
    let port = service.external.as_ref()?.health_check_node_port?;
    let mut addresses = BTreeSet::new();
    for id in port_ids(service) {
        let candidates = candidates::gather(cluster, &id, &mut Vec::new());
        let local = candidates.v4.iter().chain(&candidates.v6);
        addresses.extend(
            local.filter(|c| c.is_ready() && c.weight > 0 && c.place() == Place::Here).map(|c| c.address),
        );
    }
    let count = |family: Family| {
        let of_family = addresses.iter().filter(|address| Family::of(**address) == family);
        service.cluster_ips.get(family).map(|_| of_family.count())
    };
    Some(HealthCheck { port, local_endpoints: ByFamily { v4: count(Family::V4), v6: count(Family::V6) } })
}

fn serving(protocol: Protocol, candidates: &ByFamily<Vec<Candidate<'_>>>) -> Box<[(IpAddr, u16)]> {
    if protocol == Protocol::Tcp {
        return Box::default();
    }
    let all = candidates.v4.iter().chain(&candidates.v6);
    all.filter(|c| c.is_ready() || c.is_serving()).map(|c| (c.address, c.port)).collect()
}

fn is_usable(candidate: &Candidate<'_>) -> bool {
    candidate.is_ready() || candidate.is_serving_while_terminating()
}

fn has_drained(candidates: &[Candidate<'_>]) -> bool {
    candidates.iter().any(|c| is_usable(c) && c.weight == 0)
}

/// Why a family has no endpoint to send a connection to, if so.
fn absence(
    cluster: &Cluster,
    id: &ServicePortId,
    family: Family,
    candidates: &[Candidate<'_>],
) -> Option<Absence> {
    if candidates.iter().any(|c| is_usable(c) && c.weight > 0) {
        return None;
    }
    if !candidates.is_empty() {
        return Some(if has_drained(candidates) { Absence::Drained } else { Absence::NotReady });
    }
    let slices = cluster.slices(&id.service).iter();
    let of_family: Vec<_> =
        slices.filter(|slice| slice.endpoints().iter().any(|e| Family::of(e.address) == family)).collect();
    let has_port = of_family.iter().any(|slice| slice.has_port(&id.port, id.protocol));
    Some(match (of_family.is_empty(), has_port) {
        (true, _) => Absence::NoEndpoint,
        (false, false) => Absence::NoSuchPort,
        (false, true) => Absence::Refused,
    })
}

struct Builder<'a> {
    cluster: &'a Cluster,
    service: &'a Service,
    spec: &'a PortSpec,
    node: &'a NodeView,
}

/// The actions of one family, by policy.
struct Actions {
    cluster: Action,
    local: Action,
}

impl Builder<'_> {
    fn routes(
        &self,
        family: Family,
        candidates: &[Candidate<'_>],
        routes: &mut Vec<Route>,
        reports: &mut Vec<Report>,
    ) {
        let actions = self.actions(candidates, reports);
        for (frontend, kind) in self.frontends(family, reports) {
            // An address that is listed twice, say as external and load balancer IP, is one frontend: the first, which is
            // the one with source ranges.
            if routes.iter().any(|route| route.frontend == frontend) {
                continue;
            }
            let mut route = self.route(frontend, kind, &actions);
            if kind == FrontendKind::LoadBalancerIp {
                route.allowed_sources = self.allowed_sources(family, reports).map(Arc::new);
            }
            routes.push(route);
        }
    }

    fn actions(&self, candidates: &[Candidate<'_>], reports: &mut Vec<Report>) -> Actions {
        let cluster = self.forward(&choose::in_cluster(candidates, self.node.zone.as_deref()), reports);
        let local = self.forward(&choose::on_this_node(candidates), reports);
        // None in the whole cluster is a refusal. Some, but none here, is silence: another node may do better.
        let without_local = if cluster.is_some() { Action::Drop } else { Action::Reject };
        Actions { cluster: cluster.unwrap_or(Action::Reject), local: local.unwrap_or(without_local) }
    }

    fn forward(&self, choice: &Choice<'_>, reports: &mut Vec<Report>) -> Option<Action> {
        if choice.endpoints.is_empty() {
            return None;
        }
        let weights: Vec<u8> = choice.endpoints.iter().map(|c| c.weight).collect();
        let (slots, is_rounded) = slots::from_weights(&weights);
        if is_rounded {
            reports.push(self.report(
                "metadata.annotations[portway.io/weights]",
                "",
                &rounded(choice.endpoints.len()),
            ));
        }
        let endpoints = choice.endpoints.iter().zip(slots);
        let endpoints = endpoints.map(|(c, slots)| Endpoint {
            address: c.address,
            port: c.port,
            slots,
            place: c.place(),
        });
        Some(Action::Forward(Pool::new(choice.how, endpoints.collect())))
    }

    fn frontends(&self, family: Family, reports: &mut Vec<Report>) -> Vec<(Frontend, FrontendKind)> {
        let (protocol, port) = (self.spec.protocol, self.spec.port);
        let address = |ip| Frontend::Address { ip, protocol, port };
        let mut found = Vec::new();
        if let Some(ip) = *self.service.cluster_ips.get(family) {
            found.push((address(ip), FrontendKind::ClusterIp));
        }
        if let Some(external) = &self.service.external {
            let balancers =
                external.load_balancer_ips.iter().filter(|lb| lb.mode == IpMode::Vip).map(|lb| lb.ip);
            let ips = balancers.map(|ip| (ip, FrontendKind::LoadBalancerIp));
            let ips = ips.chain(external.external_ips.iter().map(|ip| (*ip, FrontendKind::ExternalIp)));
            for (ip, kind) in ips.filter(|(ip, _)| Family::of(*ip) == family) {
                match self.cluster.config().refusal(ip, kind) {
                    None => found.push((address(ip), kind)),
                    Some(why) => reports.push(self.report(kind.field(), &ip.to_string(), why)),
                }
            }
        }
        if let Some(port) = self.spec.node_port {
            found.push((Frontend::NodePort { family, protocol, port }, FrontendKind::NodePort));
        }
        found
    }

    fn route(&self, frontend: Frontend, kind: FrontendKind, actions: &Actions) -> Route {
        let policy = if kind == FrontendKind::ClusterIp {
            self.service.internal_policy
        } else {
            self.service.external_policy
        };
        let (inside, outside) = match (kind, policy) {
            (_, Policy::Cluster) => (&actions.cluster, &actions.cluster),
            (FrontendKind::ClusterIp, Policy::Local) => (&actions.local, &actions.local),
            // The short cut: a pod, or this host, would reach any endpoint if its packet left the node and came back.
            (_, Policy::Local) => (&actions.cluster, &actions.local),
        };
        let (inside, outside) = (inside.clone(), outside.clone());
        let masquerade = self.masquerade(frontend.family(), kind, policy);
        Route { frontend, kind, masquerade, inside, outside, allowed_sources: None }
    }

    fn masquerade(&self, family: Family, kind: FrontendKind, policy: Policy) -> Masquerade {
        match (kind, policy) {
            (FrontendKind::ClusterIp, _) if self.cluster.config().masquerade_all => Masquerade::Everybody,
            (FrontendKind::ClusterIp, _) if self.node.pods.works_for(family) => Masquerade::AllButPods,
            (FrontendKind::ClusterIp, _) => Masquerade::Nobody,
            // The answer of an endpoint elsewhere must come back through this node.
            (_, Policy::Cluster) => Masquerade::Everybody,
            (_, Policy::Local) => Masquerade::ThisHost,
        }
    }

    /// Who may reach the load balancer IPs of a family; `None` for everybody. As upstream: the list of one family says
    /// nothing about the other, and one range that covers everything empties it.
    fn allowed_sources(&self, family: Family, reports: &mut Vec<Report>) -> Option<AllowedSources> {
        let external = self.service.external.as_ref()?;
        let ranges: Vec<IpNet> =
            external.source_ranges.iter().filter(|net| Family::of_net(net) == family).copied().collect();
        if ranges.iter().any(|net| net.prefix_len() == 0) {
            return None;
        }
        if ranges.is_empty() && !external.source_ranges_incomplete {
            if !external.source_ranges.is_empty() {
                let problem = format!("has no {family} range; {family} sources are all allowed");
                reports.push(self.report("spec.loadBalancerSourceRanges", "", &problem));
            }
            return None;
        }
        let includes_node =
            self.node.primary.get(family).is_some_and(|ip| ranges.iter().any(|net| net.contains(&ip)));
        let own_ips = if includes_node { own_ips(external, family) } else { Vec::new() };
        Some(AllowedSources { ranges, own_ips })
    }

    fn report(&self, field: &str, value: &str, problem: &str) -> Report {
        Report::new(ObjectRef::service(&self.service.name), field, value, problem)
    }
}

fn own_ips(external: &External, family: Family) -> Vec<IpAddr> {
    let served = external.load_balancer_ips.iter().filter(|lb| lb.mode == IpMode::Vip).map(|lb| lb.ip);
    served.filter(|ip| Family::of(*ip) == family).collect()
}

fn rounded(endpoints: usize) -> String {
    let most = slots::MOST_SLOTS.max(u32::try_from(endpoints).unwrap_or(u32::MAX));
    format!(
        "the weights of {endpoints} endpoints need more than {most} slots; shares are rounded to that many"
    )
}
