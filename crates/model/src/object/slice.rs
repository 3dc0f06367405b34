//! An EndpointSlice object → [EndpointSlice].

use std::net::IpAddr;
use std::sync::Arc;

use serde_json::Value;

use super::service::{port_name, protocol};
use super::{Field, HEADLESS_LABEL, Reader, WEIGHT_ANNOTATION, namespaced_name, weights_of};
use crate::facts::{EndpointFact, EndpointSlice, Hints, SlicePort, Weight};
use crate::name::{self, ObjectRef, ServiceName};
use crate::net::{self, Family};
use crate::report::Report;

/// The label that says whose endpoints these are.
pub const SERVICE_NAME_LABEL: &str = "kubernetes.io/service-name";

/// The label that says who keeps a slice up to date.
pub const MANAGED_BY_LABEL: &str = "endpointslice.kubernetes.io/managed-by";

/// Upstream's controller, which makes slices from Pods. Its mirroring controller makes them from hand-written Endpoints, and is
/// left out on purpose.
const ENDPOINT_SLICE_CONTROLLER: &str = "endpointslice-controller.k8s.io";

/// The control plane of Portway for a machine without a cluster, which makes slices from Pods as well.
pub const EMBEDDED_CONTROLLER: &str = "portway.io/embedded";

/// Reads an EndpointSlice. Only one without a usable name is refused.
pub(super) fn read(object: &Value) -> Result<EndpointSlice, Report> {
    let name = namespaced_name("EndpointSlice", object)?;
    let reader = Reader::new(ObjectRef::slice(&name));
    let root = reader.root(object);
    let metadata = root.at("metadata");
    let labels = metadata.at("labels");
    let service = owner(&labels.at(SERVICE_NAME_LABEL), name.namespace());
    let follows_pods =
        matches!(labels.at(MANAGED_BY_LABEL).text(), Some(ENDPOINT_SLICE_CONTROLLER | EMBEDDED_CONTROLLER));
    let is_headless = labels.at(HEADLESS_LABEL).is_there();
    let family = address_type(&root.at("addressType")).filter(|_| !is_headless);
    let weights = weights_of(&metadata);
    let (port_list, endpoint_list) = (root.at("ports"), root.at("endpoints"));
    let ports: Vec<SlicePort> = port_list.items().filter_map(|item| read_port(&item)).collect();
    let endpoints: Vec<EndpointFact> = match family {
        Some(family) => {
            endpoint_list.items().filter_map(|item| read_endpoint(&item, family, &weights)).collect()
        }
        None => Vec::new(),
    };
    Ok(EndpointSlice { name, service, follows_pods, ports, endpoints, reports: reader.into_reports() })
}

fn owner(label: &Field<'_>, namespace: &str) -> Option<ServiceName> {
    match label.text() {
        Some(service) if name::is_acceptable(service) => Some(ServiceName::new(namespace, service)),
        Some(_) => label.refuse("is no name of a Service; the slice has no effect"),
        None if label.is_there() => None,
        None => label.refuse("is missing; the slice belongs to no Service and has no effect"),
    }
}

fn address_type(field: &Field<'_>) -> Option<Family> {
    match field.text() {
        Some("IPv4") => Some(Family::V4),
        Some("IPv6") => Some(Family::V6),
        Some("FQDN") => field.refuse("names cannot be dialled by a service proxy; the slice has no effect"),
        Some(_) => field.refuse("must be IPv4 or IPv6; the slice has no effect"),
        None if field.is_there() => None,
        None => field.refuse("is missing, must be IPv4 or IPv6; the slice has no effect"),
    }
}

fn read_port(item: &Field<'_>) -> Option<SlicePort> {
    let number = item.at("port");
    if !number.is_there() || number.value_is_zero() {
        return number.refuse("a port without a number means nothing to a service proxy; it is left out");
    }
    let name = port_name(&item.at("name"))?;
    Some(SlicePort { name, protocol: protocol(&item.at("protocol"))?, port: number.port()? })
}

fn read_endpoint(item: &Field<'_>, family: Family, weights: &[Weight]) -> Option<EndpointFact> {
    let conditions = item.at("conditions");
    let target = item.at("targetRef");
    let address = first_address(&item.at("addresses"), family)?;
    let pod = match target.at("kind").text() {
        Some("Pod") => target.at("name").text().filter(|name| name::is_acceptable(name)).map(Box::from),
        _ => None,
    };
    Some(EndpointFact {
        address,
        node: item.at("nodeName").text().map(Arc::from),
        ready: conditions.at("ready").flag().unwrap_or(true),
        serving: conditions.at("serving").flag().unwrap_or(true),
        terminating: conditions.at("terminating").flag().unwrap_or(false),
        hints: hints(&item.at("hints")),
        weight: weight_of(weights, address, pod.as_deref().unwrap_or_default()),
        pod,
    })
}

fn first_address(addresses: &Field<'_>, family: Family) -> Option<IpAddr> {
    let Some(first) = addresses.items().next() else {
        return addresses.refuse("an endpoint needs an address; it is left out");
    };
    let ip = first.ip()?;
    if Family::of(ip) == family {
        Some(ip)
    } else {
        first.refuse("is not of the slice's addressType; it is left out")
    }
}

fn hints(field: &Field<'_>) -> Option<Box<Hints>> {
    let names = |list: &Field<'_>| -> Vec<Box<str>> {
        list.items().filter_map(|item| item.at("name").text().map(Box::from)).collect()
    };
    let hints = Hints { nodes: names(&field.at("forNodes")), zones: names(&field.at("forZones")) };
    (hints != Hints::default()).then(|| Box::new(hints))
}

/// The weight that a list gives an endpoint, by its address or by its pod's name, which is empty when it has none.
pub fn weight_of(weights: &[Weight], address: IpAddr, pod: &str) -> Option<u8> {
    let names_it =
        |w: &&Weight| (!pod.is_empty() && *w.whom == *pod) || net::parse_ip(&w.whom) == Some(address);
    weights.iter().find(names_it).map(|w| w.weight)
}

/// The annotation `portway.io/weight` of a Pod with this metadata.
pub fn pod_weight(metadata: &Field<'_>) -> Option<u8> {
    let annotations = metadata.at("annotations");
    let field = annotations.at(WEIGHT_ANNOTATION);
    let text = field.text()?;
    match text.trim().parse::<u8>() {
        Ok(weight) if weight <= 100 => Some(weight),
        _ => field.refuse("a weight is a number from 0 to 100; it counts as 1"),
    }
}
