//! The reasons for a fate: each a sentence that names a field of an object.

use std::fmt;
use std::net::IpAddr;

use crate::frontend::{Frontend, FrontendKind};
use crate::name::{ServiceName, ServicePortId};
use crate::net::IpNet;
use crate::table::{Absence, How, Masquerade};

/// One reason.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the sentence that each variant prints is its documentation")]
pub enum Why {
    NoFrontend { address: IpAddr },
    Frontend { kind: FrontendKind, frontend: Frontend, port: ServicePortId },
    NodePortElsewhere { port: ServicePortId, address: IpAddr },
    LocalhostWithoutSctp { port: ServicePortId, address: IpAddr },
    Martian { source: IpAddr, address: IpAddr },
    SourceNotAllowed { source: IpAddr },
    ExternalPolicyLocal { is_pod: bool, is_this_host: bool, keeps_source: bool },
    NoEndpoints { service: ServiceName, absence: Option<Absence> },
    NoLocalEndpoints { is_internal: bool },
    Chosen { how: How, is_cluster_ip: bool },
    Masqueraded { rule: Masquerade, kind: FrontendKind },
    DeliveredHere { are_all: bool },
    NoDetector,
    Relayed,
    Weights { has_drained: bool },
    Hairpin { address: IpAddr },
    Affinity { seconds: u32 },
    UndefinedPort { service: ServiceName },
    UndefinedPortOfExternalIp { address: IpAddr },
    PingOfClusterIp { service: ServiceName },
    OtherProxy { service: ServiceName },
    SctpNotCarried,
    UnallocatedServiceIp { network: IpNet },
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::NoFrontend { address } => {
                write!(f, "{address} belongs to no Service and lies in no range of cluster IPs")
            }
            Why::Frontend { kind, frontend, port } => {
                write!(f, "{frontend} is {} of Service {}", kind.with_article(), port.service)?;
                if !port.port.is_empty() {
                    write!(f, ", port {}", port.port)?;
                }
                write!(f, " ({})", kind.field())
            }
            Why::NodePortElsewhere { port, address } => write!(
                f,
                "the port is a node port of Service {}, but node ports do not answer at {address} \
                 (nodePortAddresses, and the addresses of this node)",
                port.service
            ),
            Why::LocalhostWithoutSctp { port, address } => write!(
                f,
                "the port is a node port of Service {}, but of node ports at {address} only TCP and UDP are served",
                port.service
            ),
            Why::Martian { source, address } => write!(
                f,
                "{address} is a loopback address and {source} is not this host's: the kernel drops such packets (a martian destination)"
            ),
            Why::SourceNotAllowed { source } => {
                write!(f, "{source} is in none of spec.loadBalancerSourceRanges")
            }
            Why::ExternalPolicyLocal { is_pod: true, .. } => f.write_str(
                "spec.externalTrafficPolicy is Local, but the source is a pod of this cluster: it may use any endpoint",
            ),
            Why::ExternalPolicyLocal { is_this_host: true, .. } => f.write_str(
                "spec.externalTrafficPolicy is Local, but the source is this node itself: it may use any endpoint",
            ),
            Why::ExternalPolicyLocal { keeps_source: true, .. } => {
                f.write_str("spec.externalTrafficPolicy is Local: only endpoints on this node, and the source is kept")
            }
            Why::ExternalPolicyLocal { .. } => {
                f.write_str("spec.externalTrafficPolicy is Local: only endpoints on this node")
            }
            Why::NoEndpoints { service, absence } => {
                write!(f, "Service {service} has no endpoint for this port: {}", absent(*absence))
            }
            Why::NoLocalEndpoints { is_internal: true } => {
                f.write_str("spec.internalTrafficPolicy is Local, and no endpoint is on this node")
            }
            Why::NoLocalEndpoints { is_internal: false } => {
                f.write_str("no endpoint is on this node, and another node may have one")
            }
            Why::Chosen { how, is_cluster_ip } => f.write_str(chosen(*how, *is_cluster_ip)),
            Why::Masqueraded { rule, kind } => f.write_str(masqueraded(*rule, *kind)),
            Why::DeliveredHere { are_all: true } => f.write_str(
                "the source is kept: the endpoint has an address of this node, and what stays here is never masqueraded",
            ),
            Why::DeliveredHere { are_all: false } => f.write_str(
                "but endpoints with an address of this node see the source: what stays here is never masqueraded",
            ),
            Why::NoDetector => f.write_str(
                "the source is kept: nothing says which sources are pods (detectLocalMode, clusterCIDR), so none counts as outside",
            ),
            Why::Relayed => f.write_str(
                "the source is hidden, whatever the policy: this mode's proxy takes the connection and dials the endpoint itself",
            ),
            Why::Weights { has_drained } => {
                f.write_str("shares follow the annotation portway.io/weights, or portway.io/weight of the Pods")?;
                f.write_str(if *has_drained { "; endpoints of weight 0 get no new connection" } else { "" })
            }
            Why::Hairpin { address } => {
                write!(f, "{address} would be sent to itself: that one connection is masqueraded")
            }
            Why::Affinity { seconds } => write!(
                f,
                "spec.sessionAffinity is ClientIP: a client stays with its endpoint for {seconds} seconds after each connection"
            ),
            Why::UndefinedPort { service } => {
                write!(f, "it is the cluster IP of Service {service}, which has no such port (spec.ports)")
            }
            Why::UndefinedPortOfExternalIp { address } => {
                write!(f, "{address} is an external or load balancer IP, and no Service has this port there")
            }
            Why::PingOfClusterIp { service } => {
                write!(f, "it is the cluster IP of Service {service}: no host has this address, so none answers a ping")
            }
            Why::OtherProxy { service } => write!(
                f,
                "it is the cluster IP of Service {service}, which another proxy serves \
                 (label service.kubernetes.io/service-proxy-name)"
            ),
            Why::SctpNotCarried => {
                f.write_str("this mode cannot carry SCTP, so it leaves the address alone: use a mode that does")
            }
            Why::UnallocatedServiceIp { network } => {
                write!(f, "it lies in {network}, a range of cluster IPs (ServiceCIDR), but no Service has it")
            }
        }
    }
}

fn absent(absence: Option<Absence>) -> &'static str {
    match absence {
        Some(Absence::NoEndpoint) | None => "no EndpointSlice of it has an endpoint of this family",
        Some(Absence::NoSuchPort) => {
            "its EndpointSlices have endpoints, but no port of this name and protocol (targetPort, ports[].name)"
        }
        Some(Absence::Refused) => {
            "all its endpoints were refused, see the reports (EndpointSlice endpoints[].addresses)"
        }
        Some(Absence::NotReady) => {
            "none is ready, or still serves while it terminates (EndpointSlice conditions)"
        }
        Some(Absence::Drained) => "all have weight 0 (portway.io/weights, portway.io/weight)",
    }
}

fn chosen(how: How, is_cluster_ip: bool) -> &'static str {
    match (how, is_cluster_ip) {
        (How::Ready, _) => "every ready endpoint may be used (EndpointSlice conditions.ready)",
        (How::ForThisNode, _) => {
            "every ready endpoint has a hint for nodes: those for this one are used (hints.forNodes)"
        }
        (How::ForThisZone, _) => {
            "every ready endpoint has a hint for zones: those for this node's zone are used (hints.forZones)"
        }
        (How::Terminating, _) => {
            "no endpoint is ready: those that still serve while they terminate are used (conditions.serving)"
        }
        (How::LocalReady, true) => {
            "spec.internalTrafficPolicy is Local: the ready endpoints of this node are used"
        }
        (How::LocalReady, false) => "the ready endpoints of this node are used",
        (How::LocalTerminating, _) => {
            "no endpoint of this node is ready: those here that still serve while they terminate are used"
        }
    }
}

fn masqueraded(rule: Masquerade, kind: FrontendKind) -> &'static str {
    match (rule, kind) {
        (Masquerade::Everybody, FrontendKind::ClusterIp) => "masqueraded, because masqueradeAll is set",
        (Masquerade::Everybody, _) => {
            "masqueraded, because spec.externalTrafficPolicy is Cluster: the answer must come back through this node"
        }
        (Masquerade::ThisHost, _) => "masqueraded, because the source is this node itself",
        (Masquerade::AllButPods | Masquerade::Nobody, _) => {
            "masqueraded, because the source is no pod of this cluster (detectLocalMode)"
        }
    }
}
