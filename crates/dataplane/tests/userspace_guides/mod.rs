//! The clusters of which the first guides show rules, with the ports that their proxy had; and some that have all kinds.

#![allow(dead_code, reason = "each test uses its part")]

use dataplane::relay::{ListenerId, Purpose};
use dataplane::userspace::Ports;
use model::net::parse_ip;
use model::{Config, Family, ForwardingTable, Protocol, ServiceName, ServicePortId};
use serde_json::json;

use crate::iptables_guides::{self, service, slice, table};

/// A cluster, in one family, with a port for every listener.
pub(crate) struct Guide {
    pub(crate) name: &'static str,
    pub(crate) family: Family,
    pub(crate) table: ForwardingTable,
    pub(crate) ports: Ports,
    /// Lines that the document prints.
    pub(crate) lines: &'static [&'static str],
}

/// What `iptables -S -t nat` printed on the node 10.0.0.5.
const OF_NODE: &[&str] = &[
    r#"-A KUBE-NODEPORT-CONTAINER -p tcp -m comment --comment "default/ssh-service1:" -m tcp --dport 30239 -j REDIRECT --to-ports 36463"#,
    r#"-A KUBE-NODEPORT-HOST -p tcp -m comment --comment "default/ssh-service1:" -m tcp --dport 30239 -j DNAT --to-destination 10.0.0.5:36463"#,
    r#"-A KUBE-PORTALS-CONTAINER -d 10.254.0.1/32 -p tcp -m comment --comment "default/kubernetes:" -m tcp --dport 443 -j REDIRECT --to-ports 53940"#,
    r#"-A KUBE-PORTALS-CONTAINER -d 10.254.132.107/32 -p tcp -m comment --comment "default/ssh-service1:" -m tcp --dport 2222 -j REDIRECT --to-ports 36463"#,
    r#"-A KUBE-PORTALS-HOST -d 10.254.0.1/32 -p tcp -m comment --comment "default/kubernetes:" -m tcp --dport 443 -j DNAT --to-destination 10.0.0.5:53940"#,
    r#"-A KUBE-PORTALS-HOST -d 10.254.132.107/32 -p tcp -m comment --comment "default/ssh-service1:" -m tcp --dport 2222 -j DNAT --to-destination 10.0.0.5:36463"#,
];

const OF_REDIS: &[&str] = &[
    r#"-A KUBE-PORTALS-CONTAINER -d 10.254.142.111/32 -p tcp -m comment --comment "default/redis-sentinel:" -m tcp --dport 26379 -j REDIRECT --to-ports 36547"#,
    r#"-A KUBE-PORTALS-HOST -d 10.254.142.111/32 -p tcp -m comment --comment "default/redis-sentinel:" -m tcp --dport 26379 -j DNAT --to-destination 10.0.0.5:36547"#,
];

/// The third document leaves the comment out, and so the module that is printed behind it.
const OF_8888: &[&str] =
    &["-A KUBE-PORTALS-CONTAINER -d 1.2.3.4/32 -p tcp -m tcp --dport 8888 -j REDIRECT --to-ports 32890"];

/// What the documents show.
pub(crate) fn documents() -> Vec<Guide> {
    let endpoint = |name, port, ip| slice("default", name, &json!([{"port": port}]), &[ip]);
    let cluster_ip = |ip, port| json!({"clusterIPs": [ip], "ports": [{"port": port}]});
    let ssh = json!({"type": "NodePort", "clusterIPs": ["10.254.132.107"],
        "ports": [{"port": 2222, "targetPort": 22, "nodePort": 30239}]});
    let node = [
        service("default", "kubernetes", &cluster_ip("10.254.0.1", 443)),
        endpoint("kubernetes", 6443, "10.0.0.4"),
        service("default", "ssh-service1", &ssh),
        endpoint("ssh-service1", 22, "192.168.125.129"),
    ];
    let redis = [
        service("default", "redis-sentinel", &cluster_ip("10.254.142.111", 26379)),
        endpoint("redis-sentinel", 26379, "192.168.125.131"),
    ];
    let one = [service("default", "one", &cluster_ip("1.2.3.4", 8888)), endpoint("one", 8080, "10.1.0.8")];
    let guide = |name, objects: &[_], ports, lines| {
        let node_ips = parse_ip("10.0.0.5").into_iter().collect();
        let config = Config { node_name: "a".into(), node_ips, ..Config::default() };
        Guide { name, family: Family::V4, table: table(config, objects), ports, lines }
    };
    vec![
        guide("ssh-service1", &node, ports(&[("ssh-service1", 36463), ("kubernetes", 53940)]), OF_NODE),
        guide("redis-sentinel", &redis, ports(&[("redis-sentinel", 36547)]), OF_REDIS),
        guide("one-endpoint", &one, ports(&[("one", 32890)]), OF_8888),
    ]
}

fn ports(all: &[(&str, u16)]) -> Ports {
    let listener = |(name, number): &(&str, u16)| {
        let service = ServiceName::new("default", name);
        let port = ServicePortId { service, port: "".into(), protocol: Protocol::Tcp };
        (ListenerId { port, family: Family::V4, purpose: Purpose::Cluster }, *number)
    };
    all.iter().map(listener).collect()
}

/// Clusters that have something of every kind.
pub(crate) fn kinds() -> Vec<Guide> {
    let is_ours = |guide: &iptables_guides::Guide| {
        ["every-kind", "every-kind-ipv6", "choices-of-our-own"].contains(&guide.name)
    };
    let guide = |guide: iptables_guides::Guide| {
        let ports = Ports::examples(&guide.table);
        Guide { name: guide.name, family: guide.family, table: guide.table, ports, lines: &[] }
    };
    let long = iptables_guides::long_names().into_iter();
    iptables_guides::all().into_iter().filter(is_ours).chain(long).map(guide).collect()
}
