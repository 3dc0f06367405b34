//! What is wrong with the fields of a Service that decide what it is given.
//!
//! In: a Service as it was written. Out: a report for each field that cannot be read, with what happens instead.
//!
//! The model reads completed objects, in which these fields were filled in or taken away. What was wrong with them is
//! seen here, or nowhere.

use std::ops::RangeInclusive;

use model::net::parse_ip;
use model::object::{Field, Reader};
use model::{ObjectRef, Report, ServiceName};
use serde_json::Value;

use super::demand::{given_cluster_ips, is_headless, port_of};
use crate::json;

const NO_POD: &str = "the Service selects no Pod";

/// What is wrong with the fields of a Service that decide what it is given.
pub(crate) fn reports(name: &ServiceName, service: &Value) -> Vec<Report> {
    let (reader, value) = (Reader::new(ObjectRef::service(name)), &service["spec"]);
    let root = reader.root(service);
    if value.is_null() {
        root.at("spec").refuse::<()>("is missing; the Service has no port, so nothing can reach it");
    }
    // The model reports a spec of the wrong shape.
    if value.is_object() && value["type"] != "ExternalName" {
        let spec = root.at("spec");
        selector(&spec.at("selector"), &value["selector"]);
        cluster_ips(&spec, value);
        families(&spec, value);
        ports(&spec.at("ports"), value);
        load_balancer(&spec, value);
        flag(&spec.at("publishNotReadyAddresses"), &value["publishNotReadyAddresses"], "taken as false");
    }
    reader.into_reports()
}

/// The same, and node ports that no range gives. The allocator says so too, but only of one that it has already refused.
pub(crate) fn with_node_ports(
    name: &ServiceName,
    service: &Value,
    range: Option<&RangeInclusive<u16>>,
) -> Vec<Report> {
    let mut found = reports(name, service);
    if let Some(range) =
        range.filter(|_| matches!(service["spec"]["type"].as_str(), Some("NodePort" | "LoadBalancer")))
    {
        let reader = Reader::new(ObjectRef::service(name));
        let root = reader.root(service);
        let spec = root.at("spec");
        node_ports(&spec.at("ports"), &service["spec"]["ports"], range);
        found.extend(reader.into_reports());
    }
    found
}

fn node_ports(field: &Field<'_>, ports: &Value, range: &RangeInclusive<u16>) {
    for (item, port) in field.items().zip(json::items(ports)) {
        let is_outside = |port: &u16| !range.contains(port);
        if json::port(&port["nodePort"]).is_some_and(|port| is_outside(&port)) {
            let problem = format!(
                "is not one of the node ports {}-{}; the Service goes without",
                range.start(),
                range.end()
            );
            item.at("nodePort").refuse::<()>(&problem);
        }
    }
}

/// One pair that cannot be read makes the selector match nothing: without it, it would match more than was meant.
fn selector(field: &Field<'_>, value: &Value) {
    match value {
        Value::Null => {}
        Value::Object(pairs) => {
            for (key, _) in pairs.iter().filter(|(_, value)| !value.is_string()) {
                field.at(key).refuse::<()>(&format!("must be text, in quotes; {NO_POD}"));
            }
        }
        _ => {
            field.refuse::<()>(&format!("must be labels, as in `{{app: web}}`; {NO_POD}"));
        }
    }
}

/// A wanted address that cannot be read is refused, and no other takes its place.
fn cluster_ips(spec: &Field<'_>, value: &Value) {
    let outcome = if given_cluster_ips(value).is_empty() {
        "the Service has no IP. Write an address, `None` for a headless Service, or leave the field out to be given one"
    } else {
        "it is left out"
    };
    let (list, single) = (spec.at("clusterIPs"), spec.at("clusterIP"));
    match &value["clusterIPs"] {
        Value::Null => {}
        Value::Array(items) => {
            for (field, _) in list.items().zip(items).filter(|(_, item)| !is_address_or_word(item)) {
                field.refuse::<()>(&format!("is no IP address; {outcome}"));
            }
        }
        _ => {
            list.refuse::<()>(&format!("must be a list of addresses; {outcome}"));
        }
    }
    if !is_address_or_word(&value["clusterIP"]) {
        single.refuse::<()>(&format!("is no IP address; {outcome}"));
    } else if let (Some(first), Some(text)) =
        (json::text(&value["clusterIPs"][0]), json::text(&value["clusterIP"]))
        && (first != text && (parse_ip(first) != parse_ip(text) || parse_ip(first).is_none()))
    {
        single.warn(&format!("differs from spec.clusterIPs[0] `{first}`, which counts"));
    }
}

/// An address, `None`, or nothing.
fn is_address_or_word(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty() || text == "None" || parse_ip(text).is_some(),
        _ => false,
    }
}

fn families(spec: &Field<'_>, value: &Value) {
    let (list, policy) = (spec.at("ipFamilies"), spec.at("ipFamilyPolicy"));
    for (index, field) in list.items().enumerate() {
        let is_family = |item: &Value| item == "IPv4" || item == "IPv6";
        if !is_family(&value["ipFamilies"][index]) {
            field.refuse::<()>("must be IPv4 or IPv6; it is left out");
        } else if index >= 2 {
            field.refuse::<()>("there are two families; it is left out");
        }
    }
    match &value["ipFamilyPolicy"] {
        Value::Null => {}
        Value::String(text)
            if matches!(text.as_str(), "" | "SingleStack" | "PreferDualStack" | "RequireDualStack") => {}
        _ => {
            policy.refuse::<()>("must be SingleStack, PreferDualStack or RequireDualStack; it is left out");
        }
    }
}

fn ports(field: &Field<'_>, spec: &Value) {
    let is_empty = spec["ports"].is_null() || field.is_empty_list();
    if is_empty && !is_headless(spec) {
        field.refuse::<()>("a Service needs a port, and this one has none: nothing can reach it");
    }
    if spec["ports"].is_array() && spec["selector"].is_object() {
        for (item, value) in field.items().zip(json::items(&spec["ports"])) {
            target_port(&item.at("targetPort"), value);
        }
    }
}

fn target_port(field: &Field<'_>, port: &Value) {
    let is_readable = match &port["targetPort"] {
        Value::Null => true,
        Value::String(text) => text.parse::<u64>().map_or(!text.is_empty(), |n| (1..=65535).contains(&n)),
        other => other.as_u64().is_some_and(|number| number <= 65535),
    };
    if !is_readable && port_of(port).is_some() {
        field.refuse::<()>(
            "must be a number from 1 to 65535, or the name of a container's port; no Pod is an endpoint of this port",
        );
    }
}

fn load_balancer(spec: &Field<'_>, value: &Value) {
    if value["type"] != "LoadBalancer" {
        return;
    }
    let nodes = "allocateLoadBalancerNodePorts";
    flag(&spec.at(nodes), &value[nodes], "taken as true");
    if is_unreadable_wish(&value["loadBalancerIP"]) {
        spec.at("loadBalancerIP")
            .refuse::<()>("is no IP address; the Service gets none from a load balancer");
    }
}

/// Does a field name an address that cannot be read?
pub(super) fn is_unreadable_wish(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::String(text) => !text.is_empty() && parse_ip(text).is_none(),
        _ => true,
    }
}

fn flag(field: &Field<'_>, value: &Value, outcome: &str) {
    if !value.is_null() && !value.is_boolean() {
        field.refuse::<()>(&format!("must be true or false, without quotes; {outcome}"));
    }
}
