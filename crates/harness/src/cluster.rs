//! The cluster that is measured: n services with four endpoints each, on five hundred nodes of which this is one; and its changes.
//!
//! In: a service's number. Out: its facts, always the same for the same number.

use std::net::{IpAddr, Ipv4Addr};

use model::facts::{
    EndpointFact, EndpointSlice, Fact, Node, Policy, PortSpec, Service, ServiceCidr, ServiceType, SlicePort,
};
use model::net::IpNet;
use model::{ByFamily, Config, DetectLocal, Event, Protocol, ServiceName};

/// Endpoints of each service.
pub const ENDPOINTS: u32 = 4;
/// The port that a client dials.
pub const PORT: u16 = 80;
/// The port that an endpoint listens on.
const TARGET_PORT: u16 = 8080;
/// Nodes that the endpoints are spread over.
const NODES: u32 = 500;
/// This one. The playground's first node has the same name.
const OWN_NODE: &str = "a";
/// Every pod's address is in here, those of the playground too.
const POD_NETWORK: &str = "10.128.0.0/9";
const SERVICE_NETWORK: &str = "10.96.0.0/12";
/// The first address of a pod, and the first one of pods that come later.
const FIRST_POD: u32 = 0x0a80_0000;
const FIRST_LATER_POD: u32 = 0x0ac0_0000;

/// What the operator of the measured node chose.
pub fn config() -> Config {
    Config {
        node_name: OWN_NODE.into(),
        detect_local: DetectLocal::ClusterCidr(vec![network(POD_NETWORK)]),
        ..Config::default()
    }
}

/// This node and the range of cluster IPs, then each service and its slice.
pub fn facts(services: u32) -> impl Iterator<Item = Fact> {
    let both = |n| [Fact::Service(service(n)), Fact::EndpointSlice(slice(n, &endpoints(n)))];
    [node(), service_network()].into_iter().chain((0..services).flat_map(both))
}

/// A service of one TCP port.
pub fn service(n: u32) -> Service {
    Service {
        name: ServiceName::new(&format!("team-{}", n % 200), &format!("orders-worker-{n}")),
        created: None,
        kind: ServiceType::ClusterIp,
        cluster_ips: ByFamily { v4: Some(cluster_ip(n).into()), v6: None },
        ports: [PortSpec { name: "http".into(), protocol: Protocol::Tcp, port: PORT, node_port: None }]
            .into(),
        internal_policy: Policy::Cluster,
        external_policy: Policy::Cluster,
        affinity_seconds: None,
        external: None,
        reports: Box::default(),
    }
}

pub fn cluster_ip(n: u32) -> Ipv4Addr {
    let [_, b, c, d] = n.to_be_bytes();
    Ipv4Addr::new(10, 0x60 | b, c, d)
}

/// The slice of a service that has its endpoints at these addresses.
pub fn slice(n: u32, addresses: &[IpAddr]) -> EndpointSlice {
    let service = service(n).name;
    EndpointSlice {
        name: ServiceName::new(service.namespace(), &format!("{}-x7k2p", service.name())),
        service: Some(service),
        follows_pods: true,
        ports: vec![SlicePort { name: "http".into(), protocol: Protocol::Tcp, port: TARGET_PORT }],
        endpoints: (0..).zip(addresses).map(|(i, address)| endpoint(n, i, *address)).collect(),
        reports: Vec::new(),
    }
}

/// Where the endpoints of a service are at first.
pub fn endpoints(n: u32) -> Vec<IpAddr> {
    (0..ENDPOINTS).map(|i| Ipv4Addr::from_bits(FIRST_POD + n * ENDPOINTS + i).into()).collect()
}

fn endpoint(n: u32, i: u32, address: IpAddr) -> EndpointFact {
    let node = match (n + i) % NODES {
        0 => OWN_NODE.into(),
        other => format!("node-{other}").into(),
    };
    EndpointFact {
        address,
        node: Some(node),
        pod: Some(format!("orders-worker-{n}-7d4b9c6f5-x{i}k2p").into()),
        ready: true,
        serving: true,
        terminating: false,
        hints: None,
        weight: None,
    }
}

fn node() -> Fact {
    Fact::Node(Node {
        name: OWN_NODE.into(),
        zone: None,
        addresses: vec![[192, 168, 0, 1].into()],
        pod_cidrs: Vec::new(),
        is_leaving: false,
        reports: Vec::new(),
    })
}

fn service_network() -> Fact {
    let cidrs = vec![network(SERVICE_NETWORK)];
    Fact::ServiceCidr(ServiceCidr { name: "kubernetes".into(), cidrs, reports: Vec::new() })
}

fn network(text: &str) -> IpNet {
    text.parse().expect("the constants of this file are networks")
}

/// A kind of change.
#[derive(Clone, Copy, Debug)]
pub struct Change {
    pub name: &'static str,
    /// The number of the service that the i-th change is about, in a cluster of so many services.
    pub service: fn(i: u32, services: u32) -> u32,
    /// What happens to that service with the i-th change.
    events: fn(i: u32, n: u32) -> Vec<Event>,
}

impl Change {
    /// In an order in which each undoes the one before, or starts from what that one left.
    pub const ALL: [Self; 5] = [
        Self {
            name: "endpoint replaced",
            service: scattered,
            events: |i, n| vec![with_later_pod(i, n, &[])],
        },
        Self {
            name: "endpoint added",
            service: scattered,
            events: |i, n| vec![with_later_pod(i, n, &[later_pod(1_000 + i)])],
        },
        Self { name: "endpoint removed", service: scattered, events: |i, n| vec![with_later_pod(i, n, &[])] },
        Self {
            name: "service added",
            service: |i, services| services + i,
            events: |_, n| vec![Event::Apply(Fact::Service(service(n))), with_endpoints(n, &endpoints(n))],
        },
        Self {
            name: "service removed",
            service: |i, services| services + i,
            events: |_, n| {
                vec![Event::DeleteSlice(slice(n, &[]).name), Event::DeleteService(service(n).name)]
            },
        },
    ];

    /// Without those that add an endpoint and remove it again.
    pub fn main_ones() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|kind| !["endpoint added", "endpoint removed"].contains(&kind.name))
    }

    /// The events of the i-th change in a cluster of so many services.
    pub fn events(&self, i: u32, services: u32) -> Vec<Event> {
        (self.events)(i, (self.service)(i, services))
    }
}

/// A service has its endpoints at these addresses.
pub fn with_endpoints(n: u32, addresses: &[IpAddr]) -> Event {
    Event::Apply(Fact::EndpointSlice(slice(n, addresses)))
}

/// A service has another first endpoint, and some more.
fn with_later_pod(i: u32, n: u32, more: &[IpAddr]) -> Event {
    let first = [later_pod(i)];
    with_endpoints(n, &[&first, &endpoints(n)[1..], more].concat())
}

fn later_pod(i: u32) -> IpAddr {
    Ipv4Addr::from_bits(FIRST_LATER_POD + i).into()
}

/// Some service or other, never the same pattern of neighbours, and no one twice.
fn scattered(i: u32, services: u32) -> u32 {
    // A prime that divides no size.
    i.wrapping_mul(7_919) % services
}
