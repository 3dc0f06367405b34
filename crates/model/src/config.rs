//! What the operator chose for this node: constant for the life of a process, but for what [`Rechoice`] names.

use std::net::IpAddr;

use crate::facts::{Node, Service, ServiceType};
use crate::frontend::FrontendKind;
use crate::name::ObjectRef;
use crate::net::{Family, IpNet};
use crate::report::Report;

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
    /// External IPs are not served at all. Load balancer IPs are.
    pub refuses_external_ips: bool,
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

    /// Why the operator does not want this external or load balancer IP to be served.
    pub(crate) fn refusal(&self, ip: IpAddr, kind: FrontendKind) -> Option<&'static str> {
        if kind == FrontendKind::ExternalIp && self.refuses_external_ips {
            return Some(
                "external IPs are not served here (feature gate AllowServiceExternalIPs); it is refused",
            );
        }
        let allowed = &self.allowed_external_ips;
        let is_allowed = allowed.is_empty() || allowed.iter().any(|net| net.contains(&ip));
        (!is_allowed).then_some("is outside the allowed external IPs; it is refused")
    }

    /// What is wrong with this node's object for the way in which pods are told from others: its networks are of one family, and it
    /// is at home in the other one.
    pub(crate) fn objection_to(&self, node: &Node) -> Option<Report> {
        let primary = self.node_ips.first().or(node.addresses.first()).map(|ip| Family::of(*ip))?;
        let is_asked = self.detect_local == DetectLocal::NodeCidr && *node.name == *self.node_name;
        let other = node.pod_cidrs.first().map(Family::of_net).filter(|family| *family != primary)?;
        let is_missing = node.pod_cidrs.iter().all(|net| Family::of_net(net) == other);
        let shown: Vec<String> = node.pod_cidrs.iter().map(ToString::to_string).collect();
        (is_asked && is_missing).then(|| {
            Report::new(
                ObjectRef { kind: "Node", name: (*node.name).into() },
                "spec.podCIDRs",
                &shown.join(","),
                format!(
                    "has only networks of {other}, and this node's address is of {primary}: no packet of {primary} counts as one of a \
                     pod (detectLocalMode: NodeCIDR)"
                ),
            )
        })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_whose_pod_networks_are_of_the_other_family_is_reported_where_pods_are_known_by_them() {
        let node = |cidrs: &[&str]| Node {
            name: "a".into(),
            zone: None,
            addresses: vec!["192.0.2.1".parse().expect("it is an address")],
            pod_cidrs: cidrs.iter().map(|cidr| cidr.parse().expect("it is a network")).collect(),
            is_leaving: false,
            reports: Vec::new(),
        };
        let by_node =
            Config { node_name: "a".into(), detect_local: DetectLocal::NodeCidr, ..Config::default() };
        let report = by_node.objection_to(&node(&["fd00:1::/64"])).expect("it is reported");
        assert!(
            report.to_string().contains("has only networks of IPv6, and this node's address is of IPv4"),
            "{report}"
        );
        for fine in [&["10.1.0.0/24"][..], &["fd00:1::/64", "10.1.0.0/24"], &[]] {
            assert_eq!(by_node.objection_to(&node(fine)), None, "{fine:?}");
        }
        let by_cluster = Config { node_name: "a".into(), ..Config::default() };
        assert_eq!(by_cluster.objection_to(&node(&["fd00:1::/64"])), None);
        let another = Config { node_name: "b".into(), ..by_node };
        assert_eq!(another.objection_to(&node(&["fd00:1::/64"])), None, "it is another node's affair");
    }
}
