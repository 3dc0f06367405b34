//! What a client dials: an address, or a port of the node.

use std::fmt;
use std::net::IpAddr;

use crate::net::{Family, Protocol, show_address_and_port};

/// An address that a client dials.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Frontend {
    /// One address.
    Address {
        /// Its IP.
        ip: IpAddr,
        /// Its protocol.
        protocol: Protocol,
        /// Its port.
        port: u16,
    },
    /// A port of every address of this node on which node ports answer.
    NodePort {
        /// The family of those addresses.
        family: Family,
        /// Its protocol.
        protocol: Protocol,
        /// Its port.
        port: u16,
    },
}

impl Frontend {
    /// Its family.
    pub fn family(&self) -> Family {
        match self {
            Frontend::Address { ip, .. } => Family::of(*ip),
            Frontend::NodePort { family, .. } => *family,
        }
    }

    /// Its protocol.
    pub fn protocol(&self) -> Protocol {
        match self {
            Frontend::Address { protocol, .. } | Frontend::NodePort { protocol, .. } => *protocol,
        }
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        match self {
            Frontend::Address { port, .. } | Frontend::NodePort { port, .. } => *port,
        }
    }
}

impl fmt::Display for Frontend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Frontend::Address { ip, protocol, port } => {
                write!(f, "{}/{protocol}", show_address_and_port(*ip, *port))
            }
            Frontend::NodePort { family: Family::V4, protocol, port } => write!(f, "*:{port}/{protocol}"),
            Frontend::NodePort { family: Family::V6, protocol, port } => write!(f, "[*]:{port}/{protocol}"),
        }
    }
}

/// What makes an address a frontend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FrontendKind {
    /// A cluster IP.
    ClusterIp,
    /// A load balancer's address.
    LoadBalancerIp,
    /// An external IP.
    ExternalIp,
    /// A port of the node.
    NodePort,
}

impl FrontendKind {
    /// The field of a Service that makes it so.
    pub fn field(self) -> &'static str {
        match self {
            Self::ClusterIp => "spec.clusterIPs",
            Self::LoadBalancerIp => "status.loadBalancer.ingress",
            Self::ExternalIp => "spec.externalIPs",
            Self::NodePort => "spec.ports[].nodePort",
        }
    }

    /// In words, with its article.
    pub fn with_article(self) -> &'static str {
        match self {
            Self::ClusterIp => "a cluster IP",
            Self::LoadBalancerIp => "a load balancer IP",
            Self::ExternalIp => "an external IP",
            Self::NodePort => "a node port",
        }
    }

    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Self::ClusterIp => "cluster IP",
            Self::LoadBalancerIp => "load balancer IP",
            Self::ExternalIp => "external IP",
            Self::NodePort => "node port",
        }
    }
}
