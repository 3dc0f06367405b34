//! A node: a place that forwards for its pods, and in which programs such as a proxy run.
//!
//! Pods live in the node's pod network, `10.244.1.0/24` on node `a`. Their end of the link is `eth0`, the
//! node's end is `veth` and the pod's name.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::ip::Batch;
use crate::options::{Options, PodNetwork};
use crate::ping::{Ping, ping};
use crate::place::Place;
use crate::plan::{self, Family, NODES};
use crate::process::Process;
use crate::wiring::{HOST, ROUTER, add_addresses, add_routes, at_once};

/// The bridge of [`PodNetwork::Bridged`].
pub const BRIDGE: &str = "cni0";
/// A node that does not answer by then will not.
const PLUG_LIMIT: Duration = Duration::from_secs(10);
const PLUG_POLL: Duration = Duration::from_millis(20);

/// A node with its pods.
#[derive(Debug)]
pub struct Node {
    number: u8,
    place: Place,
    clients: Vec<Place>,
    webs: Vec<Place>,
    underlay: Place,
    pod_network: PodNetwork,
}

impl Node {
    pub(crate) fn create(number: u8, name: &str, underlay: &Place, options: &Options) -> Result<Self> {
        let create = |(name, addresses): (String, _)| Place::create(&name, addresses, HOST);
        let clients = plan::client_pods(number, options.clients_per_node);
        let webs = plan::server_pods(number, options.servers_per_node);
        Ok(Self {
            number,
            place: Place::create(name, plan::node(number), ROUTER)?,
            clients: clients.into_iter().map(create).collect::<Result<_>>()?,
            webs: webs.into_iter().map(create).collect::<Result<_>>()?,
            underlay: underlay.clone(),
            pod_network: options.pod_network,
        })
    }

    /// The node's own namespace: its host network.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Client pods, then server pods.
    pub fn pods(&self) -> impl Iterator<Item = &Place> {
        self.clients.iter().chain(&self.webs)
    }

    /// Client pods.
    pub fn clients(&self) -> impl Iterator<Item = &Place> {
        self.clients.iter()
    }

    /// Server pods.
    pub fn webs(&self) -> impl Iterator<Item = &Place> {
        self.webs.iter()
    }

    /// Its pod network, IPv4 and IPv6, as CIDRs.
    pub fn pod_networks(&self) -> [String; 2] {
        plan::pod_networks(self.number)
    }

    /// Starts a program on the node, with its output captured. It ends when the handle is dropped.
    pub fn spawn(&self, command: Command) -> Result<Process> {
        Process::spawn(&self.place, command)
    }

    /// Pulls the node's cable, as when it dies: packets to it and through it vanish without an answer.
    pub fn unplug(&self) -> Result<()> {
        self.underlay.ip([format!("link set dev {} down", self.place.name())])
    }

    /// Puts the cable back in; the node can be reached again when this returns.
    pub fn plug(&self) -> Result<()> {
        self.underlay.ip([format!("link set dev {} up", self.place.name())])?;
        // Both ends get their carrier back at the kernel's pace; only a packet that came back proves it.
        let deadline = Instant::now() + PLUG_LIMIT;
        let address = self.place.address(Family::V4);
        let is_back = || matches!(ping(&self.underlay, address, PLUG_POLL), Ping::Answered { .. });
        while !is_back() {
            if Instant::now() >= deadline {
                return Err(Error::NotReady { place: self.place.name().into(), links: 1 });
            }
        }
        Ok(())
    }

    /// Gives the node and its pods their links, addresses and routes.
    pub(crate) fn furnish(&self) -> Result<()> {
        self.furnish_host()?;
        let pods: Vec<_> = self.pods().collect();
        at_once(&pods, |pod| self.furnish_pod(pod))
    }

    pub(crate) fn wait_for_links(&self) -> Result<()> {
        let bridges = usize::from(self.pod_network == PodNetwork::Bridged);
        self.place.wait_for_links(1 + self.pods().count() + bridges)?;
        self.pods().try_for_each(|pod| pod.wait_for_links(1))
    }

    fn furnish_host(&self) -> Result<()> {
        let mut batch = Batch::default();
        batch.add("link set lo up");
        self.add_uplink(&mut batch, "eth0");
        self.add_pod_network(&mut batch);
        self.place.carry_out(batch)
    }

    /// Gives the link to the outside, whatever its name is by now, the addresses and routes that the kernel took away when
    /// it went down. Waits until the kernel has raised the carrier: until then it has no way for IPv6 packets.
    pub fn furnish_uplink(&self, link: &str) -> Result<()> {
        let mut batch = Batch::default();
        self.add_uplink(&mut batch, link);
        self.place.carry_out(batch)?;
        self.plug()?;
        self.wait_for_links()
    }

    fn add_uplink(&self, batch: &mut Batch, link: &str) {
        batch.add(format!("link set dev {link} up"));
        let own = plan::node(self.number);
        batch.add(format!("addr replace {}/24 dev {link}", own.v4));
        batch.add(format!("addr replace {}/64 dev {link} nodad", own.v6));
        batch.add(format!("route replace 172.16.0.0/24 dev {link}"));
        batch.add(format!("route replace fd00:172::/64 dev {link}"));
        replace_routes(batch, &plan::ANYWHERE, plan::UNDERLAY);
        for other in (1..).take(NODES.len()).filter(|number| *number != self.number) {
            replace_routes(batch, &plan::pod_networks(other), plan::node(other));
        }
    }

    fn add_pod_network(&self, batch: &mut Batch) {
        if self.pod_network == PodNetwork::Bridged {
            batch.add(format!("link add {BRIDGE} type bridge forward_delay 0 mcast_snooping 0"));
            add_addresses(batch, plan::gateway(self.number), BRIDGE, [24, 64]);
            batch.add(format!("link set {BRIDGE} up"));
        }
        self.pods().for_each(|pod| self.attach(batch, pod));
    }

    /// The node's end of a pod's link.
    fn attach(&self, batch: &mut Batch, pod: &Place) {
        let link = pod_link(pod);
        batch.add(format!(
            "link add {link} type veth peer name eth0 netns {}",
            pod.namespace().path().display()
        ));
        match self.pod_network {
            // A pod that calls itself through a Service gets its packet back on the port it came from.
            PodNetwork::Bridged => {
                batch.add(format!("link set {link} master {BRIDGE} up"));
                batch.add(format!("link set {link} type bridge_slave hairpin on"));
            }
            PodNetwork::Routed => {
                batch.add(format!("link set {link} up"));
                add_addresses(batch, plan::gateway(self.number), &link, [32, 128]);
                pod.addresses().both().iter().for_each(|ip| batch.add(format!("route add {ip} dev {link}")));
            }
        }
    }

    fn furnish_pod(&self, pod: &Place) -> Result<()> {
        let gateway = plan::gateway(self.number);
        let mut batch = Batch::default();
        batch.add("link set lo up");
        batch.add("link set eth0 up");
        match self.pod_network {
            PodNetwork::Bridged => add_addresses(&mut batch, pod.addresses(), "eth0", [24, 64]),
            PodNetwork::Routed => {
                add_addresses(&mut batch, pod.addresses(), "eth0", [32, 128]);
                gateway.both().iter().for_each(|ip| batch.add(format!("route add {ip} dev eth0")));
            }
        }
        add_routes(&mut batch, &plan::ANYWHERE, gateway);
        pod.carry_out(batch)
    }
}

fn replace_routes<S: AsRef<str>>(batch: &mut Batch, networks: &[S; 2], gateway: plan::Pair) {
    for (network, gateway) in networks.iter().zip(gateway.both()) {
        batch.add(format!("route replace {} via {gateway}", network.as_ref()));
    }
}

/// The name of the node's end of a pod's link.
pub fn pod_link(pod: &Place) -> String {
    format!("veth{}", pod.name())
}
