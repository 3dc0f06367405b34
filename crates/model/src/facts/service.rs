//! A Service, as far as it can decide a packet.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use crate::name::ServiceName;
use crate::net::{ByFamily, IpNet, Protocol};
use crate::report::Report;
use crate::time::Timestamp;

/// A Service. Selector, labels and the like are not here: they decide endpoints, not packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// `metadata.namespace` and `metadata.name`.
    pub name: ServiceName,
    /// `metadata.creationTimestamp`: of two Services that claim one frontend, the older keeps it.
    pub created: Option<Timestamp>,
    /// `spec.type`.
    pub kind: ServiceType,
    /// `spec.clusterIPs`; empty in both families for a headless Service.
    pub cluster_ips: ByFamily<Option<IpAddr>>,
    /// `spec.ports`.
    pub ports: Box<[PortSpec]>,
    /// `spec.internalTrafficPolicy`.
    pub internal_policy: Policy,
    /// `spec.externalTrafficPolicy`.
    pub external_policy: Policy,
    /// `spec.sessionAffinity` is `ClientIP`: for so many seconds.
    pub affinity_seconds: Option<u32>,
    /// What few Services have.
    pub external: Option<Box<External>>,
    /// What was malformed.
    pub reports: Box<[Report]>,
}

impl Service {
    /// Its annotations that a mode may read.
    pub fn annotations(&self) -> Annotations {
        self.external.as_ref().map(|external| external.annotations.clone()).unwrap_or_default()
    }
}

/// The parts of a Service that most have none of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct External {
    /// The label `service.kubernetes.io/service-proxy-name`.
    pub proxy_name: Option<Box<str>>,
    /// `spec.externalIPs`.
    pub external_ips: Vec<IpAddr>,
    /// `status.loadBalancer.ingress`, for a Service of type `LoadBalancer`.
    pub load_balancer_ips: Vec<LoadBalancerIp>,
    /// `spec.loadBalancerSourceRanges`.
    pub source_ranges: Vec<IpNet>,
    /// `spec.loadBalancerSourceRanges` has entries that could not be read: then an empty list does not mean "everybody".
    pub source_ranges_incomplete: bool,
    /// `spec.healthCheckNodePort`, for type `LoadBalancer` with `externalTrafficPolicy: Local`.
    pub health_check_node_port: Option<u16>,
    /// The annotation `portway.io/weights`.
    pub weights: Vec<Weight>,
    /// Those that a mode may read.
    pub annotations: Annotations,
}

/// Annotations of Portway that decide nothing here, as they stand: modes know which there are. Most Services have none; then
/// nothing is allocated. Copies share one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Annotations(Option<Arc<BTreeMap<Box<str>, Box<str>>>>);

impl Annotations {
    /// What the annotation of this name says.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.as_ref()?.get(name).map(|value| &**value)
    }

    /// All of them, in order: names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().flat_map(|all| all.iter()).map(|(name, value)| (&**name, &**value))
    }
}

impl<'a> FromIterator<(&'a str, &'a str)> for Annotations {
    fn from_iter<I: IntoIterator<Item = (&'a str, &'a str)>>(all: I) -> Self {
        let all: BTreeMap<_, _> = all.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        Self((!all.is_empty()).then(|| Arc::new(all)))
    }
}

/// `spec.type`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum ServiceType {
    /// Reachable inside the cluster.
    #[default]
    ClusterIp,
    /// And on a port of each node.
    NodePort,
    /// And on the addresses of a load balancer.
    LoadBalancer,
    /// A name elsewhere: not proxied.
    ExternalName,
}

/// A traffic policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Policy {
    /// Any endpoint of the cluster.
    #[default]
    Cluster,
    /// Endpoints of this node alone.
    Local,
}

/// One of `spec.ports`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortSpec {
    /// Its name; empty when it has none.
    pub name: Arc<str>,
    /// Its protocol.
    pub protocol: Protocol,
    /// The port of the cluster IP.
    pub port: u16,
    /// The port of each node, if one is allocated.
    pub node_port: Option<u16>,
}

/// One of `status.loadBalancer.ingress`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadBalancerIp {
    /// Its address.
    pub ip: IpAddr,
    /// Who delivers traffic to it.
    pub mode: IpMode,
}

/// `status.loadBalancer.ingress[].ipMode`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IpMode {
    /// Packets arrive at the node with this destination: it is a frontend.
    #[default]
    Vip,
    /// A proxy delivers to node ports: the address is not ours.
    Proxy,
}

/// One entry of the annotation `portway.io/weights`: `db-0=3`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Weight {
    /// A pod's name, or an address.
    pub whom: Box<str>,
    /// 0 to 100; 0 drains.
    pub weight: u8,
}
