//! Random clusters, and packets to loopback addresses from everywhere by every protocol: what listens on localhost serves this host
//! where the model says so, and nobody else.
//!
//! `PORTWAY_SEED` asks for other clusters; a failure prints the seed that replays it.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "it is a test, helpers included")]

mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use dataplane::localhost::{Choice, Localhost};
use dataplane::nftables::{Options, sim::Nftables};
use dataplane::sim::Ends;
use dataplane::{Dataplane, Scope, relay};
use kernel_sim::nft::Simulated;
use model::fate::{Loopback, Payload, Promises};
use model::{Family, ForwardingTable, Frontend, NodePortAddress, Packet, Protocol};
use world::World;

const CLUSTERS: u64 = 60;
const STEPS: u64 = 25;
/// This host, a pod, a neighbour.
const SOURCES: [[&str; 4]; 2] = [
    ["127.0.0.1", "192.168.0.1", "10.244.0.1", "203.0.113.77"],
    ["::1", "fd00:1::1", "fd00:244::1", "2001:db8::77"],
];
const DESTINATIONS: [&[&str]; 2] = [&["127.0.0.1", "127.0.0.2"], &["::1"]];

/// Which rules there are beside makes no difference.
type Listeners = Localhost<Nftables<Simulated>, relay::Simulated>;

#[test]
fn localhost_answers_this_host_alone_and_never_sctp() {
    let first = std::env::var("PORTWAY_SEED").map_or(1, |text| text.parse().unwrap());
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for seed in first..first + CLUSTERS {
        let mut world = World::new(seed);
        let default_node_port_addresses =
            if seed % 2 == 0 { NodePortAddress::Localhost } else { NodePortAddress::All };
        let loopback_node_ports = Loopback::Localhost;
        let promises = Promises { loopback_node_ports, default_node_port_addresses, ..Promises::default() };
        let choice = Choice { families: Family::ALL.to_vec(), default_node_port_addresses };
        let rules = Nftables::new(Simulated::default(), Options::default());
        let mut listeners: Listeners = Localhost::new(rules, relay::Simulated::default(), choice);
        for _ in 0..STEPS {
            world.step();
            let synced = listeners.sync(&world.table, Scope::Everything).unwrap();
            assert!(synced.warned.is_empty(), "PORTWAY_SEED={seed}: {:?}", synced.warned);
            for packet in packets(&world.table) {
                let expected = world.table.fate(&packet, &promises).fate;
                let ends = Ends::of_fate(&expected).0;
                let landings: BTreeSet<_> = ends.keys().filter_map(|end| end.endpoint()).collect();
                let kind =
                    if landings.is_empty() { format!("{:?}", ends.keys().next()) } else { "landed".into() };
                *counts.entry(kind).or_default() += 1;
                let got = reached(&listeners, &world.table, &packet);
                assert_eq!(got, landings, "PORTWAY_SEED={seed}: {packet:?} {expected:?}");
            }
        }
    }
    let all: u64 = counts.values().sum();
    eprintln!("counted: {all} packets to loopback addresses, seed {first}: {counts:?}");
    assert!(counts.len() == 4, "{counts:?}");
}

/// To each node port, at every loopback address, from everywhere, by every protocol.
fn packets(table: &ForwardingTable) -> Vec<Packet> {
    let routes = table.ports().flat_map(|port| &port.routes);
    let node_ports = routes.filter(|route| matches!(route.frontend, Frontend::NodePort { .. }));
    let ports: BTreeSet<_> =
        node_ports.map(|route| (route.frontend.family(), route.frontend.port())).collect();
    let mut packets = Vec::new();
    for (family, port) in ports {
        let of_family = usize::from(family == Family::V6);
        let every = DESTINATIONS[of_family].iter().flat_map(|to| SOURCES[of_family].map(|from| (to, from)));
        for (destination, source) in every {
            let (source, destination) = (source.parse().unwrap(), destination.parse().unwrap());
            let payload = |protocol| Payload::Transport { protocol, port };
            let packet =
                |protocol| Packet { source, destination, payload: payload(protocol), interface: None };
            packets.extend(Protocol::ALL.map(packet));
        }
    }
    packets
}

/// The endpoints that a packet reaches through what listens. The kernel drops what others send to loopback addresses.
fn reached(listeners: &Listeners, table: &ForwardingTable, packet: &Packet) -> BTreeSet<(IpAddr, u16)> {
    let (protocol, port) = packet.payload.transport().unwrap();
    let at = SocketAddr::new(packet.destination, port);
    let found = listeners.relay().listening_at(protocol, at).filter(|_| table.node().is_own(packet.source));
    let endpoints = found.into_iter().flat_map(|(_, listener)| listener.pool.endpoints());
    endpoints.map(|endpoint| (endpoint.address, endpoint.port)).collect()
}
