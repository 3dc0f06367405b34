//! What the client tells.

use std::time::Duration;

use jiff::Timestamp;
use model::{Event, Family, Report};

/// What is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Watched {
    /// Services.
    Services,
    /// EndpointSlices.
    EndpointSlices,
    /// The Node that carries our name.
    Node,
    /// ServiceCIDRs.
    ServiceCidrs,
}

impl Watched {
    /// All of them.
    pub const ALL: [Watched; 4] =
        [Watched::Services, Watched::EndpointSlices, Watched::Node, Watched::ServiceCidrs];

    /// As it is written in `kind:`.
    pub fn kind(self) -> &'static str {
        match self {
            Watched::Services => "Service",
            Watched::EndpointSlices => "EndpointSlice",
            Watched::Node => "Node",
            Watched::ServiceCidrs => "ServiceCIDR",
        }
    }

    /// As it is written in paths and in RBAC.
    pub fn plural(self) -> &'static str {
        match self {
            Watched::Services => "services",
            Watched::EndpointSlices => "endpointslices",
            Watched::Node => "nodes",
            Watched::ServiceCidrs => "servicecidrs",
        }
    }

    /// The API group; empty for the oldest kinds.
    pub fn group(self) -> &'static str {
        match self {
            Watched::Services | Watched::Node => "",
            Watched::EndpointSlices => "discovery.k8s.io",
            Watched::ServiceCidrs => "networking.k8s.io",
        }
    }
}

/// When something that concerns a family happened in the cluster.
pub type Trigger = (Family, Timestamp);

/// Something that the client learnt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// Objects changed.
    Changed {
        /// Of this kind.
        of: Watched,
        /// What changed, in order.
        events: Vec<Event>,
        /// When some of it happened in the cluster, where slices say so.
        triggers: Vec<Trigger>,
    },
    /// All objects of a kind were told. Those of an earlier list that are gone were told as gone.
    Complete {
        /// Which kind.
        of: Watched,
        /// Objects of which nothing can be used.
        unreadable: Vec<Report>,
    },
    /// An object of a kind that is complete came, of which nothing can be used. What it was before stays.
    Unreadable {
        /// Which kind.
        of: Watched,
        /// What is wrong with it.
        report: Report,
    },
    /// The server does not have this kind.
    Absent(Watched),
    /// The server answers again. Whether what was told of this kind is still what it knows, it has not said yet.
    Answered(Watched),
    /// What was told of this kind is what the server knows.
    Heard(Watched),
    /// Something does not work. It is tried again by itself; what was told stays true as far as we know.
    Trouble(Trouble),
}

/// Something does not work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// With this kind.
    pub of: Watched,
    /// What, and the way out, as a sentence.
    pub reason: String,
    /// When it is tried again.
    pub retry_in: Duration,
    /// The server has understood us, and does not let us: waiting alone does not help.
    pub is_refusal: bool,
}
