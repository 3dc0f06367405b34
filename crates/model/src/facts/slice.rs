//! An EndpointSlice: some of the endpoints of one Service.

use std::net::IpAddr;
use std::sync::Arc;

use crate::name::{ServiceName, SliceName};
use crate::net::Protocol;
use crate::report::Report;

/// An EndpointSlice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointSlice {
    /// `metadata.namespace` and `metadata.name`.
    pub name: SliceName,
    /// The label `kubernetes.io/service-name`. A slice without one belongs to nobody and has no effect.
    pub service: Option<ServiceName>,
    /// The label `endpointslice.kubernetes.io/managed-by` names a controller that keeps the slice in step with Pods. What
    /// is absent from such a slice has no Pod; what is absent from another one was only taken out of it.
    pub follows_pods: bool,
    /// `ports`, without those that have no number.
    pub ports: Vec<SlicePort>,
    /// `endpoints`. None for a slice that is not ours to serve (FQDN, or labelled headless).
    pub endpoints: Vec<EndpointFact>,
    /// What was malformed.
    pub reports: Vec<Report>,
}

/// One of `ports`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SlicePort {
    /// Its name, which is that of the Service's port; empty when that has none.
    pub name: Arc<str>,
    /// Its protocol.
    pub protocol: Protocol,
    /// Where the pod listens.
    pub port: u16,
}

/// One of `endpoints`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointFact {
    /// The first of `addresses`: all are one pod's, and only one is used, as upstream does.
    pub address: IpAddr,
    /// `nodeName`.
    pub node: Option<Arc<str>>,
    /// `targetRef.name`, when that is a Pod.
    pub pod: Option<Box<str>>,
    /// `conditions.ready`; unknown counts as yes.
    pub ready: bool,
    /// `conditions.serving`; unknown counts as yes.
    pub serving: bool,
    /// `conditions.terminating`; unknown counts as no.
    pub terminating: bool,
    /// `hints`, where there are some.
    pub hints: Option<Box<Hints>>,
    /// The weight that the slice's own annotation, or the pod, gives it.
    pub weight: Option<u8>,
}

/// For whom an endpoint is meant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hints {
    /// `hints.forNodes[].name`.
    pub nodes: Vec<Box<str>>,
    /// `hints.forZones[].name`.
    pub zones: Vec<Box<str>>,
}
