//! What chains are called, and what comments say: the names that the first guides show.
//!
//! A comment names the service port as `namespace/name:port`, with the colon even where the port has no name. Behind it stands
//! ` local` where the rule leads to this node's endpoints alone, so that whoever reads a rule knows the listener.

use kernel::xtables::ChainName;
use model::ServicePortId;

use crate::relay::Purpose;
use crate::xtables::{hash, name};

pub(super) const PORTALS_CONTAINER: &str = "KUBE-PORTALS-CONTAINER";
pub(super) const PORTALS_HOST: &str = "KUBE-PORTALS-HOST";
pub(super) const NODE_PORT_CONTAINER: &str = "KUBE-NODEPORT-CONTAINER";
pub(super) const NODE_PORT_HOST: &str = "KUBE-NODEPORT-HOST";
pub(super) const NON_LOCAL: &str = "KUBE-NODEPORT-NON-LOCAL";

/// What the names of chains begin with that belong to one service port.
pub(super) const PREFIXES: [&str; 3] = ["KUBE-FROM-C-", "KUBE-FROM-H-", "KUBE-POLICY-"];

/// Does a chain of this name belong to a service port?
pub(super) fn is_of_a_service_port(chain: &str) -> bool {
    PREFIXES.iter().any(|prefix| chain.starts_with(prefix))
}

/// How comments call a service port.
pub(super) fn port_name(id: &ServicePortId) -> String {
    format!("{}:{}", id.service, id.port)
}

/// The comment of rules that lead to a listener.
pub(super) fn comment(port: &str, purpose: Purpose) -> String {
    match purpose {
        Purpose::Outside => format!("{port} local"),
        Purpose::Cluster | Purpose::Localhost => port.to_owned(),
    }
}

/// The names of one service port.
#[derive(Clone, Debug)]
pub(super) struct Names {
    /// How comments call it.
    pub(super) port: String,
    /// Who may come to load balancer IPs, of those who arrive.
    pub(super) from_container: ChainName,
    /// Who may come to load balancer IPs, of this host's own addresses.
    pub(super) from_host: ChainName,
    /// Pods may use any endpoint, others those of this node.
    pub(super) policy: ChainName,
}

impl Names {
    pub(super) fn of(id: &ServicePortId) -> Self {
        let port = port_name(id);
        let hash = hash(&format!("{port}{}", id.protocol.name()));
        Self {
            from_container: name(&format!("KUBE-FROM-C-{hash}")),
            from_host: name(&format!("KUBE-FROM-H-{hash}")),
            policy: name(&format!("KUBE-POLICY-{hash}")),
            port,
        }
    }
}
