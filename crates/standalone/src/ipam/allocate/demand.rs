//! What a Service asks for: how many addresses and ports, and which of them by name.
//!
//! In: a Service as it was written. Out: its families, and one [`Want`] for each value that somebody has to give or to
//! grant. A field that cannot be read at all asks for nothing: `malformed` reports it, and no other value takes its place.

use std::net::IpAddr;

use model::net::parse_ip;
use model::{Family, ObjectRef, Protocol, Report, ServiceName};
use serde_json::Value;

use super::malformed::{self, is_unreadable_wish};
use crate::ipam::options::SERVICE_CIDR;
use crate::ipam::ranges::Ranges;
use crate::ipam::store::{Resource, Slot};
use crate::json;

/// What a Service asks for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Demand {
    /// The families it speaks, the first one first.
    pub(crate) families: Vec<Family>,
    /// Each value to give or to grant.
    pub(crate) wants: Vec<Want>,
    /// What cannot be read, and what no range could ever give.
    pub(crate) reports: Vec<Report>,
}

/// One value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Want {
    /// What for.
    pub(crate) slot: Slot,
    /// The one that the manifest names, if it does.
    pub(crate) wish: Option<Wish>,
}

/// A value by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wish {
    pub(crate) resource: Resource,
    /// Where the manifest says so.
    pub(crate) field: String,
}

/// Has the Service `clusterIP: None`?
pub(crate) fn is_headless(spec: &Value) -> bool {
    cluster_ip_texts(spec).iter().any(|(_, text)| *text == "None")
}

/// Reads what a Service asks for.
pub(crate) fn demand(name: &ServiceName, service: &Value, ranges: &Ranges) -> Demand {
    let spec = &service["spec"];
    let reports = malformed::reports(name, service);
    let mut demand = Demand { families: Vec::new(), wants: Vec::new(), reports };
    if !spec.is_object() || spec["type"] == "ExternalName" {
        return demand;
    }
    let given = given_cluster_ips(spec);
    demand.families = families(spec, &given, ranges);
    if is_headless(spec) {
        return demand;
    }
    demand.want_cluster_ips(name, spec, &given, ranges);
    demand.want_node_ports(spec);
    if spec["type"] == "LoadBalancer" {
        demand.want_health_check(spec);
        demand.want_load_balancer_ips(service, ranges);
    }
    demand
}

impl Demand {
    fn want_cluster_ips(&mut self, name: &ServiceName, spec: &Value, given: &[Wish], ranges: &Ranges) {
        if given.is_empty() && names_a_cluster_ip(spec) {
            return;
        }
        for &family in &self.families {
            let wish = given.iter().find(|wish| wish.resource.family() == Some(family)).cloned();
            if wish.is_some() || ranges.service.get(family).is_some() {
                self.wants.push(Want { slot: Slot::ClusterIp(family), wish });
            } else {
                self.reports.push(no_range(name, spec, family));
            }
        }
    }

    fn want_node_ports(&mut self, spec: &Value) {
        let is_balancer = spec["type"] == "LoadBalancer";
        if !is_balancer && spec["type"] != "NodePort" {
            return;
        }
        let gives_ports = !(is_balancer && spec["allocateLoadBalancerNodePorts"] == Value::Bool(false));
        for (index, port) in json::items(&spec["ports"]).enumerate() {
            let Some((protocol, number)) = port_of(port) else { continue };
            let node_port = &port["nodePort"];
            let slot = Slot::NodePort(protocol, number);
            let field = format!("spec.ports[{index}].nodePort");
            let is_asked_twice = self.wants.iter().any(|want| want.slot == slot);
            match wished_port(node_port) {
                Some(wished) => self.wish(slot, Resource::Port(protocol, wished), field),
                None if is_unset(node_port) && gives_ports && !is_asked_twice => {
                    self.wants.push(Want { slot, wish: None });
                }
                None => {}
            }
        }
    }

    fn want_health_check(&mut self, spec: &Value) {
        if spec["externalTrafficPolicy"] != "Local" {
            return;
        }
        let given = &spec["healthCheckNodePort"];
        match wished_port(given) {
            Some(port) => {
                let resource = Resource::Port(Protocol::Tcp, port);
                self.wish(Slot::HealthCheck, resource, "spec.healthCheckNodePort".to_owned());
            }
            None if is_unset(given) => self.wants.push(Want { slot: Slot::HealthCheck, wish: None }),
            None => {}
        }
    }

    /// Addresses that the manifest has in its status are taken as they are when they lie outside our ranges: somebody
    /// else gave them. Inside, they are claims like any other.
    fn want_load_balancer_ips(&mut self, service: &Value, ranges: &Ranges) {
        let ingress = &service["status"]["loadBalancer"]["ingress"];
        if json::items(ingress).next().is_some() {
            for (index, item) in json::items(ingress).enumerate() {
                let Some(ip) = json::text(&item["ip"]).and_then(parse_ip) else { continue };
                if ranges.load_balancer.get(Family::of(ip)).is_some_and(|net| net.contains(&ip)) {
                    let field = format!("status.loadBalancer.ingress[{index}].ip");
                    self.wish(Slot::LoadBalancerIp(Family::of(ip)), Resource::Address(ip), field);
                }
            }
            return;
        }
        if is_unreadable_wish(&service["spec"]["loadBalancerIP"]) {
            return;
        }
        let wished = json::text(&service["spec"]["loadBalancerIP"]).and_then(parse_ip);
        for &family in &self.families.clone() {
            if ranges.load_balancer.get(family).is_none() {
                continue;
            }
            let slot = Slot::LoadBalancerIp(family);
            match wished.filter(|ip| Family::of(*ip) == family) {
                Some(ip) => self.wish(slot, Resource::Address(ip), "spec.loadBalancerIP".to_owned()),
                None => self.wants.push(Want { slot, wish: None }),
            }
        }
    }

    fn wish(&mut self, slot: Slot, resource: Resource, field: String) {
        self.wants.push(Want { slot, wish: Some(Wish { resource, field }) });
    }
}

/// The protocol and number of a service port, where both can be read.
pub(crate) fn port_of(port: &Value) -> Option<(Protocol, u16)> {
    let protocol = match &port["protocol"] {
        Value::Null => Protocol::Tcp,
        text => Protocol::parse(text.as_str()?)?,
    };
    Some((protocol, json::port(&port["port"])?))
}

/// The families of a Service: those of its addresses, those it lists, else that of the first range. `ipFamilyPolicy`
/// adds the other one.
fn families(spec: &Value, given: &[Wish], ranges: &Ranges) -> Vec<Family> {
    let listed = json::items(&spec["ipFamilies"]).filter_map(|item| family(item.as_str()?));
    let mut families: Vec<Family> = Vec::new();
    for family in given.iter().filter_map(|wish| wish.resource.family()).chain(listed) {
        if !families.contains(&family) {
            families.push(family);
        }
    }
    if families.is_empty() {
        families.push(ranges.default_family);
    }
    let other = if families[0] == Family::V4 { Family::V6 } else { Family::V4 };
    match spec["ipFamilyPolicy"].as_str() {
        Some("RequireDualStack") if families.len() == 1 => families.push(other),
        Some("PreferDualStack") => {
            families.truncate(1);
            let is_given = given.iter().any(|wish| wish.resource.family() == Some(other));
            families.extend(Some(other).filter(|other| is_given || ranges.service.get(*other).is_some()));
        }
        Some("SingleStack") => families.truncate(given.len().max(1)),
        _ => {}
    }
    families
}

fn family(text: &str) -> Option<Family> {
    Family::ALL.into_iter().find(|family| family.to_string() == text)
}

/// The first address of each family in `clusterIPs`, or `clusterIP` where that list has none: as the model reads them.
pub(super) fn given_cluster_ips(spec: &Value) -> Vec<Wish> {
    let mut wishes: Vec<Wish> = Vec::new();
    for (field, text) in cluster_ip_texts(spec) {
        let Some(ip) = parse_ip(text) else { continue };
        if wishes.iter().all(|wish| wish.resource.family() != Some(Family::of(ip))) {
            wishes.push(Wish { resource: Resource::Address(ip), field });
        }
    }
    wishes
}

/// Does the manifest say which address, readable or not?
fn names_a_cluster_ip(spec: &Value) -> bool {
    let says = |value: &Value| !value.is_null() && value != "";
    let list = &spec["clusterIPs"];
    says(&spec["clusterIP"]) || list.as_array().map_or(says(list), |items| items.iter().any(says))
}

fn cluster_ip_texts(spec: &Value) -> Vec<(String, &str)> {
    let list = json::items(&spec["clusterIPs"]).enumerate();
    let mut texts: Vec<(String, &str)> = list
        .filter_map(|(index, item)| Some((format!("spec.clusterIPs[{index}]"), json::text(item)?)))
        .collect();
    if texts.iter().all(|(_, text)| parse_ip(text).is_none()) {
        texts.extend(json::text(&spec["clusterIP"]).map(|text| ("spec.clusterIP".to_owned(), text)));
    }
    texts
}

/// The API writes 0 for "none".
fn is_unset(port: &Value) -> bool {
    port.is_null() || port.as_u64() == Some(0)
}

fn wished_port(value: &Value) -> Option<u16> {
    json::port(value)
}

fn no_range(name: &ServiceName, spec: &Value, family: Family) -> Report {
    let is_required = spec["ipFamilyPolicy"] == "RequireDualStack";
    let (field, value) = if is_required {
        ("spec.ipFamilyPolicy", "RequireDualStack".to_owned())
    } else {
        ("spec.ipFamilies", family.to_string())
    };
    let problem = format!(
        "there is no range to take an {family} address from; the Service has none. Pass `{SERVICE_CIDR}` with an {family} \
         range, as in `10.96.0.0/12,fd00:96::/112`"
    );
    Report::new(ObjectRef::service(name), field, &value, problem)
}

impl Resource {
    /// The family of an address; a port has none.
    pub(crate) fn family(&self) -> Option<Family> {
        match self {
            Resource::Address(ip) => Some(Family::of(*ip)),
            Resource::Port(..) => None,
        }
    }

    /// The address; a port is none.
    pub(crate) fn address(&self) -> Option<IpAddr> {
        match self {
            Resource::Address(ip) => Some(*ip),
            Resource::Port(..) => None,
        }
    }

    /// The port; an address is none.
    pub(crate) fn port(&self) -> Option<u16> {
        match self {
            Resource::Address(_) => None,
            Resource::Port(_, port) => Some(*port),
        }
    }
}
