//! Each check on facts alone: a host written by hand, and Services as a user writes them.

use std::collections::BTreeSet;
use std::net::IpAddr;

use kernel::host::{Address, AddressFlags, Route, RouteKind, RouteTable, Scope};
use kernel::xtables::Variant;
use kernel_sim::sysctl::Simulated;
use model::object::{Read, read};
use model::{Cluster, Config, DetectLocal, Event, Family, NodePortAddress};
use serde_json::{Value, json};

use super::conditions::{counter, dropped};
use super::*;
use crate::registry::serving_signs;
use crate::served::Served;

/// What every mode that forwards checks.
const ALL: &[Check] = &[
    IP_FORWARD,
    FORWARD_FILTER,
    BRIDGE_HAIRPIN,
    BRIDGE_NETFILTER,
    CONNTRACK_FULL,
    TCP_LOOSE,
    RP_FILTER,
    ACCEPT_RA,
    OTHER_PROXY,
    NODE_ADDRESS,
    NODE_NAME,
];

/// A node: eth0 with a router, eth1 without, pods behind the bridge cni0; both families; everything as it should be.
struct World {
    conditions: Conditions,
    table: ForwardingTable,
    promises: Promises,
    node: NodeFacts,
    filter: FilterVerdict,
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn link(name: &str) -> LinkConditions {
    LinkConditions { name: name.to_owned(), forwarding: Some(true), ..LinkConditions::default() }
}

fn address(text: &str, prefix_length: u8, link_index: u32, link_name: &str) -> Address {
    Address {
        ip: ip(text),
        prefix_length,
        scope: Scope::Global,
        flags: AddressFlags::default(),
        link_index,
        link_name: link_name.to_owned(),
    }
}

fn route(destination: &str, prefix_length: u8, link: u32, gateway: Option<&str>) -> Route {
    Route {
        table: RouteTable::Main,
        kind: RouteKind::Unicast,
        destination: ip(destination),
        prefix_length,
        link_index: Some(link),
        gateway: gateway.map(ip),
        preferred_source: None,
        metric: 0,
    }
}

fn host() -> Conditions {
    let bridge = LinkConditions { bridge_calls: Some((true, true)), ..link("cni0") };
    Conditions {
        links: [(2, link("eth0")), (3, link("eth1")), (4, bridge)].into(),
        routes: BTreeSet::from([
            route("0.0.0.0", 0, 2, Some("192.0.2.1")),
            route("192.0.2.0", 24, 2, None),
            route("198.18.0.0", 24, 3, None),
            route("10.244.1.0", 24, 4, None),
            route("::", 0, 2, Some("fe80::1")),
            route("fd00:192::", 64, 2, None),
            route("fd00:10:244:1::", 64, 4, None),
        ]),
        addresses: BTreeSet::from([
            address("192.0.2.10", 24, 2, "eth0"),
            address("198.18.0.10", 24, 3, "eth1"),
            address("10.244.1.1", 24, 4, "cni0"),
            address("fd00:192::10", 64, 2, "eth0"),
            address("fd00:10:244:1::1", 64, 4, "cni0"),
        ]),
        ipv6_forwarding: Some(true),
        conntrack: Some(ConntrackLoad { count: 10, max: 1000, dropped: Some(0) }),
        tcp_loose: Some(true),
        ..Conditions::default()
    }
}

fn service(name: &str, family: Family, spec: &Value) -> Value {
    let (ip, of) = match family {
        Family::V4 => ("10.96.0.7", "IPv4"),
        Family::V6 => ("fd00:10:96::7", "IPv6"),
    };
    let mut whole = json!({
        "type": "NodePort", "clusterIP": ip, "clusterIPs": [ip], "ipFamilies": [of],
        "ports": [{ "port": 80, "nodePort": 30080, "protocol": "TCP" }],
    });
    whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": name, "namespace": "default" }, "spec": whole })
}

fn slice(name: &str, family: Family, node: &str, addresses: &[&str]) -> Value {
    let of = if family == Family::V4 { "IPv4" } else { "IPv6" };
    let endpoints: Vec<Value> =
        addresses.iter().map(|ip| json!({ "addresses": [ip], "nodeName": node })).collect();
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": of,
        "metadata": { "name": name, "namespace": "default", "labels": { "kubernetes.io/service-name": name } },
        "ports": [{ "port": 8080, "protocol": "TCP" }], "endpoints": endpoints,
    })
}

/// Two pods of this node on one bridge, per family.
fn pods(family: Family) -> [&'static str; 2] {
    match family {
        Family::V4 => ["10.244.1.5", "10.244.1.6"],
        Family::V6 => ["fd00:10:244:1::5", "fd00:10:244:1::6"],
    }
}

fn world_of(objects: &[Value]) -> World {
    let nets = ["10.244.0.0/16", "fd00:10:244::/48"].map(|net| net.parse().unwrap());
    let config = Config {
        node_name: "a".into(),
        detect_local: DetectLocal::ClusterCidr(nets.to_vec()),
        ..Config::default()
    };
    let (conditions, mut cluster) = (host(), Cluster::new(config));
    for object in objects {
        match read(object) {
            Read::Fact(fact) => drop(cluster.apply(Event::Apply(fact))),
            other => panic!("{other:?}"),
        }
    }
    cluster.apply(Event::LocalAddresses(conditions.addresses.iter().map(|address| address.ip).collect()));
    let node = NodeFacts { name: "a".into(), is_known: true, ..NodeFacts::default() };
    let (table, filter) = (ForwardingTable::of(&cluster), FilterVerdict::Accepted);
    let promises = Promises { default_node_port_addresses: NodePortAddress::All, ..Promises::default() };
    World { conditions, table, promises, node, filter }
}

fn world(family: Family) -> World {
    world_of(&[service("web", family, &json!({})), slice("web", family, "a", &pods(family))])
}

impl World {
    fn examine(&self) -> Vec<Finding> {
        let mut paths = paths(&self.conditions, &self.table, &self.promises);
        for path in paths.iter_mut().filter(|path| path.is_forwarded()) {
            path.filter = self.filter.clone();
        }
        let Self { conditions, table, promises, node, .. } = self;
        examine(ALL, &Subject { conditions, table, promises, node, paths: &paths })
    }

    /// The only finding.
    fn one(&self) -> Finding {
        match self.examine().as_slice() {
            [finding] => finding.clone(),
            other => panic!("{other:#?}"),
        }
    }

    fn link(&mut self, index: u32) -> &mut LinkConditions {
        self.conditions.links.get_mut(&index).unwrap()
    }
}

fn check(finding: &Finding) -> (&str, Severity) {
    (finding.check, finding.severity)
}

#[test]
fn a_host_as_it_should_be_has_no_finding_and_its_packets_are_tried() {
    for family in Family::ALL {
        let world = world(family);
        assert_eq!(world.examine(), [], "{family}");
        let paths = paths(&world.conditions, &world.table, &world.promises);
        let tried: Vec<String> = paths.iter().map(ToString::to_string).collect();
        assert!(
            tried.iter().any(|path| path.starts_with("pod ") && path.ends_with("Service default/web")),
            "{tried:?}"
        );
        assert!(tried.iter().any(|path| path.contains(" by eth0 → ")), "{tried:?}");
    }
}

#[test]
fn forwarding_turned_off_is_an_error_that_names_the_lost_packet() {
    let mut v4 = world(Family::V4);
    for index in [2, 3, 4] {
        v4.link(index).forwarding = Some(false);
    }
    let found = v4.one();
    assert_eq!(check(&found), ("ip-forward", Severity::Error));
    assert_eq!(found.fix, "sysctl -w net.ipv4.ip_forward=1");
    assert_eq!(found.traffic, "pod 10.244.1.5 → 10.96.0.7:80/tcp → 10.244.1.6:8080, Service default/web");

    let mut v6 = world(Family::V6);
    v6.conditions.ipv6_forwarding = Some(false);
    let found = v6.one();
    assert_eq!(check(&found), ("ip-forward", Severity::Error));
    assert_eq!(found.fix, "sysctl -w net.ipv6.conf.all.forwarding=1");
    for index in [2, 3, 4] {
        v6.link(index).forces_ipv6_forwarding = true;
    }
    assert_eq!(v6.examine(), [], "force_forwarding of a link overrules it");
}

#[test]
fn forwarding_turned_off_on_one_link_concerns_that_link_alone() {
    let mut world = world(Family::V4);
    world.link(2).forwarding = Some(false);
    let found = world.one();
    assert_eq!(
        (check(&found), &*found.fix),
        (("ip-forward", Severity::Error), "sysctl -w net.ipv4.conf.eth0.forwarding=1")
    );
    let mut idle = super::tests::world(Family::V4);
    idle.link(3).forwarding = Some(false);
    assert_eq!(idle.examine(), [], "no client comes in there");
}

#[test]
fn endpoints_on_this_host_itself_need_no_forwarding() {
    let objects = [service("web", Family::V4, &json!({})), slice("web", Family::V4, "a", &["192.0.2.10"])];
    let mut world = world_of(&objects);
    for index in [2, 3, 4] {
        world.link(index).forwarding = Some(false);
    }
    assert_eq!(world.examine(), []);
}

#[test]
fn a_firewall_that_drops_is_an_error_and_one_that_cannot_be_judged_is_possible() {
    for family in Family::ALL {
        let mut world = world(family);
        let (by, fix) =
            ("table ip filter, chain FORWARD: policy drop".to_owned(), "iptables -I FORWARD …".to_owned());
        world.filter = FilterVerdict::Dropped { by: by.clone(), fix: fix.clone() };
        let found = world.one();
        assert_eq!((check(&found), &found.fix), (("forward-filter", Severity::Error), &fix));
        assert!(found.cause.contains(&by) && found.traffic.contains("Service default/web"), "{found:?}");
        world.conditions.has_policy_routing = true;
        assert_eq!(
            check(&world.one()),
            ("forward-filter", Severity::Possible),
            "it may leave by another link"
        );
        world.conditions.has_policy_routing = false;
        world.filter = FilterVerdict::DroppedBySource { by, fix };
        assert_eq!(check(&world.one()), ("forward-filter", Severity::Possible));
        world.filter = FilterVerdict::Unknown("rule xyz".to_owned());
        assert_eq!(check(&world.one()), ("forward-filter", Severity::Possible));
    }
}

#[test]
fn pods_on_one_bridge_without_bridge_netfilter_are_an_error_with_both_pods_named() {
    for family in Family::ALL {
        let mut world = world(family);
        world.link(4).bridge_calls = Some((family == Family::V6, family == Family::V4));
        let found = world.one();
        assert_eq!(check(&found), ("bridge-netfilter", Severity::Error));
        assert!(pods(family).iter().all(|pod| found.traffic.contains(pod)), "{found:?}");
        let name = if family == Family::V4 { "iptables" } else { "ip6tables" };
        assert!(found.fix.ends_with(&format!("net.bridge.bridge-nf-call-{name}=1")), "{found:?}");
    }
}

#[test]
fn a_pod_that_cannot_reach_itself_over_its_bridge_is_an_error() {
    for family in Family::ALL {
        let mut world =
            world_of(&[service("web", family, &json!({})), slice("web", family, "a", &pods(family)[..1])]);
        world.link(4).hairpin_ports = [("veth0".to_owned(), false)].into();
        let found = world.one();
        assert_eq!(check(&found), ("bridge-hairpin", Severity::Error));
        assert!(found.fix.starts_with("bridge link set dev veth0 hairpin on"), "{found:?}");
        world.link(4).hairpin_ports.insert("veth1".to_owned(), true);
        assert_eq!(
            check(&world.one()),
            ("bridge-hairpin", Severity::Possible),
            "{family}: it may be the other port"
        );
        world.link(4).hairpin_ports.insert("veth0".to_owned(), true);
        assert_eq!(world.examine(), [], "{family}");
    }
}

#[test]
fn endpoints_on_a_bridge_are_taken_for_pods_also_where_no_object_names_their_node() {
    for family in Family::ALL {
        let mut slice = slice("web", family, "a", &pods(family));
        for endpoint in slice["endpoints"].as_array_mut().unwrap() {
            endpoint.as_object_mut().unwrap().remove("nodeName");
        }
        let mut world = world_of(&[service("web", family, &json!({})), slice]);
        assert_eq!(world.examine(), [], "{family}");
        world.link(4).bridge_calls = Some((false, false));
        assert_eq!(check(&world.one()), ("bridge-netfilter", Severity::Possible), "{family}");
        world.link(4).bridge_calls = Some((true, true));
        world.link(4).hairpin_ports = [("veth0".to_owned(), false)].into();
        assert_eq!(check(&world.one()), ("bridge-hairpin", Severity::Possible), "{family}");
    }
}

#[test]
fn one_known_pod_on_a_bridge_without_bridge_netfilter_is_possible() {
    for family in Family::ALL {
        let mut world =
            world_of(&[service("web", family, &json!({})), slice("web", family, "a", &pods(family)[..1])]);
        world.link(4).bridge_calls = Some((false, false));
        assert_eq!(check(&world.one()), ("bridge-netfilter", Severity::Possible), "{family}");
        world.link(4).bridge_calls = None;
        assert_eq!(world.examine(), [], "{family}: it is no bridge");
    }
}

#[test]
fn a_full_connection_tracker_is_an_error_once_packets_were_dropped() {
    let of = |count, dropped| {
        let mut world = world(Family::V4);
        world.conditions.conntrack = Some(ConntrackLoad { count, max: 1000, dropped });
        world
            .examine()
            .iter()
            .map(check)
            .map(|(name, severity)| (name.to_owned(), severity))
            .collect::<Vec<_>>()
    };
    let full = |severity| vec![("conntrack-full".to_owned(), severity)];
    assert_eq!(of(1000, Some(3)), full(Severity::Error));
    assert_eq!(of(1000, Some(0)), full(Severity::Possible));
    assert_eq!(of(1000, None), full(Severity::Possible));
    assert_eq!(of(900, Some(3)), full(Severity::Possible));
    assert_eq!(of(899, Some(3)), []);
    let mut unlimited = world(Family::V6);
    unlimited.conditions.conntrack = Some(ConntrackLoad { count: 9, max: 0, dropped: None });
    assert_eq!(unlimited.examine(), []);
}

#[test]
fn a_tracker_that_picks_up_no_open_connections_is_possible() {
    let mut world = world(Family::V6);
    world.conditions.tcp_loose = Some(false);
    let found = world.one();
    assert_eq!(
        (check(&found), &*found.fix),
        (("tcp-loose", Severity::Possible), "sysctl -w net.netfilter.nf_conntrack_tcp_loose=1")
    );
    let mut empty = world_of(&[]);
    empty.conditions.tcp_loose = Some(false);
    assert_eq!(empty.examine(), [], "without a Service nothing is lost");
}

#[test]
fn a_strict_filter_on_a_second_link_is_possible_and_an_error_for_the_packet_that_comes_in_there() {
    let mut world = world(Family::V4);
    world.link(3).rp_filter = 1;
    let found = world.one();
    assert_eq!(
        (check(&found), &*found.fix),
        (("rp-filter", Severity::Possible), "sysctl -w net.ipv4.conf.eth1.rp_filter=2")
    );
    world.link(3).rp_filter = 2;
    world.link(2).rp_filter = 1;
    assert_eq!(world.examine(), [], "loose on one link, and strict where clients come in and answers leave");

    world.link(3).rp_filter = 1;
    let payload = model::fate::Payload::Transport { protocol: model::Protocol::Tcp, port: 30080 };
    let packet = |source: &str| model::Packet {
        source: ip(source),
        destination: ip("198.18.0.10"),
        payload,
        interface: Some("eth1".to_owned()),
    };
    let judged = |source: &str| {
        let packet = packet(source);
        let model::Fate::OneOf(one_of) = world.table.fate(&packet, &world.promises).fate else {
            panic!("it is served")
        };
        let paths = paths_of(&world.conditions, &world.table, &packet, &one_of);
        decides(ALL, &world.conditions, &paths[0])
    };
    let far = judged("203.0.113.9");
    assert_eq!(far.iter().map(check).collect::<Vec<_>>(), [("rp-filter", Severity::Error)]);
    assert!(far[0].cause.contains("the route back leads by eth0"), "{far:?}");
    assert_eq!(judged("198.18.0.77"), [], "a neighbour there is let in");
}

#[test]
fn advertised_routes_expire_where_advertisements_are_ignored() {
    let mut world = world(Family::V6);
    world.link(2).accept_ra = 1;
    let found = world.one();
    assert_eq!(
        (check(&found), &*found.fix),
        (("accept-ra", Severity::Possible), "sysctl -w net.ipv6.conf.eth0.accept_ra=2")
    );
    world.link(2).accept_ra = 2;
    world.link(4).accept_ra = 1;
    assert_eq!(world.examine(), [], "no router is on cni0");
}

#[test]
fn rules_of_another_proxy_are_possible() {
    for family in Family::ALL {
        let mut world = world(family);
        let served = Served::Chains(Variant::Legacy, family);
        world.conditions.serving = vec![served.describe(serving_signs()).to_string()];
        let found = world.one();
        assert_eq!(check(&found), ("other-proxy", Severity::Possible));
        assert!(
            found.cause.contains("KUBE-SERVICES") && found.cause.contains("iptables-legacy"),
            "{found:?}"
        );
    }
}

fn node(name: &str, ip: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": { "name": name },
        "status": { "addresses": [{ "type": "InternalIP", "address": ip }] },
    })
}

#[test]
fn a_node_whose_address_this_host_does_not_have_is_an_error_where_node_ports_answer_there_alone() {
    for (family, wrong, right) in
        [(Family::V4, "192.0.2.99", "192.0.2.10"), (Family::V6, "fd00:192::99", "fd00:192::10")]
    {
        let objects = |ip: &str| {
            [node("a", ip), service("web", family, &json!({})), slice("web", family, "a", &pods(family))]
        };
        let mut world = world_of(&objects(wrong));
        assert_eq!(
            check(&world.one()),
            ("node-address", Severity::Possible),
            "node ports answer at every address"
        );
        world.promises.default_node_port_addresses = NodePortAddress::Primary;
        let found = world.one();
        assert_eq!(check(&found), ("node-address", Severity::Error));
        assert!(
            found.cause.contains(wrong) && found.cause.contains(&format!("it has {right}")),
            "not the address of the pods' bridge: {found:?}"
        );
        assert!(found.traffic.ends_with(":30080/tcp, Service default/web"), "{found:?}");
        assert_eq!(world_of(&objects(right)).examine(), []);
    }
}

#[test]
fn a_name_that_is_no_node_is_an_error_where_a_local_policy_drops_for_it() {
    let local = json!({ "externalTrafficPolicy": "Local" });
    for (family, own) in [(Family::V4, "192.0.2.10"), (Family::V6, "fd00:192::10")] {
        let mut world = world_of(&[service("web", family, &local), slice("web", family, "b", &pods(family))]);
        world.node.is_known = false;
        assert_eq!(world.examine(), [], "without any Node the name does not matter");
        world.node.others = [("c".to_owned(), vec![ip("203.0.113.3")])].into();
        let found = world.one();
        assert_eq!(check(&found), ("node-name", Severity::Possible));
        assert!(found.cause.contains("there are c"), "{found:?}");
        world.node.others = [("b".to_owned(), vec![ip(own)])].into();
        assert_eq!(
            (check(&world.one()), &*world.one().fix),
            (("node-name", Severity::Possible), "--node-name b")
        );
        world.node.services_of =
            [("b".to_owned(), [model::ServiceName::new("default", "web")].into())].into();
        let found = world.one();
        assert_eq!(check(&found), ("node-name", Severity::Error));
        assert!(found.traffic.contains(":30080/tcp, Service default/web: dropped"), "{found:?}");
    }
    let mut of_server = world_of(&[]);
    (of_server.node.is_known, of_server.node.is_unknown_to_server) = (false, true);
    assert_eq!(check(&of_server.one()), ("node-name", Severity::Possible));
}

#[test]
fn settings_are_read_as_the_kernel_takes_them() {
    let mut settings = Simulated::new([
        ("net/ipv6/conf/all/forwarding", "1"),
        ("net/netfilter/nf_conntrack_count", "7"),
        ("net/netfilter/nf_conntrack_max", "9"),
        ("net/netfilter/nf_conntrack_tcp_loose", "0"),
        ("net/ipv4/conf/all/rp_filter", "0"),
        ("net/ipv4/conf/eth0.7/rp_filter", "1"),
        ("net/ipv4/conf/eth0.7/forwarding", "0"),
        ("net/ipv6/conf/eth0.7/accept_ra", "1"),
    ]);
    let read = Conditions::of_sysctls(&mut settings);
    assert_eq!((read.ipv6_forwarding, read.tcp_loose), (Some(true), Some(false)));
    assert_eq!(read.conntrack, Some(ConntrackLoad { count: 7, max: 9, dropped: None }));
    let link = LinkConditions::read(&mut settings, "eth0.7");
    assert_eq!((link.forwarding, link.rp_filter, link.accept_ra), (Some(false), 1, 1));
    settings.values.insert("net/ipv4/conf/all/rp_filter".to_owned(), "2".to_owned());
    assert_eq!(LinkConditions::read(&mut settings, "eth0.7").rp_filter, 2, "the larger one counts");
    assert_eq!(Conditions::of_sysctls(&mut Simulated::default()), Conditions::default());
}

#[test]
fn counters_of_the_kernel_are_read_from_its_text() {
    let stat = "entries  searched drop early_drop\n00000002  00000000 0000000a 00000000\n00000002  00000000 00000006 00000000\n";
    assert_eq!((dropped(stat), dropped("entries\n1\n"), dropped("")), (Some(16), None, None));
    let netstat = "TcpExt: A IPReversePathFilter B\nTcpExt: 1 23 4\nIpExt: C\nIpExt: 5\n";
    assert_eq!(
        (counter(netstat, "IPReversePathFilter"), counter(netstat, "D"), counter("", "A")),
        (Some(23), None, None)
    );
}

#[test]
fn names_of_checks_are_unique() {
    let names: BTreeSet<&str> = ALL.iter().map(|check| check.name).collect();
    assert_eq!(names.len(), ALL.len());
}
