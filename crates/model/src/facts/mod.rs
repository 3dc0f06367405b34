//! Facts: what Kubernetes objects say, reduced to what can decide a packet.
//!
//! They are plain values, read from JSON by [`crate::object`] or made by a source that knows them otherwise. A fact is
//! already clean: what was malformed is gone from it and stands in its `reports`.

mod node;
mod service;
mod slice;

use crate::report::Report;

pub use node::{Node, ServiceCidr};
pub use service::{
    Annotations, External, IpMode, LoadBalancerIp, Policy, PortSpec, Service, ServiceType, Weight,
};
pub use slice::{EndpointFact, EndpointSlice, Hints, SlicePort};

/// Any fact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact {
    /// A Service.
    Service(Service),
    /// An EndpointSlice.
    EndpointSlice(EndpointSlice),
    /// A Node.
    Node(Node),
    /// A ServiceCIDR.
    ServiceCidr(ServiceCidr),
}

impl Fact {
    /// What was malformed in the object.
    pub fn reports(&self) -> &[Report] {
        match self {
            Fact::Service(service) => &service.reports,
            Fact::EndpointSlice(slice) => &slice.reports,
            Fact::Node(node) => &node.reports,
            Fact::ServiceCidr(cidr) => &cidr.reports,
        }
    }
}
