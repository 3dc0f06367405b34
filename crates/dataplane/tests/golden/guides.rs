//! The clusters of which guides show rules, and some that have something of every kind; as text by the mode that writes it.

#![allow(dead_code, reason = "each test uses its part")]

use dataplane::iptables::{self, Comments, Renderer, Tables};
use dataplane::ipvs;
use dataplane::relay::{ListenerId, Purpose};
use dataplane::userspace::{self, Ports};
use model::net::parse_cidr;
use model::{Config, DetectLocal, Family, ForwardingTable, NodePortAddress, Protocol};

use dataplane::sim::cluster::{at, id, plain, table};

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
    pub(crate) lines: Vec<&'static str>,
}

/// All that are in files.
pub(crate) fn all() -> Vec<Guide> {
    let iptables = clusters().into_iter().map(of_iptables);
    iptables.chain(documents()).chain(userspace_kinds()).chain([two_pods()]).collect()
}

type Cluster = (&'static str, Family, ForwardingTable, iptables::Options);

fn clusters() -> Vec<Cluster> {
    let options = iptables::Options::default();
    let everything = || table(pods_in(&["10.0.0.0/8", "fd00:10::/64"]), &cluster("every-kind"));
    let localhost = iptables::Options { localhost_node_ports: true, comments: Comments::UpTo(0), ..options };
    // What upstream has no rules for: pods in several networks, and node ports on some addresses, which it refuses on all.
    let node_port_addresses = vec![NodePortAddress::Primary, NodePortAddress::Localhost];
    let chosen = Config { node_port_addresses, ..pods_in(&["10.244.0.0/24", "10.245.0.0/16"]) };
    vec![
        ("mysql-service", Family::V4, table(plain(), &cluster("mysql-service")), options),
        ("device-gateway-traffic", Family::V4, table(plain(), &cluster("device-gateway-traffic")), options),
        ("one-endpoint", Family::V4, table(plain(), &cluster("one-endpoint of iptables")), options),
        ("every-kind", Family::V4, everything(), options),
        ("every-kind-ipv6", Family::V6, everything(), options),
        ("every-kind-localhost-no-comments", Family::V4, everything(), localhost),
        ("choices-of-our-own", Family::V4, table(chosen, &cluster("choices-of-our-own")), options),
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
    long_names().map(of_iptables).into_iter().chain(long_names().map(with_examples)).collect()
}

fn of_iptables((name, family, table, options): Cluster) -> Guide {
    let (folder, text) = ("iptables_golden", iptables::render(&table, family, &options));
    let tables = Some(Renderer::new(&table, family, &options).tables());
    Guide { folder, name, family, table, text, tables, ports: Ports::default(), lines: Vec::new() }
}

/// With ports that nobody chose.
fn with_examples((name, family, table, _): Cluster) -> Guide {
    let ports = Ports::examples(&table);
    of_userspace(name, family, table, ports)
}

fn of_userspace(name: &'static str, family: Family, table: ForwardingTable, ports: Ports) -> Guide {
    let options = userspace::Options::default();
    let (folder, text) = ("userspace_golden", userspace::render(&table, family, &options, ports.clone()));
    let tables = Some(userspace::tables(&table, family, &options, ports.clone()));
    Guide { folder, name, family, table, text, tables, ports, lines: Vec::new() }
}

/// What the first guides show, with the ports that their proxy had.
pub(crate) fn documents() -> Vec<Guide> {
    let guide = |name, ports: &[(&str, u16)]| {
        let listener = |(name, number): &(&str, u16)| {
            let (family, purpose) = (Family::V4, Purpose::Cluster);
            (ListenerId { port: id(name, Protocol::Tcp), family, purpose }, *number)
        };
        let (table, ports) = (table(at(&["10.0.0.5"]), &cluster(name)), ports.iter().map(listener).collect());
        Guide { lines: printed(name), ..of_userspace(name, Family::V4, table, ports) }
    };
    vec![
        guide("ssh-service1", &[("ssh-service1", 36463), ("kubernetes", 53940)]),
        guide("redis-sentinel", &[("redis-sentinel", 36547)]),
        guide("one-endpoint", &[("one", 32890)]),
    ]
}

fn userspace_kinds() -> impl Iterator<Item = Guide> {
    let is_ours =
        |(name, ..): &Cluster| ["every-kind", "every-kind-ipv6", "choices-of-our-own"].contains(name);
    clusters().into_iter().filter(is_ours).map(with_examples)
}

/// The example of the documents of IPVS.
fn two_pods() -> Guide {
    let table = table(plain(), &cluster("two-pods"));
    let text = ipvs::render(&table, Family::V4, &ipvs::Options::default());
    let (folder, name, family, ports) = ("ipvs_golden", "two-pods", Family::V4, Ports::default());
    Guide { folder, name, family, table, text, tables: None, ports, lines: printed("two-pods") }
}

fn pods_in(networks: &[&str]) -> Config {
    let networks = networks.iter().filter_map(|net| parse_cidr(net)).collect();
    Config { detect_local: DetectLocal::ClusterCidr(networks), ..plain() }
}

const CLUSTERS: &str = include_str!("clusters.txt");

/// These lines of a cluster.
fn lines_of(name: &str, is_said: fn(&&str) -> bool) -> impl Iterator<Item = &'static str> {
    let mut sections = CLUSTERS.split("\n# ").filter_map(|section| section.split_once('\n'));
    let (_, section) = sections.find(|(found, _)| *found == name).expect("there is such a cluster");
    section.lines().filter(is_said)
}

/// The objects of a cluster.
fn cluster(name: &str) -> String {
    let objects = lines_of(name, |line| line.starts_with("svc ") || line.starts_with("ep "));
    objects.collect::<Vec<_>>().join("\n")
}

/// What the document prints of it.
fn printed(name: &str) -> Vec<&'static str> {
    lines_of(name, |_| true).filter_map(|line| line.strip_prefix("> ")).collect()
}
