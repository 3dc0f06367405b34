//! The clusters of which guides show rules, and one that has something of every kind.

#![allow(dead_code, reason = "each test uses its part")]

use dataplane::iptables::{Comments, Options};
use model::net::{parse_cidr, parse_ip};
use model::object::{Read, read};
use model::{Cluster, Config, DetectLocal, Event, Family, ForwardingTable, NodePortAddress};
use serde_json::{Value, json};

/// A cluster whose rules are known, in one family.
pub(crate) struct Guide {
    pub(crate) name: &'static str,
    pub(crate) family: Family,
    pub(crate) table: ForwardingTable,
    pub(crate) options: Options,
}

/// All of them.
pub(crate) fn all() -> Vec<Guide> {
    let options = Options::default();
    let everything = || table(pods_in(&["10.0.0.0/8", "fd00:10::/64"]), &every_kind());
    let localhost = Options { localhost_node_ports: true, comments: Comments::UpTo(0), ..options };
    let guide = |name, family, table, options| Guide { name, family, table, options };
    vec![
        guide("mysql-service", Family::V4, table(plain(), &mysql()), options),
        guide("device-gateway-traffic", Family::V4, table(plain(), &minikube()), options),
        guide("one-endpoint", Family::V4, table(plain(), &one_endpoint()), options),
        guide("every-kind", Family::V4, everything(), options),
        guide("every-kind-ipv6", Family::V6, everything(), options),
        guide("every-kind-localhost-no-comments", Family::V4, everything(), localhost),
        guide("choices-of-our-own", Family::V4, table(chosen(), &choices()), options),
    ]
}

/// Names as long as they may be, in each family: what is written of them must still be short enough for the programs.
pub(crate) fn long_names() -> [Guide; 2] {
    let long = "n".repeat(253);
    let options = Options { comments: Comments::Always, ..Options::default() };
    Family::ALL.map(|family| {
        let (cluster_ip, external, pods, empty) = match family {
            Family::V4 => ("10.96.0.1", "198.51.100.1", ["10.244.0.1@a", "10.244.0.2"], "10.96.0.2"),
            Family::V6 => ("fd00:96::1", "2001:db8::1", ["fd00:10::1@a", "fd00:10::2"], "fd00:96::2"),
        };
        let ports = json!([{"name": long, "port": 80, "nodePort": 30080}]);
        let spec = json!({"type": "NodePort", "clusterIPs": [cluster_ip], "ports": ports, "externalIPs": [external],
            "externalTrafficPolicy": "Local", "sessionAffinity": "ClientIP"});
        let other = format!("{}e", "n".repeat(252));
        let objects = [
            service(&long, &long, &spec),
            slice(&long, &long, &json!([{"name": long, "port": 8080}]), &pods),
            service(&long, &other, &json!({"clusterIPs": [empty], "ports": [{"name": long, "port": 80}]})),
        ];
        let config = Config { detect_local: DetectLocal::BridgeInterface("fifteen-letters".into()), ..plain() };
        Guide { name: "long names", family, table: table(config, &objects), options }
    })
}

/// This node is `a`, at 192.168.0.1 and `fd00:1::1`. Nothing says which sources are pods.
pub(crate) fn plain() -> Config {
    let node_ips = ["192.168.0.1", "fd00:1::1"].iter().filter_map(|ip| parse_ip(ip)).collect();
    Config { node_name: "a".into(), node_ips, ..Config::default() }
}

fn pods_in(networks: &[&str]) -> Config {
    let networks = networks.iter().filter_map(|net| parse_cidr(net)).collect();
    Config { detect_local: DetectLocal::ClusterCidr(networks), ..plain() }
}

/// What upstream has no rules for: pods in several networks; node ports on some addresses, which upstream refuses on all.
fn chosen() -> Config {
    let node_port_addresses = vec![NodePortAddress::Primary, NodePortAddress::Localhost];
    Config { node_port_addresses, ..pods_in(&["10.244.0.0/24", "10.245.0.0/16"]) }
}

pub(crate) fn table(config: Config, objects: &[Value]) -> ForwardingTable {
    let mut cluster = Cluster::new(config);
    for object in objects {
        let Read::Fact(fact) = read(object) else { panic!("no fact: {object}") };
        cluster.apply(Event::Apply(fact));
    }
    ForwardingTable::of(&cluster)
}

/// A Service, `spec` as its manifest has it.
pub(crate) fn service(namespace: &str, name: &str, spec: &Value) -> Value {
    json!({"kind": "Service", "metadata": {"name": name, "namespace": namespace}, "spec": spec})
}

/// The same, with load balancer IPs.
fn balanced(namespace: &str, name: &str, ip: &str, spec: &Value) -> Value {
    let mut object = service(namespace, name, spec);
    object["status"] = json!({"loadBalancer": {"ingress": [{"ip": ip}]}});
    object
}

/// Its endpoints: addresses, each with `@` and its node where that is known.
pub(crate) fn slice(namespace: &str, service: &str, ports: &Value, addresses: &[&str]) -> Value {
    let endpoint = |text: &&str| match text.split_once('@') {
        Some((ip, node)) => json!({"addresses": [ip], "nodeName": node}),
        None => json!({"addresses": [text]}),
    };
    let endpoints: Vec<Value> = addresses.iter().map(endpoint).collect();
    let kind = if addresses.iter().all(|ip| ip.contains('.')) { "IPv4" } else { "IPv6" };
    json!({
        "kind": "EndpointSlice", "addressType": kind, "ports": ports, "endpoints": endpoints,
        "metadata": {"name": format!("{kind}-{service:.200}"), "namespace": namespace,
                     "labels": {"kubernetes.io/service-name": service}},
    })
}

fn mysql() -> Vec<Value> {
    let ports = json!([{"port": 3306, "targetPort": 3306, "nodePort": 30964}]);
    let spec = json!({"type": "NodePort", "clusterIPs": ["10.254.162.44"], "ports": ports});
    let pods = ["192.168.125.129", "192.168.125.131"];
    vec![
        service("default", "mysql-service", &spec),
        slice("default", "mysql-service", &json!([{"port": 3306}]), &pods),
    ]
}

fn minikube() -> Vec<Value> {
    let one = |name: &str, kind: &str, ip: &str, node_port: Value, pods: &[&str]| {
        let mut port = json!({"port": 8080});
        if !node_port.is_null() {
            port["nodePort"] = node_port;
        }
        let spec = json!({"type": kind, "clusterIPs": [ip], "ports": [port]});
        [service("default", name, &spec), slice("default", name, &json!([{"port": 8080}]), pods)]
    };
    let null = || Value::Null;
    let apps = [
        one("device", "NodePort", "10.102.64.24", json!(31748), &["172.17.0.10", "172.17.0.5"]),
        one("gateway", "ClusterIP", "10.99.126.231", null(), &["172.17.0.8"]),
        one("traffic", "ClusterIP", "10.100.159.228", null(), &["172.17.0.9"]),
    ];
    apps.into_iter().flatten().chain(cluster_services()).collect()
}

/// What every cluster has.
fn cluster_services() -> Vec<Value> {
    let https = json!([{"name": "https", "port": 443}]);
    let dns = json!([
        {"name": "dns", "port": 53, "protocol": "UDP"},
        {"name": "dns-tcp", "port": 53, "protocol": "TCP"},
        {"name": "metrics", "port": 9153, "protocol": "TCP"},
    ]);
    vec![
        service("default", "kubernetes", &json!({"clusterIPs": ["10.96.0.1"], "ports": https})),
        slice("default", "kubernetes", &json!([{"name": "https", "port": 8443}]), &["192.168.0.1"]),
        service("kube-system", "kube-dns", &json!({"clusterIPs": ["10.96.0.10"], "ports": dns})),
        slice("kube-system", "kube-dns", &dns, &["172.17.0.2", "172.17.0.3"]),
    ]
}

fn one_endpoint() -> Vec<Value> {
    vec![
        service("default", "web", &json!({"clusterIPs": ["1.2.3.4"], "ports": [{"port": 8888}]})),
        slice("default", "web", &json!([{"port": 8080}]), &["10.1.0.8"]),
    ]
}

/// The cluster of upstream's own test of the whole text, and the same again in IPv6.
fn every_kind() -> Vec<Value> {
    let p80 = json!([{"name": "p80", "port": 80}]);
    let with = |node_port: u16| json!([{"name": "p80", "port": 80, "nodePort": node_port}]);
    let balancer = json!({
        "type": "LoadBalancer", "clusterIPs": ["172.30.0.45"], "ports": with(3002), "sessionAffinity": "ClientIP",
        "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10800}},
        "loadBalancerSourceRanges": ["203.0.113.0/25"], "healthCheckNodePort": 30000,
    });
    let local = json!({
        "type": "LoadBalancer", "clusterIPs": ["172.30.0.42"], "ports": with(3001), "externalIPs": ["192.168.99.22"],
        "externalTrafficPolicy": "Local", "healthCheckNodePort": 30000,
    });
    let external = json!({"type": "NodePort", "clusterIPs": ["172.30.0.44"], "ports": p80,
        "externalIPs": ["192.168.99.33"]});
    let node_port = json!({"type": "NodePort", "clusterIPs": ["172.30.0.43"], "ports": with(3003)});
    let mut objects = vec![
        service("ns1", "svc1", &json!({"clusterIPs": ["172.30.0.41"], "ports": p80})),
        balanced("ns2", "svc2", "1.2.3.4", &local),
        service("ns3", "svc3", &node_port),
        service("ns4", "svc4", &external),
        balanced("ns5", "svc5", "5.6.7.8", &balancer),
        service("ns6", "svc6", &json!({"clusterIPs": ["172.30.0.46"], "ports": p80})),
        slice("ns1", "svc1", &p80, &["10.180.0.1"]),
        slice("ns2", "svc2", &p80, &["10.180.0.2"]),
        slice("ns3", "svc3", &p80, &["10.180.0.3"]),
        slice("ns4", "svc4", &p80, &["10.180.0.4", "10.180.0.5@a"]),
        slice("ns5", "svc5", &p80, &["10.180.0.3"]),
    ];
    objects.extend(every_kind_of_ipv6());
    objects
}

fn every_kind_of_ipv6() -> Vec<Value> {
    let sctp = json!([{"name": "diameter", "port": 3868, "protocol": "SCTP", "nodePort": 30068}]);
    let spec = json!({
        "type": "LoadBalancer", "clusterIPs": ["fd00:172::7"], "ports": sctp, "externalIPs": ["2001:db8::22"],
        "externalTrafficPolicy": "Local", "internalTrafficPolicy": "Local", "sessionAffinity": "ClientIP",
        "loadBalancerSourceRanges": ["fd00:1::/64", "2001:db8:1::/48"],
    });
    let ports = json!([{"name": "diameter", "port": 3868, "protocol": "SCTP"}]);
    vec![
        balanced("ns7", "svc7", "2001:db8::44", &spec),
        slice("ns7", "svc7", &ports, &["fd00:10::1@a", "fd00:10::2@b"]),
    ]
}

/// What upstream has no rules for: weights, and ranges without an endpoint.
fn choices() -> Vec<Value> {
    let p80 = json!([{"name": "p80", "port": 80, "nodePort": 30080}]);
    let mut weighted =
        service("ns1", "weighted", &json!({"clusterIPs": ["172.30.0.41"], "ports": [{"port": 80}]}));
    weighted["metadata"]["annotations"] = json!({"portway.io/weights": WEIGHTS});
    let empty = json!({
        "type": "LoadBalancer", "clusterIPs": ["172.30.0.42"], "ports": p80,
        "loadBalancerSourceRanges": ["203.0.113.0/25", "198.51.100.0/24"], "externalIPs": ["192.168.0.1"],
    });
    vec![
        weighted,
        slice("ns1", "weighted", &json!([{"port": 8080}]), &["10.244.0.1@a", "10.244.1.2", "10.244.1.3"]),
        balanced("ns2", "empty", "5.6.7.8", &empty),
    ]
}

const WEIGHTS: &str = "10.244.0.1=3,10.244.1.2=1,10.244.1.3=1";
