//! Finds typing errors in the names of fields that decide packets: `endpoint:` in the place of `endpoints:` takes every endpoint away.
//!
//! In: an object. Out: a report for each unknown field that is called almost like a known one, where that one is missing.
//!
//! Absent on purpose: all other unknown fields. They may be of a later version of Kubernetes.

use model::{ObjectRef, Report};
use serde_json::{Map, Value};

use crate::objects::{Kind, ObjectKey};
use crate::suggest::nearest;

const SLICE: &[&str] = &["apiVersion", "kind", "metadata", "addressType", "endpoints", "ports"];
const SERVICE: &[&str] = &["apiVersion", "kind", "metadata", "spec", "status"];
const SERVICE_SPEC: &[&str] = &[
    "allocateLoadBalancerNodePorts",
    "clusterIP",
    "clusterIPs",
    "externalIPs",
    "externalName",
    "externalTrafficPolicy",
    "healthCheckNodePort",
    "internalTrafficPolicy",
    "ipFamilies",
    "ipFamilyPolicy",
    "loadBalancerClass",
    "loadBalancerIP",
    "loadBalancerSourceRanges",
    "ports",
    "publishNotReadyAddresses",
    "selector",
    "sessionAffinity",
    "sessionAffinityConfig",
    "trafficDistribution",
    "type",
];

/// The misspelt fields of an object.
pub fn misspelt_fields(key: &ObjectKey, object: &Value) -> Vec<Report> {
    let places: &[(&str, Option<&Value>, &[&str])] = match key.kind {
        Kind::EndpointSlice => &[("", Some(object), SLICE)],
        Kind::Service => &[("", Some(object), SERVICE), ("spec.", object.get("spec"), SERVICE_SPEC)],
        Kind::Pod | Kind::Node | Kind::ServiceCidr => &[],
    };
    let mut reports = Vec::new();
    for (prefix, value, known) in places {
        let Some(fields) = value.and_then(Value::as_object) else { continue };
        for (field, meant) in misspelt_in(fields, known) {
            let name = format!("{}/{}", key.namespace, key.name).into();
            let object = ObjectRef { kind: key.kind.name(), name };
            let problem = format!("is no field: write `{meant}`");
            reports.push(Report::new(object, &format!("{prefix}{field}"), field, problem));
        }
    }
    reports
}

fn misspelt_in<'a>(fields: &'a Map<String, Value>, known: &'a [&'a str]) -> Vec<(&'a str, &'a str)> {
    let missing = || known.iter().copied().filter(|name| !fields.contains_key(*name));
    let unknown = fields.keys().map(String::as_str).filter(|field| !known.contains(field));
    unknown.filter_map(|field| Some((field, nearest(field, missing())?))).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(kind: Kind, object: &Value) -> Vec<String> {
        let key = ObjectKey { kind, namespace: "default".into(), name: "web".into() };
        misspelt_fields(&key, object)
            .iter()
            .map(|report| format!("{}: {}", report.field, report.problem))
            .collect()
    }

    #[test]
    fn a_field_that_is_almost_a_missing_one_is_found_and_others_are_left_alone() {
        let slice =
            json!({ "apiVersion": "discovery.k8s.io/v1", "endpoint": [], "port": [], "addressType": "IPv4" });
        let expected = ["endpoint: is no field: write `endpoints`", "port: is no field: write `ports`"];
        assert_eq!(found(Kind::EndpointSlice, &slice), expected);
        let service = json!({ "spec": { "prots": [], "selectr": {}, "ofTomorrow": 1, "type": "ClusterIP" } });
        let expected =
            ["spec.prots: is no field: write `ports`", "spec.selectr: is no field: write `selector`"];
        assert_eq!(found(Kind::Service, &service), expected);
        let both = json!({ "spec": { "clusterIP": "10.96.0.1", "clusterIPs": [], "ports": [], "port": 80 } });
        assert_eq!(found(Kind::Service, &both), [""; 0], "what is meant is there");
    }
}
