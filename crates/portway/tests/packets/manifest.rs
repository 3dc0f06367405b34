//! Services and their slices, in few words.
//!
//! Every Service here has the same four ports (TCP, UDP and SCTP 80, and TCP 81 for connections that stay), node ports of
//! its own, and both families unless it says otherwise. Its number makes its addresses: Service 7 is `10.96.0.7` and
//! `fd00:96::7`. An endpoint is a pod by its name, or a node: that is a pod in the host network.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use playground::Family;
use playground::plan;
use serde_json::{Value, json};

/// The port of each protocol at every address of a Service.
pub(crate) const PORT: u16 = 80;
/// The port for connections that stay.
pub(crate) const HELD_PORT: u16 = 81;
/// The first numbers of the node ports.
const NODE_PORTS: u16 = 30_000;
const HELD_NODE_PORTS: u16 = 31_000;
/// The port on which server pods answer.
pub(crate) const TARGET_PORT: u16 = 8080;

/// A Service with its endpoints.
#[derive(Clone, Debug)]
pub(crate) struct Service {
    name: String,
    number: u16,
    families: Vec<Family>,
    kind: &'static str,
    labels: Vec<(&'static str, &'static str)>,
    annotations: Value,
    /// Fields of `spec` beyond the usual ones.
    spec: Vec<(&'static str, Value)>,
    endpoints: Vec<(String, Value)>,
    /// The node and the zone of an endpoint, where the EndpointSlice controller gave it a hint for that zone.
    zones: BTreeMap<&'static str, (&'static str, &'static str)>,
    has_node_ports: bool,
    /// The port of its endpoints, except that for connections that stay.
    target_port: u16,
    /// Its slices are those of the EndpointSlice controller.
    follows_pods: bool,
}

impl Service {
    /// A Service of type `NodePort`; `number` is below 10, so that it reads the same in both families.
    pub(crate) fn new(name: &str, number: u16) -> Self {
        assert!(number < 10, "Service number {number} does not read the same in both families");
        Self {
            name: name.to_owned(),
            number,
            families: Family::ALL.to_vec(),
            kind: "NodePort",
            labels: Vec::new(),
            annotations: json!({}),
            spec: Vec::new(),
            endpoints: Vec::new(),
            zones: BTreeMap::new(),
            has_node_ports: true,
            target_port: TARGET_PORT,
            follows_pods: false,
        }
    }

    /// These server pods are its endpoints, all ready.
    pub(crate) fn on(mut self, pods: &[&str]) -> Self {
        self.endpoints = pods.iter().map(|pod| ((*pod).to_owned(), json!({ "ready": true }))).collect();
        self
    }

    /// One more endpoint, which terminates; does it still serve?
    pub(crate) fn terminating(mut self, pod: &str, serving: bool) -> Self {
        let conditions = json!({ "ready": false, "serving": serving, "terminating": true });
        self.endpoints.push((pod.to_owned(), conditions));
        self
    }

    /// Clients of a zone are to stay in it: of each endpoint its node and its zone. The node may be one that is not in the playground.
    pub(crate) fn in_zones(mut self, zones: &[(&'static str, &'static str, &'static str)]) -> Self {
        self.zones = zones.iter().map(|(pod, node, zone)| (*pod, (*node, *zone))).collect();
        self.with("trafficDistribution", json!("PreferSameZone"))
    }

    /// One more endpoint, whose pod runs and is not ready.
    pub(crate) fn not_ready(mut self, pod: &str) -> Self {
        self.endpoints
            .push((pod.to_owned(), json!({ "ready": false, "serving": false, "terminating": false })));
        self
    }

    /// Its endpoints listen on this port.
    pub(crate) fn target_port(mut self, port: u16) -> Self {
        self.target_port = port;
        self
    }

    /// A controller makes its slices from Pods; without this a person has written them.
    pub(crate) fn of_pods(mut self) -> Self {
        self.follows_pods = true;
        self
    }

    /// Shares, such as `web-a-0=3,web-b-0=1`.
    pub(crate) fn weights(mut self, weights: &str) -> Self {
        self.annotations["portway.io/weights"] = json!(weights);
        self
    }

    /// How IPVS chooses among its endpoints.
    pub(crate) fn scheduled(mut self, scheduler: &str) -> Self {
        self.annotations["portway.io/ipvs-scheduler"] = json!(scheduler);
        self
    }

    /// One more label.
    pub(crate) fn label(mut self, name: &'static str, value: &'static str) -> Self {
        self.labels.push((name, value));
        self
    }

    /// One more field of `spec`.
    pub(crate) fn with(mut self, field: &'static str, value: Value) -> Self {
        self.spec.push((field, value));
        self
    }

    /// A client stays with its endpoint for so many seconds.
    pub(crate) fn sticky(self, seconds: u32) -> Self {
        self.with("sessionAffinity", json!("ClientIP"))
            .with("sessionAffinityConfig", json!({ "clientIP": { "timeoutSeconds": seconds } }))
    }

    /// It has load balancer addresses, too.
    pub(crate) fn load_balanced(mut self) -> Self {
        self.kind = "LoadBalancer";
        self
    }

    /// The same, and the load balancer needs no node ports.
    pub(crate) fn without_node_ports(mut self) -> Self {
        self.has_node_ports = false;
        self.load_balanced().with("allocateLoadBalancerNodePorts", json!(false))
    }

    /// It has a cluster IP alone.
    pub(crate) fn inside(mut self) -> Self {
        self.has_node_ports = false;
        self.kind = "ClusterIP";
        self
    }

    /// It is a name of something outside of the cluster.
    pub(crate) fn named(mut self, name: &str) -> Self {
        self.has_node_ports = false;
        self.kind = "ExternalName";
        self.with("externalName", json!(name))
    }

    /// Load balancers ask at this port whether a node has endpoints; outside traffic stays on the node.
    pub(crate) fn health_checked(self, port: u16) -> Self {
        self.with("externalTrafficPolicy", json!("Local")).with("healthCheckNodePort", json!(port))
    }

    /// It has external IPs, too.
    pub(crate) fn externally(self) -> Self {
        let ips: Vec<_> = Family::ALL.map(|family| self.external_ip(family).ip().to_string()).into();
        self.with("externalIPs", json!(ips))
    }

    /// It has this family alone.
    pub(crate) fn only(mut self, family: Family) -> Self {
        self.families = vec![family];
        self
    }

    /// Its name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Its node port for connections that stay.
    pub(crate) fn held_node_port(&self) -> u16 {
        HELD_NODE_PORTS + self.number
    }

    /// Its cluster IP, with the port for connections that stay.
    pub(crate) fn held_cluster_ip(&self, family: Family) -> SocketAddr {
        SocketAddr::new(self.cluster_ip(family).ip(), HELD_PORT)
    }

    /// Its cluster IP, with its port.
    pub(crate) fn cluster_ip(&self, family: Family) -> SocketAddr {
        self.address(family, "10.96.0", "fd00:96")
    }

    /// The address of its load balancer, with its port.
    pub(crate) fn load_balancer_ip(&self, family: Family) -> SocketAddr {
        self.address(family, "203.0.113", "2001:db8:1")
    }

    /// Its external IP, with its port.
    pub(crate) fn external_ip(&self, family: Family) -> SocketAddr {
        self.address(family, "198.51.100", "2001:db8:2")
    }

    /// Its node port.
    pub(crate) fn node_port(&self) -> u16 {
        NODE_PORTS + self.number
    }

    /// The Service and one slice per family, as objects that carry this revision.
    pub(crate) fn objects(&self, revision: u64) -> Vec<Value> {
        let mut objects = vec![self.service(revision)];
        objects.extend(self.families.iter().map(|family| self.slice(*family, revision)));
        objects
    }

    fn address(&self, family: Family, v4: &str, v6: &str) -> SocketAddr {
        let text = match family {
            Family::V4 => format!("{v4}.{}", self.number),
            Family::V6 => format!("{v6}::{}", self.number),
        };
        SocketAddr::new(text.parse().unwrap(), PORT)
    }

    fn service(&self, revision: u64) -> Value {
        let ips: Vec<IpAddr> = self.families.iter().map(|family| self.cluster_ip(*family).ip()).collect();
        let policy = if ips.len() == 2 { "RequireDualStack" } else { "SingleStack" };
        let families: Vec<_> = self.families.iter().map(|family| family_name(*family)).collect();
        let mut service = json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {
                "name": self.name,
                "labels": { "revision": revision.to_string() },
                "annotations": self.annotations,
            },
            "spec": {
                "type": self.kind,
                "clusterIP": ips[0],
                "clusterIPs": ips,
                "ipFamilies": families,
                "ipFamilyPolicy": policy,
                "ports": self.service_ports(),
            },
        });
        if self.kind == "ExternalName" {
            service["spec"] = json!({ "type": self.kind, "ports": self.service_ports() });
        }
        for (name, value) in &self.labels {
            service["metadata"]["labels"][name] = json!(value);
        }
        for (field, value) in &self.spec {
            service["spec"][field] = value.clone();
        }
        if self.kind == "LoadBalancer" {
            let ingress = |family: &Family| json!({ "ip": self.load_balancer_ip(*family).ip() });
            let ingress: Vec<_> = self.families.iter().map(ingress).collect();
            service["status"] = json!({ "loadBalancer": { "ingress": ingress } });
        }
        service
    }

    fn service_ports(&self) -> Value {
        let port = |(name, protocol, port, target, node_port): (&str, &str, u16, u16, u16)| {
            let mut port = json!({ "name": name, "protocol": protocol, "port": port, "targetPort": target });
            if self.has_node_ports {
                port["nodePort"] = json!(node_port + self.number);
            }
            port
        };
        [
            ("tcp", "TCP", PORT, self.target_port, NODE_PORTS),
            ("udp", "UDP", PORT, self.target_port, NODE_PORTS),
            ("sctp", "SCTP", PORT, self.target_port, NODE_PORTS),
            ("held", "TCP", HELD_PORT, 8081, HELD_NODE_PORTS),
        ]
        .map(port)
        .into()
    }

    fn slice(&self, family: Family, revision: u64) -> Value {
        let name = format!("{}-{}", self.name, family_name(family).to_lowercase());
        let endpoint = |(pod, conditions): &(String, Value)| {
            let mut endpoint = json!({
                "addresses": [address_of(pod, family)],
                "nodeName": node_of(pod),
                "targetRef": { "kind": "Pod", "name": pod },
                "conditions": conditions,
            });
            if let Some((node, zone)) = self.zones.get(pod.as_str()) {
                endpoint["nodeName"] = json!(node);
                endpoint["zone"] = json!(zone);
                endpoint["hints"] = json!({ "forZones": [{ "name": zone }] });
            }
            endpoint
        };
        let mut slice = json!({
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {
                "name": name,
                "labels": { "kubernetes.io/service-name": self.name, "revision": revision.to_string() },
            },
            "addressType": family_name(family),
            "ports": [
                { "name": "tcp", "protocol": "TCP", "port": self.target_port },
                { "name": "udp", "protocol": "UDP", "port": self.target_port },
                { "name": "sctp", "protocol": "SCTP", "port": self.target_port },
                { "name": "held", "protocol": "TCP", "port": 8081 },
            ],
            "endpoints": self.endpoints.iter().map(endpoint).collect::<Vec<_>>(),
        });
        if self.follows_pods {
            slice["metadata"]["labels"]["endpointslice.kubernetes.io/managed-by"] =
                json!("endpointslice-controller.k8s.io");
        }
        slice
    }
}

/// The Node objects of the playground: `a` is in zone `z1`, `b` in `z2`.
pub(crate) fn nodes(revision: u64) -> Vec<Value> {
    let node = |(number, name): (u8, &str)| {
        let addresses = plan::node(number).both();
        json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": name,
                "labels": {
                    "revision": revision.to_string(),
                    "topology.kubernetes.io/zone": format!("z{number}"),
                },
            },
            "spec": { "podCIDRs": plan::pod_networks(number) },
            "status": { "addresses": addresses.map(|ip| json!({ "type": "InternalIP", "address": ip })) },
        })
    };
    (1..).zip(plan::NODES).map(node).collect()
}

/// The node of a pod, by the pod's name: `web-a-0` and `client-a` are on `a`, and so is `a` itself.
pub(crate) fn node_of(pod: &str) -> &'static str {
    let letter = pod.split('-').nth(1).unwrap_or(pod);
    plan::NODES.into_iter().find(|node| *node == letter).unwrap_or_else(|| panic!("`{pod}` is on no node"))
}

/// As Kubernetes spells it.
pub(crate) fn family_name(family: Family) -> &'static str {
    match family {
        Family::V4 => "IPv4",
        Family::V6 => "IPv6",
    }
}

fn address_of(pod: &str, family: Family) -> IpAddr {
    let node = node_of(pod);
    let number = if node == "a" { 1 } else { 2 };
    if pod == node {
        return plan::node(number).of(family);
    }
    let pods = plan::server_pods(number, plan::SERVERS_MAX);
    let found = pods.iter().find(|(name, _)| name == pod);
    found.unwrap_or_else(|| panic!("the plan has no pod `{pod}`")).1.of(family)
}
