//! Hand-made rules in the shape of upstream kube-proxy 1.37, as it leaves them on a node.
//!
//! In: Services as the cases write them, and the node. Out: text for `iptables-restore --noflush` (its iptables mode) or for
//! `nft -f` (its nftables mode), one for each family, with its names, order and comments.
//!
//! | file | what it holds |
//! |---|---|
//! | `hash` | the hash in its names |
//! | `iptables`, `nftables` | the rules of each mode |
//!
//! What they hold: cluster IPs and node ports of Services with endpoints, traffic policy Cluster, masquerade for who is not a pod
//! and for hairpins. Kubelet's chains and rules of others are [`iptables::NEIGHBOURS`].
//!
//! Absent on purpose: load balancers, external IPs, affinity and Services without endpoints. Taking over does not look at them.

pub(crate) mod hash;
pub(crate) mod iptables;
pub(crate) mod nftables;

use std::net::{IpAddr, SocketAddr};

use playground::Family;
use serde_json::Value;

use crate::manifest::{Service, family_name};

/// The networks of pods: who is not in them is masqueraded.
fn pods(family: Family) -> &'static str {
    match family {
        Family::V4 => "10.244.0.0/16",
        Family::V6 => "fd00:10:244::/48",
    }
}

/// One port of a Service, in one family.
#[derive(Clone, Debug)]
struct ServicePort {
    namespace_and_name: String,
    port_name: String,
    protocol: String,
    cluster_ip: SocketAddr,
    node_port: u16,
    endpoints: Vec<Endpoint>,
}

#[derive(Clone, Debug)]
struct Endpoint {
    address: SocketAddr,
    node: String,
}

impl ServicePort {
    /// As upstream prints it: `default/web:tcp`.
    fn name(&self) -> String {
        format!("{}:{}", self.namespace_and_name, self.port_name)
    }
}

/// All ports of a Service in one family, with their endpoints.
fn ports(service: &Service, family: Family) -> Vec<ServicePort> {
    let objects = service.objects(0);
    let slice = objects.iter().find(|object| object["addressType"] == family_name(family)).unwrap();
    let spec = &objects[0]["spec"];
    list(&spec["ports"]).map(|port| service_port(&objects[0], port, slice, family)).collect()
}

fn service_port(service: &Value, port: &Value, slice: &Value, family: Family) -> ServicePort {
    let ips = list(&service["spec"]["clusterIPs"]).map(|ip| text(ip).parse::<IpAddr>().unwrap());
    let cluster_ip = ips.filter(|ip| Family::of(*ip) == family).last().unwrap();
    let target = list(&slice["ports"]).find(|target| target["name"] == port["name"]).unwrap();
    let endpoint = |endpoint: &Value| Endpoint {
        address: SocketAddr::new(text(&endpoint["addresses"][0]).parse().unwrap(), number(&target["port"])),
        node: text(&endpoint["nodeName"]).to_owned(),
    };
    ServicePort {
        namespace_and_name: format!("default/{}", text(&service["metadata"]["name"])),
        port_name: text(&port["name"]).to_owned(),
        protocol: text(&port["protocol"]).to_lowercase(),
        cluster_ip: SocketAddr::new(cluster_ip, number(&port["port"])),
        node_port: number(&port["nodePort"]),
        endpoints: list(&slice["endpoints"]).map(endpoint).collect(),
    }
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().unwrap().iter()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

fn number(value: &Value) -> u16 {
    value.as_u64().unwrap().try_into().unwrap()
}
