//! Facts as objects again, for whoever wants to see the picture: as far as they are kept.
//!
//! In: the cluster. Out: JSON objects that [`crate::object::read`] turns into facts from which the same table follows.
//!
//! Absent on purpose: what decides no packet. Selectors and other labels are not kept; of another node it is known only that it
//! is not this one.

use std::net::IpAddr;

use serde_json::{Map, Value, json};

use super::{Cluster, StoredEndpoint, StoredSlice};
use crate::facts::{External, IpMode, Node, Policy, PortSpec, Service, ServiceCidr, ServiceType, Weight};
use crate::name::ServiceName;
use crate::net::Family;
use crate::object::{
    EMBEDDED_CONTROLLER, MANAGED_BY_LABEL, PROXY_NAME_LABEL, SERVICE_NAME_LABEL, WEIGHTS_ANNOTATION,
};
use crate::place::Place;

/// Stands for the name of any node that is not this one.
const ANOTHER_NODE: &str = "another-node";

impl Cluster {
    /// All facts as objects, Services first.
    pub fn objects(&self) -> impl Iterator<Item = Value> {
        let services = self.services().map(service);
        let slices = self.services.iter().flat_map(|(owner, state)| {
            state.slices.iter().map(|one| slice(owner, one, &self.config.node_name))
        });
        services
            .chain(slices)
            .chain(self.nodes.values().map(node))
            .chain(self.service_cidrs.values().map(service_cidr))
    }
}

fn service(service: &Service) -> Value {
    let ips: Vec<IpAddr> =
        [Family::V4, Family::V6].into_iter().filter_map(|f| *service.cluster_ips.get(f)).collect();
    let mut spec = json!({
        "type": type_name(service.kind),
        "ports": service.ports.iter().map(port).collect::<Vec<_>>(),
        "internalTrafficPolicy": policy_name(service.internal_policy),
        "externalTrafficPolicy": policy_name(service.external_policy),
    });
    // A name elsewhere is not headless: where it has no address, there is nothing to say of one.
    if service.kind != ServiceType::ExternalName || !ips.is_empty() {
        spec["clusterIPs"] = if ips.is_empty() { json!(["None"]) } else { json!(ips) };
        spec["clusterIP"] = ips.first().map_or_else(|| json!("None"), |ip| json!(ip));
    }
    if let Some(seconds) = service.affinity_seconds {
        spec["sessionAffinity"] = json!("ClientIP");
        spec["sessionAffinityConfig"] = json!({"clientIP": {"timeoutSeconds": seconds}});
    }
    let mut metadata = named(&service.name);
    if let Some(created) = service.created {
        metadata["creationTimestamp"] = json!(created.to_string());
    }
    let mut object = json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec});
    if let Some(external) = &service.external {
        add_external(&mut object, external);
    }
    object
}

fn add_external(object: &mut Value, external: &External) {
    if let Some(name) = &external.proxy_name {
        object["metadata"]["labels"][PROXY_NAME_LABEL] = json!(name);
    }
    let mut annotations = Map::new();
    if !external.weights.is_empty() {
        annotations.insert(WEIGHTS_ANNOTATION.into(), json!(weights(external.weights.iter())));
    }
    annotations.extend(external.annotations.iter().map(|(name, value)| (name.to_owned(), json!(value))));
    if !annotations.is_empty() {
        object["metadata"]["annotations"] = annotations.into();
    }
    let mut ranges: Vec<String> = external.source_ranges.iter().map(ToString::to_string).collect();
    // An entry that could not be read must not turn into "everybody".
    ranges.extend(external.source_ranges_incomplete.then(|| "(unreadable)".to_owned()));
    object["spec"]["loadBalancerSourceRanges"] = json!(ranges);
    object["spec"]["externalIPs"] = json!(external.external_ips);
    object["spec"]["healthCheckNodePort"] = json!(external.health_check_node_port);
    let ingress = external.load_balancer_ips.iter().map(|one| {
        let mode = if one.mode == IpMode::Vip { "VIP" } else { "Proxy" };
        json!({"ip": one.ip, "ipMode": mode})
    });
    object["status"] = json!({"loadBalancer": {"ingress": ingress.collect::<Vec<_>>()}});
}

fn weights<'a>(weights: impl Iterator<Item = &'a Weight>) -> String {
    weights.map(|one| format!("{}={}", one.whom, one.weight)).collect::<Vec<_>>().join(",")
}

fn port(port: &PortSpec) -> Value {
    let mut value = json!({"name": &*port.name, "protocol": port.protocol.upper_name(), "port": port.port});
    if let Some(node_port) = port.node_port {
        value["nodePort"] = json!(node_port);
    }
    value
}

fn slice(owner: &ServiceName, slice: &StoredSlice, this_node: &str) -> Value {
    let mut metadata = named(&slice.name);
    metadata["labels"] = json!({SERVICE_NAME_LABEL: owner.name()});
    if slice.follows_pods {
        metadata["labels"][MANAGED_BY_LABEL] = json!(EMBEDDED_CONTROLLER);
    }
    let of_endpoints =
        slice.endpoints().iter().filter_map(|e| Some(format!("{}={}", e.address, e.weight()?)));
    let of_endpoints: Vec<String> = of_endpoints.collect();
    if !of_endpoints.is_empty() {
        metadata["annotations"] = json!({WEIGHTS_ANNOTATION: of_endpoints.join(",")});
    }
    let is_v6 = slice.endpoints().first().is_some_and(|endpoint| endpoint.address.is_ipv6());
    let ports: Vec<Value> = slice
        .ports
        .iter()
        .map(|port| json!({"name": &*port.name, "protocol": port.protocol.upper_name(), "port": port.port}))
        .collect();
    let endpoints =
        slice.endpoints().iter().enumerate().map(|(index, one)| endpoint(slice, index, one, this_node));
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": metadata,
        "addressType": if is_v6 { "IPv6" } else { "IPv4" },
        "ports": ports,
        "endpoints": endpoints.collect::<Vec<_>>(),
    })
}

fn endpoint(slice: &StoredSlice, index: usize, endpoint: &StoredEndpoint, this_node: &str) -> Value {
    let mut value = json!({
        "addresses": [endpoint.address],
        "conditions": {
            "ready": endpoint.is_ready(), "serving": endpoint.is_serving(), "terminating": endpoint.is_terminating()
        },
    });
    match endpoint.place() {
        Place::Here => value["nodeName"] = json!(this_node),
        Place::Elsewhere => value["nodeName"] = json!(ANOTHER_NODE),
        Place::Unknown => {}
    }
    let pod = slice.pod(index);
    if !pod.is_empty() {
        value["targetRef"] = json!({"kind": "Pod", "name": pod});
    }
    if let Some(zones) = slice.zones(endpoint) {
        value["hints"]["forZones"] = zones.iter().map(|zone| json!({"name": zone})).collect();
    }
    if endpoint.has_node_hint() {
        let node = if endpoint.is_meant_for_this_node() { this_node } else { ANOTHER_NODE };
        value["hints"]["forNodes"] = json!([{"name": node}]);
    }
    value
}

fn node(node: &Node) -> Value {
    let mut metadata = json!({"name": node.name});
    if let Some(zone) = &node.zone {
        metadata["labels"] = json!({"topology.kubernetes.io/zone": zone});
    }
    let taints = if node.is_leaving { json!([{"key": "ToBeDeletedByClusterAutoscaler"}]) } else { json!([]) };
    let cidrs: Vec<String> = node.pod_cidrs.iter().map(ToString::to_string).collect();
    let addresses = node.addresses.iter().map(|address| json!({"type": "InternalIP", "address": address}));
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": metadata,
        "spec": {"podCIDRs": cidrs, "taints": taints},
        "status": {"addresses": addresses.collect::<Vec<_>>()},
    })
}

fn service_cidr(cidr: &ServiceCidr) -> Value {
    let cidrs: Vec<String> = cidr.cidrs.iter().map(ToString::to_string).collect();
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR",
        "metadata": {"name": cidr.name}, "spec": {"cidrs": cidrs},
    })
}

fn named(name: &ServiceName) -> Value {
    json!({"namespace": name.namespace(), "name": name.name()})
}

fn type_name(kind: ServiceType) -> &'static str {
    match kind {
        ServiceType::ClusterIp => "ClusterIP",
        ServiceType::NodePort => "NodePort",
        ServiceType::LoadBalancer => "LoadBalancer",
        ServiceType::ExternalName => "ExternalName",
    }
}

fn policy_name(policy: Policy) -> &'static str {
    match policy {
        Policy::Cluster => "Cluster",
        Policy::Local => "Local",
    }
}
