//! This node, as far as it decides packets: its addresses, and how it tells its pods from others.

use std::collections::BTreeSet;
use std::net::IpAddr;

use crate::cluster::Cluster;
use crate::config::{Config, DetectLocal, NodePortAddress};
use crate::net::{ByFamily, Family, IpNet};

/// This node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeView {
    /// Its name.
    pub name: String,
    /// Its zone.
    pub zone: Option<Box<str>>,
    /// Every address of this host, without loopback.
    pub addresses: BTreeSet<IpAddr>,
    /// The first address of each family.
    pub primary: ByFamily<Option<IpAddr>>,
    /// How a pod's packet is known.
    pub pods: PodDetector,
    /// Where node ports answer; empty: as the mode does by default.
    pub node_port_addresses: Vec<NodePortAddress>,
}

/// How a packet of one of this cluster's pods is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodDetector {
    /// By its source. A family without a network has no detection.
    Networks(ByFamily<Vec<IpNet>>),
    /// By the interface that it came in through.
    Interface(String),
    /// By the beginning of that interface's name.
    InterfacePrefix(String),
}

impl Default for PodDetector {
    fn default() -> Self {
        Self::Networks(ByFamily::default())
    }
}

impl PodDetector {
    /// Can pods of this family be told from others at all?
    pub fn works_for(&self, family: Family) -> bool {
        match self {
            Self::Networks(networks) => !networks.get(family).is_empty(),
            Self::Interface(_) | Self::InterfacePrefix(_) => true,
        }
    }

    /// Is this a pod's packet? `interface` is the one it came in through; a packet of this host has none.
    pub fn is_pod(&self, source: IpAddr, interface: Option<&str>) -> bool {
        match self {
            Self::Networks(networks) => {
                networks.get(Family::of(source)).iter().any(|net| net.contains(&source))
            }
            Self::Interface(name) => interface == Some(name),
            Self::InterfacePrefix(prefix) => interface.is_some_and(|name| name.starts_with(prefix.as_str())),
        }
    }

    fn of(config: &Config, pod_cidrs: &[IpNet]) -> Self {
        match &config.detect_local {
            DetectLocal::ClusterCidr(cidrs) => Self::Networks(by_family(cidrs)),
            DetectLocal::NodeCidr => Self::Networks(by_family(pod_cidrs)),
            DetectLocal::BridgeInterface(name) => Self::Interface(name.clone()),
            DetectLocal::InterfaceNamePrefix(prefix) => Self::InterfacePrefix(prefix.clone()),
        }
    }
}

impl NodeView {
    pub(super) fn of(cluster: &Cluster) -> Self {
        let (config, node) = (cluster.config(), cluster.node());
        let is_said = |ip: &IpAddr| config.node_ips.iter().any(|said| Family::of(*said) == Family::of(*ip));
        let of_object = node.map_or(&[][..], |n| &n.addresses).iter().copied().filter(|ip| !is_said(ip));
        let told: Vec<IpAddr> = config.node_ips.iter().copied().chain(of_object).collect();
        let first = |family| told.iter().copied().find(|ip| Family::of(*ip) == family && !ip.is_loopback());
        let local = cluster.local_addresses().into_iter().flatten().copied();
        Self {
            name: config.node_name.clone(),
            zone: node.and_then(|n| n.zone.clone()),
            addresses: local.chain(told.iter().copied()).filter(|ip| !ip.is_loopback()).collect(),
            primary: ByFamily { v4: first(Family::V4), v6: first(Family::V6) },
            pods: PodDetector::of(config, node.map_or(&[], |n| &n.pod_cidrs)),
            node_port_addresses: config.node_port_addresses.clone(),
        }
    }

    /// Is this address one of this host?
    pub fn is_own(&self, address: IpAddr) -> bool {
        address.is_loopback() || self.addresses.contains(&address)
    }

    /// Where node ports of a family answer: what was configured, or `default` where that has no entry for the family.
    pub fn node_port_addresses(&self, family: Family, default: NodePortAddress) -> Vec<NodePortAddress> {
        let concerns = |entry: &NodePortAddress| match entry {
            NodePortAddress::Within(net) => Family::of_net(net) == family,
            NodePortAddress::Primary | NodePortAddress::Localhost | NodePortAddress::All => true,
        };
        let chosen: Vec<_> = self.node_port_addresses.iter().filter(|e| concerns(e)).copied().collect();
        if chosen.is_empty() { vec![default] } else { chosen }
    }

    /// Does one of these entries cover `address`, which is one of this host?
    pub fn covers(&self, entries: &[NodePortAddress], address: IpAddr) -> bool {
        entries.iter().any(|entry| match entry {
            NodePortAddress::Within(net) => net.contains(&address),
            NodePortAddress::Primary => *self.primary.get(Family::of(address)) == Some(address),
            NodePortAddress::Localhost => address.is_loopback(),
            NodePortAddress::All => true,
        })
    }
}

fn by_family(nets: &[IpNet]) -> ByFamily<Vec<IpNet>> {
    let of = |family| nets.iter().filter(|net| Family::of_net(net) == family).copied().collect();
    ByFamily { v4: of(Family::V4), v6: of(Family::V6) }
}
