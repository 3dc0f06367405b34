//! Compares a new version of an object with the one in force: did a wrong value make it worse?
//!
//! In: both versions. Out: the errors that are new. With any, the version in force stays, as the content of a file does that
//! no longer parses: `port: "80"` is a slip like a missing bracket, and must not take the Service away.
//!
//! An error is compared without the indexes in its field: a port inserted above a wrong one is no new error. What a valid
//! edit takes away, such as a port, is meant, and is no error.

use std::ops::RangeInclusive;

use model::{Report, Severity};
use serde_json::Value;

use crate::control_plane;
use crate::objects::ObjectKey;

/// Finds errors in objects.
#[derive(Debug, Default)]
pub(super) struct Review {
    /// The node ports that can be given, where that is known.
    pub(super) node_ports: Option<RangeInclusive<u16>>,
}

impl Review {
    /// The errors in an object, by which a part of it has no effect.
    pub(super) fn errors(&self, key: &ObjectKey, object: &Value) -> Vec<Report> {
        let mut errors = control_plane::value_reports(key, object, self.node_ports.as_ref());
        errors.retain(|report| report.severity == Severity::Error);
        errors
    }

    /// Those of `errors` that the version `before` does not have.
    pub(super) fn new_errors(&self, key: &ObjectKey, before: &Value, errors: Vec<Report>) -> Vec<Report> {
        without(errors, &self.errors(key, before))
    }
}

fn without(errors: Vec<Report>, known: &[Report]) -> Vec<Report> {
    let mut known: Vec<_> = known.iter().map(essence).collect();
    let mut new = Vec::new();
    for error in errors {
        let essence = essence(&error);
        match known.iter().position(|known| *known == essence) {
            Some(at) => drop(known.swap_remove(at)),
            None => new.push(error),
        }
    }
    new
}

/// What makes an error the same in two versions.
fn essence(error: &Report) -> (String, Box<str>, Box<str>) {
    let is_index = |part: &str| part.chars().all(|c| c.is_ascii_digit());
    let field: Vec<&str> = error.field.split(['[', ']']).filter(|part| !is_index(part)).collect();
    (field.join(""), error.value.clone(), error.problem.clone())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::objects::Kind;

    fn service(ports: &Value) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": { "name": "web" },
            "spec": { "clusterIP": "10.96.0.10", "selector": { "app": "web" }, "ports": ports },
        })
    }

    /// The fields in which the second version is worse than the first.
    fn worse(kind: Kind, before: &Value, after: &Value) -> Vec<String> {
        let key = ObjectKey::of(kind, after).unwrap();
        let review = Review { node_ports: Some(30_000..=32_767) };
        let new = review.new_errors(&key, before, review.errors(&key, after));
        new.iter().map(|report| report.field.to_string()).collect()
    }

    fn worse_ports(before: &Value, after: &Value) -> Vec<String> {
        worse(Kind::Service, &service(before), &service(after))
    }

    #[test]
    fn a_wrong_value_makes_a_service_worse() {
        let good = json!([{ "port": 80, "targetPort": 8080 }]);
        for (wrong, field) in [
            (json!([{ "port": "80" }]), "spec.ports[0].port"),
            (json!([{ "port": 99_999 }]), "spec.ports[0].port"),
            (json!([{ "port": 80, "targetPort": 70_000 }]), "spec.ports[0].targetPort"),
            (json!([{ "port": 80, "protocol": "HTTP" }]), "spec.ports[0].protocol"),
            (json!("80"), "spec.ports"),
        ] {
            assert_eq!(worse_ports(&good, &wrong), [field], "{wrong}");
        }
        let mut wrong = service(&good);
        wrong["spec"]["clusterIP"] = json!("10.96.0.300");
        assert!(worse(Kind::Service, &service(&good), &wrong).contains(&"spec.clusterIP".to_owned()));
        let node_port = |port: u32| {
            let mut service = service(&json!([{ "port": 80, "nodePort": port }]));
            service["spec"]["type"] = json!("NodePort");
            service
        };
        let worse_port = |after| worse(Kind::Service, &node_port(30_080), &node_port(after));
        assert_eq!(worse_port(99), ["spec.ports[0].nodePort"], "outside of the range");
        assert_eq!(worse_port(30_081), [""; 0]);
    }

    #[test]
    fn a_valid_edit_is_not_worse_whatever_it_takes_away() {
        let two = json!([{ "name": "a", "port": 80 }, { "name": "b", "port": 81 }]);
        assert_eq!(worse_ports(&two, &json!([{ "name": "b", "port": 81 }])), [""; 0]);
        let mut plain = service(&json!([{ "port": 80, "nodePort": 30_080 }]));
        plain["spec"]["type"] = json!("ClusterIP");
        let mut node_port = plain.clone();
        node_port["spec"]["type"] = json!("NodePort");
        assert_eq!(worse(Kind::Service, &node_port, &plain), [""; 0], "who changes the type means it");
    }

    #[test]
    fn an_error_that_was_there_before_is_not_new_wherever_it_moves() {
        let before = json!([{ "name": "a", "port": "80" }]);
        let after = json!([{ "name": "b", "port": 81 }, { "name": "a", "port": "80" }]);
        assert_eq!(worse_ports(&before, &after), [""; 0]);
        let twice = json!([{ "name": "a", "port": "80" }, { "name": "b", "port": "80" }]);
        assert_eq!(worse_ports(&before, &twice).len(), 1, "one more of the same is new");
    }

    #[test]
    fn wrong_addresses_make_slices_pods_and_nodes_worse() {
        let slice = |address: &str| {
            json!({
                "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
                "metadata": { "name": "web-1", "labels": { "kubernetes.io/service-name": "web" } },
                "ports": [{ "port": 8080 }], "endpoints": [{ "addresses": [address] }],
            })
        };
        let pod = |address: &str| json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "web" }, "status": { "podIP": address } });
        let node = |address: &str| {
            json!({
                "apiVersion": "v1", "kind": "Node", "metadata": { "name": "a" },
                "status": { "addresses": [{ "type": "InternalIP", "address": address }] },
            })
        };
        let (good, wrong) = ("10.244.0.7", "10.244.0.777");
        assert_eq!(worse(Kind::EndpointSlice, &slice(good), &slice(wrong)), ["endpoints[0].addresses[0]"]);
        assert_eq!(worse(Kind::Pod, &pod(good), &pod(wrong)), ["status.podIP"]);
        assert_eq!(worse(Kind::Node, &node(good), &node(wrong)), ["status.addresses[0].address"]);
    }
}
