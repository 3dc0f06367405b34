//! The clusters of which guides show rules, and some that have something of every kind; as text by the mode that writes it.

#![allow(dead_code, reason = "each test uses its part")]

use dataplane::iptables::{self, Comments, Renderer, Tables};
use dataplane::ipvs;
use dataplane::relay::{ListenerId, Purpose};
use dataplane::userspace::{self, Ports};
use model::net::parse_cidr;
use model::{Config, DetectLocal, Family, ForwardingTable, NodePortAddress, Protocol};

use crate::cluster::{at, id, plain, table};

/// A cluster whose rules are known, in one family.
pub(crate) struct Guide {
    pub(crate) folder: &'static str,
    pub(crate) name: &'static str,
    pub(crate) family: Family,
    pub(crate) table: ForwardingTable,
    pub(crate) text: String,
    /// The same, for modes of which rules are all that they write.
    pub(crate) tables: Option<Tables>,
    /// The ports of our own that they lead to.
    pub(crate) ports: Ports,
    /// Lines that the document prints, in any order.
    pub(crate) lines: &'static [&'static str],
}

/// All that are in files.
pub(crate) fn all() -> Vec<Guide> {
    let iptables = clusters()
        .into_iter()
        .map(|(name, family, table, options)| of_iptables(name, family, table, &options));
    iptables.chain(documents()).chain(userspace_kinds()).chain([two_pods()]).collect()
}

type Cluster = (&'static str, Family, ForwardingTable, iptables::Options);

fn clusters() -> Vec<Cluster> {
    let options = iptables::Options::default();
    let everything = || table(pods_in(&["10.0.0.0/8", "fd00:10::/64"]), EVERY_KIND);
    let localhost = iptables::Options { localhost_node_ports: true, comments: Comments::UpTo(0), ..options };
    // What upstream has no rules for: pods in several networks, and node ports on some addresses, which it refuses on all.
    let node_port_addresses = vec![NodePortAddress::Primary, NodePortAddress::Localhost];
    let chosen = Config { node_port_addresses, ..pods_in(&["10.244.0.0/24", "10.245.0.0/16"]) };
    vec![
        ("mysql-service", Family::V4, table(plain(), MYSQL), options),
        ("device-gateway-traffic", Family::V4, table(plain(), MINIKUBE), options),
        ("one-endpoint", Family::V4, table(plain(), ONE_ENDPOINT), options),
        ("every-kind", Family::V4, everything(), options),
        ("every-kind-ipv6", Family::V6, everything(), options),
        ("every-kind-localhost-no-comments", Family::V4, everything(), localhost),
        ("choices-of-our-own", Family::V4, table(chosen, CHOICES), options),
    ]
}

/// Names as long as they may be, in each family: what is written of them must still be short enough for the programs.
fn long_names() -> [Cluster; 2] {
    let options = iptables::Options { comments: Comments::Always, ..iptables::Options::default() };
    Family::ALL.map(|family| {
        let (cluster_ip, external, pods, empty) = match family {
            Family::V4 => ("10.96.0.1", "198.51.100.1", "10.244.0.1@a 10.244.0.2", "10.96.0.2"),
            Family::V6 => ("fd00:96::1", "2001:db8::1", "fd00:10::1@a fd00:10::2", "fd00:96::2"),
        };
        let (long, other) = ("n".repeat(253), format!("{}e", "n".repeat(252)));
        let text = format!(
            "svc {long}/{long} {cluster_ip} {long}:80@30080 ips={external} external=Local affinity=ClientIP
             ep {long}/{long} {long}:8080 {pods}
             svc {long}/{other} {empty} {long}:80"
        );
        let config =
            Config { detect_local: DetectLocal::BridgeInterface("fifteen-letters".into()), ..plain() };
        ("long names", family, table(config, &text), options)
    })
}

/// The same, written by both modes that write nothing but rules.
pub(crate) fn with_long_names() -> Vec<Guide> {
    let iptables =
        long_names().map(|(name, family, table, options)| of_iptables(name, family, table, &options));
    let userspace = long_names().map(|(name, family, table, _)| {
        let ports = Ports::examples(&table);
        of_userspace(name, family, table, ports, &[])
    });
    iptables.into_iter().chain(userspace).collect()
}

fn of_iptables(
    name: &'static str,
    family: Family,
    table: ForwardingTable,
    options: &iptables::Options,
) -> Guide {
    let (folder, text) = ("iptables_golden", iptables::render(&table, family, options));
    let tables = Some(Renderer::new(&table, family, options).tables());
    Guide { folder, name, family, table, text, tables, ports: Ports::default(), lines: &[] }
}

fn of_userspace(
    name: &'static str,
    family: Family,
    table: ForwardingTable,
    ports: Ports,
    lines: &'static [&'static str],
) -> Guide {
    let options = userspace::Options::default();
    let (folder, text) = ("userspace_golden", userspace::render(&table, family, &options, ports.clone()));
    let tables = Some(userspace::tables(&table, family, &options, ports.clone()));
    Guide { folder, name, family, table, text, tables, ports, lines }
}

/// What the first guides show, with the ports that their proxy had.
pub(crate) fn documents() -> Vec<Guide> {
    let guide = |name, text, ports: &[(&str, u16)], lines| {
        let listener = |(name, number): &(&str, u16)| {
            let (family, purpose) = (Family::V4, Purpose::Cluster);
            (ListenerId { port: id(name, Protocol::Tcp), family, purpose }, *number)
        };
        let table = table(at(&["10.0.0.5"]), text);
        of_userspace(name, Family::V4, table, ports.iter().map(listener).collect(), lines)
    };
    vec![
        guide("ssh-service1", OF_NODE, &[("ssh-service1", 36463), ("kubernetes", 53940)], NODE_LINES),
        guide("redis-sentinel", OF_REDIS, &[("redis-sentinel", 36547)], REDIS_LINES),
        guide("one-endpoint", OF_8888, &[("one", 32890)], LINES_OF_8888),
    ]
}

fn userspace_kinds() -> impl Iterator<Item = Guide> {
    let is_ours =
        |(name, ..): &Cluster| ["every-kind", "every-kind-ipv6", "choices-of-our-own"].contains(name);
    clusters().into_iter().filter(is_ours).map(|(name, family, table, _)| {
        let ports = Ports::examples(&table);
        of_userspace(name, family, table, ports, &[])
    })
}

/// The example of the documents of IPVS.
fn two_pods() -> Guide {
    let table = table(plain(), "svc web 10.10.0.1 8410\nep web 12345 10.2.17.53 10.2.17.54");
    let text = ipvs::render(&table, Family::V4, &ipvs::Options::default());
    let (folder, name, family, ports) = ("ipvs_golden", "two-pods", Family::V4, Ports::default());
    Guide { folder, name, family, table, text, tables: None, ports, lines: TWO_PODS_LINES }
}

fn pods_in(networks: &[&str]) -> Config {
    let networks = networks.iter().filter_map(|net| parse_cidr(net)).collect();
    Config { detect_local: DetectLocal::ClusterCidr(networks), ..plain() }
}

const MYSQL: &str = "
    svc mysql-service 10.254.162.44 3306@30964
    ep mysql-service 3306 192.168.125.129 192.168.125.131";

const MINIKUBE: &str = "
    svc device 10.102.64.24 8080@31748
    ep device 8080 172.17.0.10 172.17.0.5
    svc gateway 10.99.126.231 8080
    ep gateway 8080 172.17.0.8
    svc traffic 10.100.159.228 8080
    ep traffic 8080 172.17.0.9
    svc kubernetes 10.96.0.1 https:443
    ep kubernetes https:8443 192.168.0.1
    svc kube-system/kube-dns 10.96.0.10 dns:53/UDP,dns-tcp:53,metrics:9153
    ep kube-system/kube-dns dns:53/UDP,dns-tcp:53,metrics:9153 172.17.0.2 172.17.0.3";

const ONE_ENDPOINT: &str = "
    svc web 1.2.3.4 8888
    ep web 8080 10.1.0.8";

/// The cluster of upstream's own test of the whole text, and the same again in IPv6.
const EVERY_KIND: &str = "
    svc ns1/svc1 172.30.0.41 p80:80
    svc ns2/svc2 172.30.0.42 p80:80@3001 lb=1.2.3.4 ips=192.168.99.22 external=Local health=30000
    svc ns3/svc3 172.30.0.43 p80:80@3003
    svc ns4/svc4 172.30.0.44 p80:80 type=NodePort ips=192.168.99.33
    svc ns5/svc5 172.30.0.45 p80:80@3002 lb=5.6.7.8 affinity=10800 ranges=203.0.113.0/25 health=30000
    svc ns6/svc6 172.30.0.46 p80:80
    ep ns1/svc1 p80:80 10.180.0.1
    ep ns2/svc2 p80:80 10.180.0.2
    ep ns3/svc3 p80:80 10.180.0.3
    ep ns4/svc4 p80:80 10.180.0.4 10.180.0.5@a
    ep ns5/svc5 p80:80 10.180.0.3
    svc ns7/svc7 fd00:172::7 diameter:3868/SCTP@30068 lb=2001:db8::44 ips=2001:db8::22 external=Local internal=Local affinity=ClientIP \
        ranges=fd00:1::/64,2001:db8:1::/48
    ep ns7/svc7 diameter:3868/SCTP fd00:10::1@a fd00:10::2@b";

/// What upstream has no rules for: weights, and ranges without an endpoint.
const CHOICES: &str = "
    svc ns1/weighted 172.30.0.41 80 portway.io/weights=10.244.0.1=3,10.244.1.2=1,10.244.1.3=1
    ep ns1/weighted 8080 10.244.0.1@a 10.244.1.2 10.244.1.3
    svc ns2/empty 172.30.0.42 p80:80@30080 lb=5.6.7.8 ranges=203.0.113.0/25,198.51.100.0/24 ips=192.168.0.1";

const OF_NODE: &str = "
    svc kubernetes 10.254.0.1 443
    ep kubernetes 6443 10.0.0.4
    svc ssh-service1 10.254.132.107 2222@30239
    ep ssh-service1 22 192.168.125.129";

/// What `iptables -S -t nat` printed on the node 10.0.0.5.
const NODE_LINES: &[&str] = &[
    r#"-A KUBE-NODEPORT-CONTAINER -p tcp -m comment --comment "default/ssh-service1:" -m tcp --dport 30239 -j REDIRECT --to-ports 36463"#,
    r#"-A KUBE-NODEPORT-HOST -p tcp -m comment --comment "default/ssh-service1:" -m tcp --dport 30239 -j DNAT --to-destination 10.0.0.5:36463"#,
    r#"-A KUBE-PORTALS-CONTAINER -d 10.254.0.1/32 -p tcp -m comment --comment "default/kubernetes:" -m tcp --dport 443 -j REDIRECT --to-ports 53940"#,
    r#"-A KUBE-PORTALS-CONTAINER -d 10.254.132.107/32 -p tcp -m comment --comment "default/ssh-service1:" -m tcp --dport 2222 -j REDIRECT --to-ports 36463"#,
    r#"-A KUBE-PORTALS-HOST -d 10.254.0.1/32 -p tcp -m comment --comment "default/kubernetes:" -m tcp --dport 443 -j DNAT --to-destination 10.0.0.5:53940"#,
    r#"-A KUBE-PORTALS-HOST -d 10.254.132.107/32 -p tcp -m comment --comment "default/ssh-service1:" -m tcp --dport 2222 -j DNAT --to-destination 10.0.0.5:36463"#,
];

const OF_REDIS: &str = "
    svc redis-sentinel 10.254.142.111 26379
    ep redis-sentinel 26379 192.168.125.131";

const REDIS_LINES: &[&str] = &[
    r#"-A KUBE-PORTALS-CONTAINER -d 10.254.142.111/32 -p tcp -m comment --comment "default/redis-sentinel:" -m tcp --dport 26379 -j REDIRECT --to-ports 36547"#,
    r#"-A KUBE-PORTALS-HOST -d 10.254.142.111/32 -p tcp -m comment --comment "default/redis-sentinel:" -m tcp --dport 26379 -j DNAT --to-destination 10.0.0.5:36547"#,
];

const OF_8888: &str = "
    svc one 1.2.3.4 8888
    ep one 8080 10.1.0.8";

/// The third document leaves the comment out, and so the module that is printed behind it.
const LINES_OF_8888: &[&str] =
    &["-A KUBE-PORTALS-CONTAINER -d 1.2.3.4/32 -p tcp -m tcp --dport 8888 -j REDIRECT --to-ports 32890"];

const TWO_PODS_LINES: &[&str] = &[
    "-A -t 10.10.0.1:8410 -s rr",
    "-a -t 10.10.0.1:8410 -r 10.2.17.53:12345 -m -w 1",
    "-a -t 10.10.0.1:8410 -r 10.2.17.54:12345 -m -w 1",
    "address add 10.10.0.1/32 dev kube-ipvs0",
    "add PORTWAY-CLUSTER-IP 10.10.0.1,tcp:8410",
];
