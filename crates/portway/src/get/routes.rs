//! `get routes`: what this node does for each address that a client may dial.
//!
//! One row per frontend: who it belongs to, where connections go, and what happens to them on the way. What is out of order
//! stands in words (`none: rejected`), so that it is found without knowing the columns.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;

use model::Place;
use model::table::{Endpoint, How, Masquerade};
use model::{Action, FrontendKind, Pool, Route, ServicePort};
use observe::picture::Picture;
use observe::traffic::{Carried, Traffic};
use serde_json::{Value, json};
use standalone::objects::Object;

use super::Style;
use crate::kube::joined;
use crate::table::Table;
use crate::view::View;

const USUAL: [&str; 6] = ["FRONTEND", "KIND", "SERVICE", "ENDPOINTS", "AFFINITY", "MASQUERADE"];
const WIDE: [&str; 3] = ["SOURCES", "ADDRESSES", "CARRIED"];

/// The routes of these Services. A Service is named in full, whatever the namespaces.
pub(super) fn table(view: &View, services: &[&Object], style: Style) -> Table {
    let style = Style { shows_namespaces: false, ..style };
    // Only a running portway knows what was carried, and only of what it carries itself.
    let is_carrying = !view.picture.traffic().is_empty();
    let mut table = style.table(&USUAL, if is_carrying { &WIDE } else { &WIDE[..2] });
    for (port, route) in routes(&view.picture, services) {
        let usual = [
            route.frontend.to_string(),
            route.kind.name().to_owned(),
            port_name(port),
            endpoints(route),
            port.affinity_seconds.map_or_else(|| "none".to_owned(), |seconds| format!("{seconds}s")),
            masquerade(route.masquerade).to_owned(),
        ];
        let carried = is_carrying.then(|| carried(&view.picture, port, route));
        let wide = [sources(route), addresses(route)].into_iter().chain(carried);
        table.push(usual.into_iter().chain(wide.filter(|_| style.is_wide)));
    }
    table
}

/// The routes of these Services, for programs.
pub(super) fn values(picture: &Picture, services: &[&Object]) -> Vec<Value> {
    routes(picture, services).map(|(port, route)| value(picture, port, route)).collect()
}

fn routes<'a>(
    picture: &'a Picture,
    services: &[&'a Object],
) -> impl Iterator<Item = (&'a Arc<ServicePort>, &'a Route)> {
    let wanted: BTreeSet<(&str, &str)> =
        services.iter().map(|service| (&*service.key.namespace, &*service.key.name)).collect();
    let is_wanted = move |port: &&Arc<ServicePort>| {
        let service = &port.id().service;
        wanted.contains(&(service.namespace(), service.name()))
    };
    let ports = picture.table().ports().filter(is_wanted);
    ports.flat_map(|port| port.routes.iter().map(move |route| (port, route)))
}

fn port_name(port: &ServicePort) -> String {
    let id = port.id();
    if id.port.is_empty() { id.service.to_string() } else { format!("{}:{}", id.service, id.port) }
}

/// `2 ready (1 here)`, `none: rejected`; where outside traffic is treated otherwise, that too.
fn endpoints(route: &Route) -> String {
    if route.inside == route.outside {
        return action(&route.inside);
    }
    format!("{}; from outside {}", action(&route.inside), action(&route.outside))
}

fn action(action: &Action) -> String {
    match action {
        Action::Forward(pool) => chosen(pool),
        Action::Reject => "none: rejected".to_owned(),
        Action::Drop => "none here: dropped".to_owned(),
    }
}

fn chosen(pool: &Pool) -> String {
    let all = pool.endpoints();
    let here = all.iter().filter(|endpoint| endpoint.place == Place::Here).count();
    let count = all.len();
    match (pool.how(), here) {
        (How::Ready, 0) => format!("{count} ready"),
        (How::Ready, here) => format!("{count} ready ({here} here)"),
        (How::ForThisNode, _) => format!("{count} for this node"),
        (How::ForThisZone, _) => format!("{count} for this zone"),
        (How::Terminating, _) => format!("{count} terminating"),
        (How::LocalReady, _) => format!("{count} here"),
        (How::LocalTerminating, _) => format!("{count} here, terminating"),
    }
}

/// Whose source address is hidden.
fn masquerade(rule: Masquerade) -> &'static str {
    match rule {
        Masquerade::Nobody => "nobody",
        Masquerade::AllButPods => "all but pods",
        Masquerade::ThisHost => "this node",
        Masquerade::Everybody => "everybody",
    }
}

fn sources(route: &Route) -> String {
    match &route.allowed_sources {
        None => "any".to_owned(),
        Some(allowed) => joined(&allowed.ranges.iter().map(ToString::to_string).collect::<Vec<_>>()),
    }
}

/// The endpoints of the larger pool, with their slots where these differ.
fn addresses(route: &Route) -> String {
    let pool = route.inside.pool().or_else(|| route.outside.pool());
    let endpoints = pool.map_or(&[][..], |pool| pool.endpoints());
    let is_even = endpoints.iter().all(|endpoint| endpoint.slots == 1);
    let show = |endpoint: &Endpoint| {
        let address = model::net::show_address_and_port(endpoint.address, endpoint.port);
        if is_even { address } else { format!("{address}={}", endpoint.slots) }
    };
    joined(&endpoints.iter().map(show).collect::<Vec<_>>())
}

/// What the relay carried, in all and by endpoint. The frontends of a service port share listeners, so the first of each
/// family tells for all; but what came by localhost stands with the node port.
fn carried(picture: &Picture, port: &ServicePort, route: &Route) -> String {
    let traffic = traffic(picture, port, route);
    if traffic.is_empty() {
        return "<none>".to_owned();
    }
    let all: Carried = traffic.iter().map(|traffic| traffic.all).sum();
    let by_endpoint = by_endpoint(&traffic);
    let parts = by_endpoint.iter().map(|(endpoint, carried)| format!("{endpoint}: {carried}"));
    [all.to_string()].into_iter().chain(parts).collect::<Vec<_>>().join("; ")
}

fn traffic<'a>(picture: &'a Picture, port: &ServicePort, route: &Route) -> Vec<&'a Traffic> {
    let family = route.frontend.family();
    let first = port.routes.iter().find(|other| other.frontend.family() == family);
    let is_first = first.is_some_and(|first| first.frontend == route.frontend);
    let is_told = |traffic: &&Traffic| {
        let is_here = if traffic.is_of_localhost() { route.kind == FrontendKind::NodePort } else { is_first };
        is_here && traffic.is_of(port.id(), family)
    };
    picture.traffic().iter().filter(is_told).collect()
}

fn by_endpoint(traffic: &[&Traffic]) -> BTreeMap<SocketAddr, Carried> {
    let mut all = BTreeMap::new();
    for (endpoint, carried) in traffic.iter().flat_map(|traffic| &traffic.endpoints) {
        let sum: &mut Carried = all.entry(*endpoint).or_default();
        *sum = [*sum, *carried].into_iter().sum();
    }
    all
}

fn value(picture: &Picture, port: &ServicePort, route: &Route) -> Value {
    let id = port.id();
    json!({
        "kind": "Route",
        "frontend": route.frontend.to_string(),
        "frontendKind": kind(route.kind),
        "service": id.service.as_str(),
        "port": &*id.port,
        "protocol": id.protocol.upper_name(),
        "affinitySeconds": port.affinity_seconds,
        "masquerade": masquerade(route.masquerade),
        "allowedSources": route.allowed_sources.as_ref().map(|allowed| {
            allowed.ranges.iter().map(ToString::to_string).collect::<Vec<_>>()
        }),
        "inside": action_value(&route.inside),
        "outside": action_value(&route.outside),
        "traffic": traffic(picture, port, route),
    })
}

fn kind(kind: FrontendKind) -> &'static str {
    match kind {
        FrontendKind::ClusterIp => "ClusterIP",
        FrontendKind::LoadBalancerIp => "LoadBalancerIP",
        FrontendKind::ExternalIp => "ExternalIP",
        FrontendKind::NodePort => "NodePort",
    }
}

fn action_value(action: &Action) -> Value {
    match action {
        Action::Reject => json!({ "action": "Reject" }),
        Action::Drop => json!({ "action": "Drop" }),
        Action::Forward(pool) => json!({
            "action": "Forward",
            "chosen": format!("{:?}", pool.how()),
            "slots": pool.slots(),
            "endpoints": pool.endpoints().iter().map(endpoint_value).collect::<Vec<_>>(),
        }),
    }
}

fn endpoint_value(endpoint: &Endpoint) -> Value {
    json!({
        "address": endpoint.address,
        "port": endpoint.port,
        "slots": endpoint.slots,
        "isHere": match endpoint.place {
            Place::Here => Some(true),
            Place::Elsewhere => Some(false),
            Place::Unknown => None,
        },
    })
}
