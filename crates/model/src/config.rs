//! What the operator chose for this node: constant for the life of a process, but for what [`Rechoice`] names.

use std::net::IpAddr;

use crate::facts::{Service, ServiceType};
use crate::net::IpNet;

/// The choices that decide packets. Everything else an operator can set belongs to the program, not to the model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// The name of this node: endpoints with this `nodeName` are local.
    pub node_name: String,
    /// Addresses of this node, the first of each family being its primary one. Of a family without any: those of its Node object.
    pub node_ips: Vec<IpAddr>,
    /// How a packet of a pod of this cluster is told from others.
    pub detect_local: DetectLocal,
    /// Masquerade all traffic to cluster IPs.
    pub masquerade_all: bool,
    /// Where node ports answer. Empty: as the mode does by default ([`crate::Promises`]).
    pub node_port_addresses: Vec<NodePortAddress>,
    /// Serve Services whose label `service.kubernetes.io/service-proxy-name` is this one; `None`: those without the label.
    pub service_proxy_name: Option<String>,
    /// When not empty, external IPs and load balancer IPs outside these networks are refused.
    pub allowed_external_ips: Vec<IpNet>,
}

/// The choices that may change while a process lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rechoice {
    /// Masquerade all traffic to cluster IPs.
    pub masquerade_all: bool,
    /// Where node ports answer.
    pub node_port_addresses: Vec<NodePortAddress>,
}

impl Config {
    /// Is this Service ours to serve?
    pub fn serves(&self, service: &Service) -> bool {
        let proxy_name = service.external.as_ref().and_then(|external| external.proxy_name.as_deref());
        service.kind != ServiceType::ExternalName && proxy_name == self.service_proxy_name.as_deref()
    }

    /// Is this Service one that another proxy serves?
    pub fn leaves_to_others(&self, service: &Service) -> bool {
        service.kind != ServiceType::ExternalName && !self.serves(service)
    }

    /// May this address be an external or load balancer IP?
    pub fn allows_external_ip(&self, ip: IpAddr) -> bool {
        let allowed = &self.allowed_external_ips;
        allowed.is_empty() || allowed.iter().any(|net| net.contains(&ip))
    }
}

/// What makes a packet one of a pod (`detectLocalMode`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DetectLocal {
    /// Its source is in one of these networks. A family without a network has no detection.
    ClusterCidr(Vec<IpNet>),
    /// Its source is in one of this Node's `spec.podCIDRs`.
    NodeCidr,
    /// It came in through this bridge.
    BridgeInterface(String),
    /// It came in through an interface whose name begins so.
    InterfaceNamePrefix(String),
}

impl Default for DetectLocal {
    fn default() -> Self {
        Self::ClusterCidr(Vec::new())
    }
}

/// One entry of `nodePortAddresses`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NodePortAddress {
    /// Local addresses in this network.
    Within(IpNet),
    /// The node's primary address of each family.
    Primary,
    /// Loopback addresses.
    Localhost,
    /// Every local address.
    All,
}

impl NodePortAddress {
    /// Reads a network or one of the keywords `primary`, `localhost`, `all`.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "primary" => Some(Self::Primary),
            "localhost" => Some(Self::Localhost),
            "all" => Some(Self::All),
            _ => crate::net::parse_cidr(text).map(Self::Within),
        }
    }
}
