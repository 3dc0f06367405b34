//! The names and numbers of the layout: tables, sets, marks, and the bits of `meta priority`.
//!
//! A new set is added to the table that a previous version left. Any other change of what a kernel holds means another [`LAYOUT`]: a table
//! with another number is replaced whole.

use kernel::nft::{Comment, Field, Flags, Set};

/// The table's name, in both families. Upstream's is the same, so that taking over from it is one transaction.
pub(crate) const TABLE: &str = "kube-proxy";
/// The name of a second table of ours, while the first takes the place of somebody else's.
pub(super) const BESIDE: &str = "kube-proxy-beside";
/// A chain that upstream's kube-proxy always has in its table, and that we never have.
pub(super) const UPSTREAMS_CHAIN: &str = "services";
/// How our table is known, also by a later version.
pub(super) const MARK_OF_OURS: &str = "portway layout ";
/// The number of this layout.
pub(super) const LAYOUT: u32 = 1;

/// The comment of our table.
pub(super) fn table_comment() -> Comment {
    Comment::new(&format!("{MARK_OF_OURS}{LAYOUT}"))
}

/// Slots from here on are those of the endpoints of this node, for traffic that must stay here.
pub(super) const LOCAL_SLOTS: u32 = 1_000_000;
/// How many clients are remembered in one family.
const AFFINITY_SIZE: u32 = 262_144;

/// Set in every number that we put into `meta priority`, so that postrouting can take it off again.
pub(super) const PRIORITY_FLAG: u32 = 0x8000_0000;

/// The bits of a sticky number: which service port, which of its endpoints, and whether it must be one of this node.
pub(super) mod sticky {
    /// Set in every sticky number, beside the general flag.
    pub(in super::super) const FLAGS: u32 = 0xc000_0000;
    /// The endpoint must be one of this node.
    pub(in super::super) const LOCAL: u32 = 0x2000_0000;
    /// How far the service port's number is shifted.
    pub(in super::super) const SERVICE_SHIFT: u32 = 14;
    /// How many service ports can be sticky.
    pub(in super::super) const SERVICES: u32 = 1 << 15;
    /// How many endpoints each can have, and one number for none.
    pub(in super::super) const ENDPOINTS: u32 = 1 << 14;
    /// Keeps the service port and drops the endpoint.
    pub(in super::super) const SERVICE_MASK: u32 = FLAGS | ((SERVICES - 1) << SERVICE_SHIFT);
}

/// A set or map of the layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SetId {
    /// Cluster IPs: their undefined ports are refused.
    ClusterAddresses,
    /// Cluster IPs of Services that another proxy serves.
    LeftAlone,
    /// Ranges of cluster IPs: what is unallocated there is dropped.
    ServiceNetworks,
    /// Addresses on which node ports answer.
    NodeAddresses,
    /// Endpoints that may be on this node, paired with themselves.
    Hairpins,
    /// Endpoints of TCP services, as sources of replies.
    ReplySources,
    /// Load balancer frontends that not everybody may reach.
    Guarded,
    /// Who may.
    AllowedSources,
    /// Frontend and slot → endpoint.
    Endpoints,
    /// Node port and slot → endpoint.
    NodePortEndpoints,
    /// Who was sent where.
    Affinity,
    /// Frontend → sticky number.
    StickyFrontends,
    /// Node port → sticky number.
    StickyNodePorts,
    /// Sticky number and slot → sticky number with endpoint.
    StickySlots,
    /// Sticky number with endpoint → endpoint.
    StickyEndpoints,
    /// Class → what to do.
    Classes,
    /// The same for node ports.
    NodePortClasses,
    /// Frontend → class, for sources that are neither pods nor this host.
    OutsideFrontends,
    /// The same for node ports.
    OutsideNodePorts,
    /// Frontend → class.
    Frontends,
    /// Node port → class.
    NodePorts,
}

impl SetId {
    /// All of them, each after those that its meaning rests upon: additions in this order never show a frontend before its
    /// endpoints.
    pub(super) const ALL: [SetId; 21] = [
        SetId::ClusterAddresses,
        SetId::LeftAlone,
        SetId::ServiceNetworks,
        SetId::NodeAddresses,
        SetId::Hairpins,
        SetId::ReplySources,
        SetId::Guarded,
        SetId::AllowedSources,
        SetId::Endpoints,
        SetId::NodePortEndpoints,
        SetId::Affinity,
        SetId::StickyFrontends,
        SetId::StickyNodePorts,
        SetId::StickySlots,
        SetId::StickyEndpoints,
        SetId::Classes,
        SetId::NodePortClasses,
        SetId::OutsideFrontends,
        SetId::OutsideNodePorts,
        SetId::Frontends,
        SetId::NodePorts,
    ];

    /// Its name in the kernel. None of them is a name that upstream uses in its table.
    pub(super) fn name(self) -> &'static str {
        match self {
            SetId::ClusterAddresses => "cluster-addresses",
            SetId::LeftAlone => "left-alone",
            SetId::ServiceNetworks => "service-networks",
            SetId::NodeAddresses => "node-addresses",
            SetId::Hairpins => "hairpins",
            SetId::ReplySources => "reply-sources",
            SetId::Guarded => "guarded",
            SetId::AllowedSources => "allowed-sources",
            SetId::Endpoints => "endpoints",
            SetId::NodePortEndpoints => "node-port-endpoints",
            SetId::Affinity => "affinity",
            SetId::StickyFrontends => "sticky-frontends",
            SetId::StickyNodePorts => "sticky-node-ports",
            SetId::StickySlots => "sticky-slots",
            SetId::StickyEndpoints => "sticky-endpoints",
            SetId::Classes => "classes",
            SetId::NodePortClasses => "node-port-classes",
            SetId::OutsideFrontends => "outside-frontends",
            SetId::OutsideNodePorts => "outside-node-ports",
            SetId::Frontends => "frontends",
            SetId::NodePorts => "node-ports",
        }
    }

    /// The set itself.
    pub(super) fn definition(self) -> Set {
        use Field::{Destination, Port, Priority, Protocol, Slot, Source};
        let name = self.name();
        let frontend = [Destination, Protocol, Port];
        let interval = Flags { interval: true, ..Flags::default() };
        match self {
            SetId::ClusterAddresses | SetId::LeftAlone | SetId::NodeAddresses => {
                Set::new(name, &[Destination])
            }
            SetId::ServiceNetworks => Set { flags: interval, ..Set::new(name, &[Destination]) },
            SetId::Hairpins => Set::new(name, &[Source, Destination]),
            SetId::ReplySources => Set::new(name, &[Source, Port]),
            SetId::Guarded => Set::new(name, &frontend),
            SetId::AllowedSources => {
                Set { flags: interval, ..Set::new(name, &[Destination, Protocol, Port, Source]) }
            }
            SetId::Endpoints => Set::map(name, &[Destination, Protocol, Port, Slot], &[Destination, Port]),
            SetId::NodePortEndpoints => Set::map(name, &[Protocol, Port, Slot], &[Destination, Port]),
            SetId::Affinity => Set {
                flags: Flags { dynamic: true, timeout: true, interval: false },
                size: Some(AFFINITY_SIZE),
                ..Set::map(name, &[Source, Priority], &[Priority])
            },
            SetId::StickySlots => Set::map(name, &[Priority, Slot], &[Priority]),
            SetId::StickyEndpoints => Set::map(name, &[Protocol, Priority], &[Destination, Port]),
            SetId::Classes | SetId::NodePortClasses => Set::verdict_map(name, &[Priority]),
            SetId::Frontends | SetId::OutsideFrontends | SetId::StickyFrontends => {
                Set::map(name, &frontend, &[Priority])
            }
            SetId::NodePorts | SetId::OutsideNodePorts | SetId::StickyNodePorts => {
                Set::map(name, &[Protocol, Port], &[Priority])
            }
        }
    }

    /// Does a packet ask it first, before anything that was led to by something else? What goes from such a set can go at
    /// once: a packet that has found it there is past it.
    pub(super) fn is_entry(self) -> bool {
        match self {
            SetId::ClusterAddresses
            | SetId::LeftAlone
            | SetId::ServiceNetworks
            | SetId::NodeAddresses
            | SetId::ReplySources
            | SetId::Guarded
            | SetId::OutsideFrontends
            | SetId::OutsideNodePorts
            | SetId::Frontends
            | SetId::NodePorts => true,
            SetId::Hairpins
            | SetId::AllowedSources
            | SetId::Endpoints
            | SetId::NodePortEndpoints
            | SetId::Affinity
            | SetId::StickyFrontends
            | SetId::StickyNodePorts
            | SetId::StickySlots
            | SetId::StickyEndpoints
            | SetId::Classes
            | SetId::NodePortClasses => false,
        }
    }

    /// Is it about this node, rather than about Services? What is known of the node is all that there is.
    pub(super) fn is_of_the_node(self) -> bool {
        matches!(self, SetId::NodeAddresses | SetId::ServiceNetworks)
    }

    /// Do packets fill it, rather than we?
    pub(super) fn is_filled_by_packets(self) -> bool {
        self == SetId::Affinity
    }
}
