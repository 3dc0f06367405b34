//! The playground itself: makes the namespaces, joins them by links, gives them addresses and routes.
//!
//! In: how many pods, and how they are attached. Out: places by name, with servers running in the server
//! pods. Both ends of every link are born inside, so that the machine's own network never sees one.
//!
//! The first packet arrives: addresses skip duplicate detection, ports of a switch forward at once, and the
//! kernel has raised the carrier of every link before [`Playground::new`] returns.

use std::collections::BTreeMap;

use crate::error::{Error, Result};
use crate::ip::Batch;
use crate::node::Node;
use crate::options::Options;
use crate::place::Place;
use crate::plan::{self, NODES, Pair, SERVICE_RANGES};
use crate::server::{Ports, Server};
use crate::wiring::{HOST, ROUTER, add_addresses, add_routes, at_once};

/// Two nodes with pods, an outside client, and the switch between them. Gone when dropped.
#[derive(Debug)]
pub struct Playground {
    // Servers first, so that they stop before the places they run in go.
    servers: BTreeMap<String, Server>,
    nodes: Vec<Node>,
    outside: Place,
    underlay: Place,
}

impl Playground {
    /// Builds it; every place can reach every other when this returns. Needs root.
    pub fn new(options: &Options) -> Result<Self> {
        check_room("client", options.clients_per_node, plan::CLIENTS_MAX)?;
        check_room("server", options.servers_per_node, plan::SERVERS_MAX)?;
        let underlay = Place::create("underlay", plan::UNDERLAY, ROUTER)?;
        let outside = Place::create("outside", plan::OUTSIDE, HOST)?;
        let nodes = (1..).zip(NODES).map(|(number, name)| Node::create(number, name, &underlay, options));
        let nodes = nodes.collect::<Result<Vec<_>>>()?;
        furnish_underlay(&underlay, &outside, &nodes)?;
        furnish_outside(&outside)?;
        at_once(&nodes, Node::furnish)?;
        // The bridge and its ports; the one link of the client.
        underlay.wait_for_links(nodes.len() + 2)?;
        outside.wait_for_links(1)?;
        nodes.iter().try_for_each(Node::wait_for_links)?;
        let mut playground = Self { servers: BTreeMap::new(), nodes, outside, underlay };
        playground.start_servers(options)?;
        Ok(playground)
    }

    /// A node, `a` or `b`.
    ///
    /// # Panics
    /// When there is none of that name.
    pub fn node(&self, name: &str) -> &Node {
        let node = self.nodes.iter().find(|node| node.place().name() == name);
        node.unwrap_or_else(|| panic!("no node `{name}`: there are {NODES:?}"))
    }

    /// Any place by name: a pod, a node, `outside` or `underlay`.
    ///
    /// # Panics
    /// When there is none of that name.
    pub fn place(&self, name: &str) -> &Place {
        self.places().find(|place| place.name() == name).unwrap_or_else(|| {
            let known: Vec<_> = self.places().map(Place::name).collect();
            panic!("no place `{name}`: there are {}", known.join(", "))
        })
    }

    /// All places: nodes, each followed by its pods, then `outside` and `underlay`.
    pub fn places(&self) -> impl Iterator<Item = &Place> {
        let nodes = self.nodes.iter().flat_map(|node| std::iter::once(node.place()).chain(node.pods()));
        nodes.chain([&self.outside, &self.underlay])
    }

    /// The nodes.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The client outside of the cluster.
    pub fn outside(&self) -> &Place {
        &self.outside
    }

    /// All client pods.
    pub fn clients(&self) -> impl Iterator<Item = &Place> {
        self.nodes.iter().flat_map(Node::clients)
    }

    /// All server pods.
    pub fn webs(&self) -> impl Iterator<Item = &Place> {
        self.nodes.iter().flat_map(Node::webs)
    }

    /// Starts a server in a place, instead of the one that runs there; a node is the host network.
    pub fn serve(&mut self, place: &str, ports: &Ports) -> Result<()> {
        self.servers.remove(place);
        let server = Server::start(self.place(place), ports)?;
        self.servers.insert(place.into(), server);
        Ok(())
    }

    /// Stops the server of a place: its ports are closed when this returns. `false` when there was none.
    pub fn stop_serving(&mut self, place: &str) -> bool {
        self.servers.remove(place).is_some()
    }

    /// The server that runs in a place.
    pub fn server(&self, place: &str) -> Option<&Server> {
        self.servers.get(place)
    }

    /// From now on the outside client sends the service ranges to this node. At first it is `a`.
    pub fn route_services_via(&self, node: &str) -> Result<()> {
        self.outside.ip(service_routes(self.node(node).place().addresses()))
    }

    fn start_servers(&mut self, options: &Options) -> Result<()> {
        let Some(ports) = &options.serve else { return Ok(()) };
        let names: Vec<_> = self.webs().map(|web| web.name().to_owned()).collect();
        names.iter().try_for_each(|name| self.serve(name, ports))
    }
}

fn check_room(kind: &'static str, asked: usize, room: usize) -> Result<()> {
    if asked > room { Err(Error::TooManyPods { kind, asked, room }) } else { Ok(()) }
}

/// The switch: one port per node and one for the outside client. It also is everybody's default gateway,
/// so that a packet for an address that nobody serves is answered with "network unreachable".
fn furnish_underlay(underlay: &Place, outside: &Place, nodes: &[Node]) -> Result<()> {
    // Every packet that leads nowhere gets its answer, however many there are.
    underlay.set(&[("ipv4/icmp_ratelimit", "0"), ("ipv6/icmp/ratelimit", "0")])?;
    let mut batch = Batch::default();
    batch.add("link set lo up");
    batch.add("link add br0 type bridge forward_delay 0 mcast_snooping 0");
    let ports = nodes.iter().map(Node::place).chain([outside]);
    for place in ports {
        add_port(&mut batch, place);
    }
    batch.add("link set br0 up");
    add_addresses(&mut batch, plan::UNDERLAY, "br0", [24, 64]);
    batch.add("route add 172.16.0.0/24 dev br0");
    batch.add("route add fd00:172::/64 dev br0");
    for number in 1..=2 {
        add_routes(&mut batch, &plan::pod_networks(number), plan::node(number));
    }
    underlay.carry_out(batch)
}

/// A port of the switch is named after the place it leads to.
fn add_port(batch: &mut Batch, place: &Place) {
    let (name, peer) = (place.name(), place.namespace().path());
    batch.add(format!("link add name {name} type veth peer name eth0 netns {}", peer.display()));
    batch.add(format!("link set dev {name} master br0 up"));
}

/// The outside client shares the wire with the nodes, but not their network.
fn furnish_outside(outside: &Place) -> Result<()> {
    let mut batch = Batch::default();
    batch.add("link set lo up");
    batch.add("link set eth0 up");
    add_addresses(&mut batch, plan::OUTSIDE, "eth0", [24, 64]);
    batch.add("route add 192.168.0.0/24 dev eth0");
    batch.add("route add fd00:192::/64 dev eth0");
    for number in 1..=2 {
        add_routes(&mut batch, &plan::pod_networks(number), plan::node(number));
    }
    add_routes(&mut batch, &plan::ANYWHERE, plan::UNDERLAY);
    for line in service_routes(plan::node(1)) {
        batch.add(line);
    }
    outside.carry_out(batch)
}

fn service_routes(node: Pair) -> Vec<String> {
    let gateway = |range: &str| if range.contains(':') { node.v6.to_string() } else { node.v4.to_string() };
    SERVICE_RANGES.iter().map(|range| format!("route replace {range} via {}", gateway(range))).collect()
}
