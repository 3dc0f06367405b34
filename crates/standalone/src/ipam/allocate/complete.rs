//! Writes what a Service was given into its object, as an API server would.

use std::net::IpAddr;

use model::net::parse_ip;
use model::time::Timestamp;
use serde_json::{Value, json};

use super::Answer;
use super::demand::{Demand, is_headless, port_of};
use crate::ipam::store::{Resource, Slot};
use crate::json;

/// The object with everything filled in that was given, and without what was refused.
pub(crate) fn complete(
    service: &Value,
    demand: &Demand,
    answers: &[Answer],
    first_seen: Option<Timestamp>,
) -> Value {
    let mut service = service.clone();
    if let Some(first_seen) = first_seen {
        fill_creation(&mut service, first_seen);
    }
    if demand.families.is_empty() {
        return service;
    }
    let given = Given { demand, answers };
    if let Some(spec) = service.get_mut("spec") {
        spec["ipFamilies"] = demand.families.iter().map(ToString::to_string).collect();
        given.fill_cluster_ips(spec);
        given.fill_ports(spec);
    }
    given.fill_ingress(&mut service);
    service
}

struct Given<'a> {
    demand: &'a Demand,
    answers: &'a [Answer],
}

impl Given<'_> {
    /// The wants of some slots, each with what was given.
    fn of(&self, is_meant: impl Fn(&Slot) -> bool) -> impl Iterator<Item = (Slot, Option<Resource>)> {
        let pairs = self.demand.wants.iter().zip(self.answers);
        pairs.map(|(want, answer)| (want.slot, answer.granted())).filter(move |(slot, _)| is_meant(slot))
    }

    fn addresses(&self, is_meant: impl Fn(&Slot) -> bool) -> Vec<IpAddr> {
        self.of(is_meant).filter_map(|(_, given)| given?.address()).collect()
    }

    fn fill_cluster_ips(&self, spec: &mut Value) {
        if is_headless(spec) {
            return;
        }
        let ips = self.addresses(|slot| matches!(slot, Slot::ClusterIp(_)));
        json::remove(spec, "clusterIP");
        json::remove(spec, "clusterIPs");
        if let Some(first) = ips.first() {
            spec["clusterIP"] = first.to_string().into();
            spec["clusterIPs"] = ips.iter().map(ToString::to_string).collect();
        }
    }

    /// Ports are matched in order: a Service may name one service port twice, each with a node port of its own.
    fn fill_ports(&self, spec: &mut Value) {
        let mut node_ports: Vec<_> = self.of(|slot| matches!(slot, Slot::NodePort(..))).collect();
        let ports = spec.get_mut("ports").and_then(Value::as_array_mut);
        for port in ports.into_iter().flatten() {
            let Some((protocol, number)) = port_of(port) else { continue };
            let slot = Slot::NodePort(protocol, number);
            let Some(at) = node_ports.iter().position(|(candidate, _)| *candidate == slot) else { continue };
            set_port(port, "nodePort", node_ports.remove(at).1);
        }
        if let Some((_, given)) = self.of(|slot| *slot == Slot::HealthCheck).next() {
            set_port(spec, "healthCheckNodePort", given);
        }
    }

    fn fill_ingress(&self, service: &mut Value) {
        let is_ingress = |slot: &Slot| matches!(slot, Slot::LoadBalancerIp(_));
        if self.of(is_ingress).next().is_none() {
            return;
        }
        let ips = self.addresses(is_ingress);
        let Some(status) = json::object(service, "status") else { return };
        let Some(balancer) = json::object(status, "loadBalancer") else { return };
        let refused = self.refused_ingress();
        match balancer["ingress"].as_array_mut().filter(|list| !list.is_empty()) {
            Some(list) => {
                list.retain(|item| {
                    json::text(&item["ip"]).and_then(parse_ip).is_none_or(|ip| !refused.contains(&ip))
                });
            }
            None if ips.is_empty() => json::remove(balancer, "ingress"),
            None => {
                balancer["ingress"] =
                    ips.iter().map(|ip| json!({ "ip": ip.to_string(), "ipMode": "VIP" })).collect();
            }
        }
        if balancer.as_object().is_some_and(serde_json::Map::is_empty) {
            json::remove(status, "loadBalancer");
        }
        if status.as_object().is_some_and(serde_json::Map::is_empty) {
            json::remove(service, "status");
        }
    }

    fn refused_ingress(&self) -> Vec<IpAddr> {
        let pairs = self.demand.wants.iter().zip(self.answers);
        let refused = pairs.filter(|(want, answer)| {
            matches!(want.slot, Slot::LoadBalancerIp(_)) && answer.granted().is_none()
        });
        refused.filter_map(|(want, _)| want.wish.as_ref()?.resource.address()).collect()
    }
}

fn set_port(object: &mut Value, field: &str, port: Option<Resource>) {
    match port.and_then(|resource| resource.port()) {
        Some(port) => object[field] = port.into(),
        None => json::remove(object, field),
    }
}

fn fill_creation(service: &mut Value, first_seen: Timestamp) {
    let Some(metadata) = json::object(service, "metadata") else { return };
    if metadata["creationTimestamp"].is_null()
        && let Ok(moment) = jiff::Timestamp::from_second(first_seen.0)
    {
        metadata["creationTimestamp"] = moment.to_string().into();
    }
}
