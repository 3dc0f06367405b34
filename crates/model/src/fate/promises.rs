//! The closed list of points in which modes may differ. Nothing else may.
//!
//! Each mode states its promises; each switch has a row in `docs/parity.md`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::Fate;
use crate::config::NodePortAddress;
use crate::net::Protocol;

/// What a mode promises where Kubernetes leaves the choice. The default is what the flagship does.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a promise of its own, and a row of docs/parity.md"
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promises {
    /// A cluster IP is dialled on a port that its Service does not have.
    pub undefined_port_of_cluster_ip: Refusal,
    /// An external IP or load balancer IP that is no address of this host is dialled on a port that no Service has there.
    pub undefined_port_of_external_ip: Refusal,
    /// An address is dialled that lies in a range of cluster IPs, but is none.
    pub unallocated_service_ip: Refusal,
    /// A cluster IP is pinged.
    pub ping_of_cluster_ip: Refusal,
    /// Where node ports answer when `nodePortAddresses` does not say.
    pub default_node_port_addresses: NodePortAddress,
    /// Whether node ports can answer on loopback addresses, where `nodePortAddresses` covers them.
    pub loopback_node_ports: Loopback,
    /// Whether node ports can answer on link-local addresses of IPv6, which every link has of its own.
    pub link_local_node_ports: bool,
    /// An endpoint of another node that is sent to itself through this node is masqueraded too.
    pub hairpin_of_other_nodes: bool,
    /// Endpoints see the client's own address, unless the policy hides it. A proxy that dials endpoints itself cannot promise that.
    pub keeps_source: bool,
    /// For what a client's endpoint is remembered, where a Service has session affinity.
    pub affinity: Remembered,
    /// SCTP is carried. If not, its frontends are left as they are without us.
    pub carries_sctp: bool,
}

impl Default for Promises {
    fn default() -> Self {
        Self {
            undefined_port_of_cluster_ip: Refusal::Reject,
            undefined_port_of_external_ip: Refusal::Untouched,
            unallocated_service_ip: Refusal::Drop,
            ping_of_cluster_ip: Refusal::Reject,
            default_node_port_addresses: NodePortAddress::Primary,
            loopback_node_ports: Loopback::Localhost,
            link_local_node_ports: true,
            hairpin_of_other_nodes: false,
            keeps_source: true,
            affinity: Remembered::ForServicePort,
            carries_sctp: true,
        }
    }
}

impl Promises {
    /// What the rules of the mode do by themselves: nothing listens on loopback addresses.
    #[must_use]
    pub fn of_rules(self) -> Self {
        let loopback_node_ports = match self.loopback_node_ports {
            Loopback::Never | Loopback::Localhost => Loopback::Never,
            Loopback::Ipv4 | Loopback::Both => Loopback::Ipv4,
        };
        Self { loopback_node_ports, ..self }
    }
}

/// What happens to a packet that no Service wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It is refused at once.
    Reject,
    /// It vanishes.
    Drop,
    /// It goes wherever it would go without us.
    Untouched,
}

impl Refusal {
    /// The fate that it means.
    pub fn fate(self) -> Fate {
        match self {
            Refusal::Reject => Fate::Rejected,
            Refusal::Drop => Fate::Dropped,
            Refusal::Untouched => Fate::Untouched,
        }
    }
}

/// For what a client's endpoint is remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remembered {
    /// A service port: the client keeps it whichever frontend it dials.
    ForServicePort,
    /// One frontend. Of what comes from outside to `externalTrafficPolicy: Local` nothing is remembered: a hash of the client's
    /// address chooses.
    ForFrontend,
}

/// The loopback addresses on which node ports can answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loopback {
    /// None.
    Never,
    /// 127.0.0.0/8, by rules.
    Ipv4,
    /// 127.0.0.1 and `::1`, by listening there.
    Localhost,
    /// 127.0.0.0/8 by rules, and `::1` by listening there.
    Both,
}

impl Loopback {
    /// Do node ports of this protocol answer at this loopback address? What listens there carries TCP and UDP alone.
    pub fn serves(self, protocol: Protocol, address: IpAddr) -> bool {
        let listens = protocol != Protocol::Sctp && LOCALHOST.contains(&address);
        match self {
            Loopback::Never => false,
            Loopback::Ipv4 => address.is_ipv4(),
            Loopback::Localhost => listens,
            Loopback::Both => address.is_ipv4() || listens,
        }
    }
}

const LOCALHOST: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
