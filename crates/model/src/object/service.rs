//! A Service object → [`Service`].

use std::net::IpAddr;
use std::sync::Arc;

use serde_json::Value;

use super::{ANNOTATION_PREFIX, Field, PROXY_NAME_LABEL, Reader, WEIGHTS_ANNOTATION, namespaced_name};
use crate::facts::{
    Annotations, External, IpMode, LoadBalancerIp, Policy, PortSpec, Service, ServiceType, Weight,
};
use crate::name::{self, ObjectRef};
use crate::net::{ByFamily, Family, Protocol};
use crate::report::Report;
use crate::time::Timestamp;

const THREE_HOURS: u32 = 10_800;
const ONE_DAY: u32 = 86_400;

/// Reads a Service. Only one without a usable name is refused.
pub(super) fn read(object: &Value) -> Result<Service, Report> {
    let name = namespaced_name("Service", object)?;
    let reader = Reader::new(ObjectRef::service(&name));
    let root = reader.root(object);
    let (metadata, spec) = (root.at("metadata"), root.at("spec"));
    let kind = service_type(&spec.at("type"));
    let external_policy = policy(&spec.at("externalTrafficPolicy"));
    let service = Service {
        created: created(&metadata.at("creationTimestamp")),
        kind,
        cluster_ips: cluster_ips(&spec),
        ports: ports(&spec.at("ports"), kind),
        internal_policy: policy(&spec.at("internalTrafficPolicy")),
        external_policy,
        affinity_seconds: affinity_seconds(&spec),
        external: external(&root, kind, external_policy),
        reports: Box::default(),
        name,
    };
    Ok(Service { reports: reader.into_reports().into(), ..service })
}

fn created(field: &Field<'_>) -> Option<Timestamp> {
    let text = field.text()?;
    let created = Timestamp::parse(text);
    if created.is_none() {
        field.warn("is no time such as 2026-01-31T12:00:00Z; the age counts as unknown");
    }
    created
}

fn service_type(field: &Field<'_>) -> ServiceType {
    match field.text() {
        None | Some("ClusterIP") => ServiceType::ClusterIp,
        Some("NodePort") => ServiceType::NodePort,
        Some("LoadBalancer") => ServiceType::LoadBalancer,
        Some("ExternalName") => ServiceType::ExternalName,
        Some(_) => field
            .refuse("must be ClusterIP, NodePort, LoadBalancer or ExternalName; taken as ClusterIP")
            .unwrap_or_default(),
    }
}

fn policy(field: &Field<'_>) -> Policy {
    match field.text() {
        None | Some("Cluster" | "") => Policy::Cluster,
        Some("Local") => Policy::Local,
        Some(_) => field.refuse("must be Cluster or Local; taken as Cluster").unwrap_or_default(),
    }
}

/// The first address of each family in `clusterIPs`, or `clusterIP` where that list is missing. `None` (headless) and ""
/// give none.
fn cluster_ips(spec: &Field<'_>) -> ByFamily<Option<IpAddr>> {
    let mut ips = ByFamily::default();
    let list = spec.at("clusterIPs");
    for item in list.items() {
        take_cluster_ip(&item, &mut ips);
    }
    let single = spec.at("clusterIP");
    if ips == ByFamily::default() {
        take_cluster_ip(&single, &mut ips);
    }
    let families = spec.at("ipFamilies");
    for (index, item) in families.items().enumerate() {
        if !matches!(item.text(), None | Some("IPv4" | "IPv6")) {
            item.warn("must be IPv4 or IPv6; the family of the address itself counts");
        }
        if index == 2 {
            item.warn("there are two families; the rest is left out");
            break;
        }
    }
    ips
}

fn take_cluster_ip(field: &Field<'_>, ips: &mut ByFamily<Option<IpAddr>>) {
    if matches!(field.text(), None | Some("None" | "")) {
        return;
    }
    let Some(ip) = field.ip() else { return };
    if ip.is_unspecified() || ip.is_loopback() || ip.is_multicast() {
        field.refuse::<()>("cannot be a cluster IP; it is left out");
        return;
    }
    let place = ips.get_mut(Family::of(ip));
    match place {
        None => *place = Some(ip),
        Some(_) => field.warn("is a second address of its family; the first one is used"),
    }
}

fn ports(field: &Field<'_>, kind: ServiceType) -> Box<[PortSpec]> {
    let mut ports: Vec<PortSpec> = Vec::new();
    for item in field.items() {
        let Some(port) = read_port(&item, kind) else { continue };
        if ports.iter().any(|p| p.name == port.name && p.protocol == port.protocol) {
            item.at("name").refuse::<()>("another port has this name and protocol; this one is left out");
        } else {
            ports.push(port);
        }
    }
    ports.into()
}

fn read_port(item: &Field<'_>, kind: ServiceType) -> Option<PortSpec> {
    let protocol = protocol(&item.at("protocol"))?;
    let number = item.at("port");
    if !number.is_there() {
        return number.refuse("is missing; this port is left out");
    }
    let name = port_name(&item.at("name"))?;
    Some(PortSpec { name, protocol, port: number.port()?, node_port: node_port(&item.at("nodePort"), kind) })
}

/// The name of a port of a Service or slice: "" when it has none.
pub(super) fn port_name(field: &Field<'_>) -> Option<Arc<str>> {
    match field.text() {
        None if field.is_there() => None,
        None | Some("") => Some(Arc::default()),
        Some(name) if name::is_acceptable(name) => Some(name.into()),
        Some(_) => field.refuse("must be letters, digits, `-`, `_` and `.`; this port is left out"),
    }
}

/// The protocol of a port: TCP when it has none.
pub(super) fn protocol(field: &Field<'_>) -> Option<Protocol> {
    match field.text() {
        None if field.is_there() => None,
        None => Some(Protocol::Tcp),
        Some(text) => {
            Protocol::parse(text).or_else(|| field.refuse("must be TCP, UDP or SCTP; this port is left out"))
        }
    }
}

fn node_port(field: &Field<'_>, kind: ServiceType) -> Option<u16> {
    if !field.is_there() || field.value_is_zero() {
        return None;
    }
    if !matches!(kind, ServiceType::NodePort | ServiceType::LoadBalancer) {
        // Who changes the type means it. Kubernetes drops the node port then.
        field.warn("needs type NodePort or LoadBalancer; it is left out");
        return None;
    }
    field.port()
}

fn affinity_seconds(spec: &Field<'_>) -> Option<u32> {
    let affinity = spec.at("sessionAffinity");
    match affinity.text() {
        None | Some("None" | "") => return None,
        Some("ClientIP") => {}
        Some(_) => return affinity.refuse("must be None or ClientIP; taken as None"),
    }
    let config = spec.at("sessionAffinityConfig");
    let client_ip = config.at("clientIP");
    let timeout = client_ip.at("timeoutSeconds");
    Some(timeout.number(1..=ONE_DAY).unwrap_or(THREE_HOURS))
}

fn external(root: &Field<'_>, kind: ServiceType, external_policy: Policy) -> Option<Box<External>> {
    let (metadata, spec) = (root.at("metadata"), root.at("spec"));
    let (labels, annotations) = (metadata.at("labels"), metadata.at("annotations"));
    let (source_ranges, source_ranges_incomplete) = source_ranges(&spec.at("loadBalancerSourceRanges"));
    let external_ips = spec.at("externalIPs");
    let wants_health_check = kind == ServiceType::LoadBalancer && external_policy == Policy::Local;
    let external = External {
        proxy_name: labels.at(PROXY_NAME_LABEL).text().map(Into::into),
        external_ips: external_ips.items().filter_map(|item| vip(&item)).collect(),
        load_balancer_ips: if kind == ServiceType::LoadBalancer {
            load_balancer_ips(root)
        } else {
            Vec::new()
        },
        source_ranges,
        source_ranges_incomplete,
        health_check_node_port: wants_health_check.then(|| health_check_node_port(&spec)).flatten(),
        weights: weights_of(&metadata),
        annotations: annotations_for_modes(&annotations),
    };
    (external != External::default()).then(|| Box::new(external))
}

/// Those of ours that are not read here, as they stand.
fn annotations_for_modes(field: &Field<'_>) -> Annotations {
    let names =
        field.keys().filter(|name| name.starts_with(ANNOTATION_PREFIX) && *name != WEIGHTS_ANNOTATION);
    names.filter_map(|name| Some((name, field.at(name).text()?))).collect()
}

fn health_check_node_port(spec: &Field<'_>) -> Option<u16> {
    let field = spec.at("healthCheckNodePort");
    if field.value_is_zero() { None } else { field.port() }
}

/// An address that this node should answer for: not one that means something else to every host.
fn vip(field: &Field<'_>) -> Option<IpAddr> {
    let ip = field.ip()?;
    if ip.is_unspecified() || ip.is_loopback() || ip.is_multicast() || is_link_local(ip) {
        return field.refuse("is an unspecified, loopback, link-local or multicast address; it is left out");
    }
    Some(ip)
}

/// Link-local in either family.
pub(crate) fn is_link_local(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    }
}

fn load_balancer_ips(root: &Field<'_>) -> Vec<LoadBalancerIp> {
    let status = root.at("status");
    let load_balancer = status.at("loadBalancer");
    let ingress = load_balancer.at("ingress");
    let mut ips = Vec::new();
    for item in ingress.items() {
        let mode = item.at("ipMode");
        let mode = match mode.text() {
            None | Some("VIP") => IpMode::Vip,
            Some("Proxy") => IpMode::Proxy,
            Some(_) => mode.refuse("must be VIP or Proxy; taken as VIP").unwrap_or_default(),
        };
        let ip = item.at("ip");
        if ip.is_there()
            && let Some(ip) = vip(&ip)
        {
            ips.push(LoadBalancerIp { ip, mode });
        }
    }
    ips
}

fn source_ranges(field: &Field<'_>) -> (Vec<crate::net::IpNet>, bool) {
    let mut incomplete = field.is_there() && field.items().next().is_none() && !field.is_empty_list();
    let mut ranges = Vec::new();
    for item in field.items() {
        match item.cidr() {
            Some(range) => ranges.push(range),
            None => incomplete = true,
        }
    }
    (ranges, incomplete)
}

/// The annotation `portway.io/weights` of an object with this metadata: `db-0=3,10.244.1.6=1`.
pub fn weights_of(metadata: &Field<'_>) -> Vec<Weight> {
    let annotations = metadata.at("annotations");
    let field = annotations.at(WEIGHTS_ANNOTATION);
    let Some(text) = field.text() else { return Vec::new() };
    let mut weights: Vec<Weight> = Vec::new();
    for entry in text.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
        let Some(weight) = weight_entry(&field, entry) else { continue };
        if weights.iter().any(|w| w.whom == weight.whom) {
            field.refuse_value::<()>(entry, "names this endpoint a second time; the first weight counts");
        } else {
            weights.push(weight);
        }
    }
    weights
}

fn weight_entry(field: &Field<'_>, entry: &str) -> Option<Weight> {
    let Some((whom, weight)) = entry.split_once('=') else {
        return field.refuse_value(entry, "must be NAME=WEIGHT; it is left out, so the weight is 1");
    };
    let (whom, weight) = (whom.trim(), weight.trim());
    if whom.is_empty() {
        return field.refuse_value(entry, "must be NAME=WEIGHT; it names nobody and is left out");
    }
    match weight.parse::<u8>() {
        Ok(weight) if weight <= 100 => Some(Weight { whom: whom.into(), weight }),
        _ => {
            field.refuse_value::<()>(
                entry,
                &format!("a weight is a number from 0 to 100; `{whom}` counts as 1"),
            );
            Some(Weight { whom: whom.into(), weight: 1 })
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn annotations_that_a_mode_may_read_come_through_as_they_stand_and_others_cost_nothing() {
        let read = |annotations: Value| {
            let metadata = json!({"name": "web", "annotations": annotations});
            super::read(&json!({"kind": "Service", "metadata": metadata, "spec": {}})).unwrap()
        };
        let of_a_mode = read(json!({"portway.io/x": "1", "portway.io/weights": "a=2", "other.io/y": "2"}));
        assert_eq!(of_a_mode.annotations().iter().collect::<Vec<_>>(), [("portway.io/x", "1")]);
        assert_eq!(of_a_mode.annotations().get("portway.io/x"), Some("1"));
        assert!(of_a_mode.reports.is_empty());
        assert_eq!(
            read(json!({"portway.io/x": 7})).reports[0].field,
            "metadata.annotations[portway.io/x]".into()
        );
        let plain = read(json!({"other.io/y": "2"}));
        assert_eq!((plain.external, size_of::<Annotations>()), (None, size_of::<usize>()));
    }
}
