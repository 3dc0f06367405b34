//! This Node, and the ranges that cluster IPs come from.

use std::net::IpAddr;

use crate::net::IpNet;
use crate::report::Report;

/// A Node. Only the one that carries our name decides anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// `metadata.name`.
    pub name: Box<str>,
    /// The label `topology.kubernetes.io/zone`.
    pub zone: Option<Box<str>>,
    /// `status.addresses`: the internal ones, then the external ones.
    pub addresses: Vec<IpAddr>,
    /// `spec.podCIDRs`.
    pub pod_cidrs: Vec<IpNet>,
    /// It is being deleted, or the cluster autoscaler is about to: load balancers should send nobody here any more. It decides
    /// no packet.
    pub is_leaving: bool,
    /// What was malformed.
    pub reports: Vec<Report>,
}

/// A ServiceCIDR.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceCidr {
    /// `metadata.name`.
    pub name: Box<str>,
    /// `spec.cidrs`.
    pub cidrs: Vec<IpNet>,
    /// What was malformed.
    pub reports: Vec<Report>,
}
