//! Chains of iptables, kept in step with a forwarding table: what modes of rules share.
//!
//! In: a `Style`, which says what a mode writes for a table; what changed; and the doors of one program. Out: the least restore
//! text that brings the kernel there, in an order in which no packet meets half a service.
//!
//! | file | what it is for |
//! |---|---|
//! | `words` | the words: chain, shared chain, jump, rules of a service port |
//! | `names` | the names that modes share |
//! | `choose` | which of the two programs this node uses |
//! | `families` | both families: the machinery as a whole |
//! | `family` | one family: what was written, what must change |
//! | `written`, `script` | what changed, as restore text |
//! | `steps` | many changes, in pieces |
//! | `observed` | what the kernel holds, compared |
//! | `glance` | a cheap look for a flush |
//! | `text` | all rules as text |
//! | `pods`, `node_ports`, `port` | parts of rules: who is a pod, where node ports answer, whose a rule is |
//! | `refusals` | the rules of `filter` that refuse what must not pass |
//!
//! Absent on purpose: any rule that leads a packet somewhere. That is what a mode is.

mod choose;
mod families;
mod family;
mod glance;
mod names;
mod node_ports;
mod observed;
mod pods;
mod port;
mod refusals;
mod script;
#[cfg(feature = "sim")]
pub mod sim;
mod steps;
mod tally;
mod text;
mod words;
mod written;

use crate::quarantine::Quarantine;
pub use choose::choose;
pub(crate) use families::Families;
use kernel::xtables::{Rule, Table};
use model::fate::{Loopback, Refusal, Remembered};
use model::{Family, ForwardingTable, NodePortAddress, Promises, ServicePort};
pub(crate) use names::{CANARY, NODE_PORTS, SERVICES, hash, name};
pub(crate) use node_ports::{NodePorts, loopback};
pub(crate) use observed::frontend;
pub(crate) use pods::Pods;
pub(crate) use port::{comment_of, frontend_parts, is_local, pools, routes_of};
pub(crate) use refusals::{Refusals, filter_jumps, refusal, sources, states};
pub(crate) use text::render;
pub use words::{Base, Chain, Jump, Order, Place, PortRules, Shared, Tables};

/// The nft-backed program takes the square of the lines of one text; up to so many it does not matter.
pub(crate) const LINES_AT_ONCE: usize = 15_000;

/// The same program reads the whole chain for each rule that it deletes; up to so many that is cheaper than to write all of it anew.
const DELETED_ONE_BY_ONE: usize = 100;

/// What modes of chains do where Kubernetes leaves the choice.
pub(crate) const SEMANTICS: Promises = Promises {
    undefined_port_of_cluster_ip: Refusal::Untouched,
    undefined_port_of_external_ip: Refusal::Untouched,
    unallocated_service_ip: Refusal::Untouched,
    ping_of_cluster_ip: Refusal::Untouched,
    default_node_port_addresses: NodePortAddress::All,
    loopback_node_ports: Loopback::Localhost,
    link_local_node_ports: true,
    hairpin_of_other_nodes: true,
    keeps_source: true,
    affinity: Remembered::ForServicePort,
    carries_sctp: true,
};

/// What a mode writes.
pub(crate) trait Style {
    /// What renders its rules of one table and family.
    type Renderer<'a>: Renderer
    where
        Self: 'a;

    /// Chains in which every service port may have rules, in the order in which they are written.
    const SHARED: &'static [Shared];
    /// The one of these that leads on from addresses; [`Base::last`] stands behind its rules.
    const ADDRESSES: Shared;
    /// The one of these that leads on from node ports.
    const NODE_PORTS: Shared;
    /// A table without a jump to this chain was flushed.
    const LANDMARKS: &'static [(Table, &'static str)];

    /// So many lines the nft-backed program is given at once.
    fn lines_at_once(&self) -> usize {
        LINES_AT_ONCE
    }

    /// Renders.
    fn renderer<'a>(&'a self, table: &'a ForwardingTable, family: Family) -> Self::Renderer<'a>;

    /// Does a chain of `nat` with this name belong to a service port, of this life or an earlier one?
    fn is_of_a_service_port(chain: &str) -> bool;

    /// Does a rule, perhaps of an earlier life, lead to a service port? Such a rule may stay until all is known.
    fn leads(&self, rule: &Rule) -> bool;
}

/// The rules of one table and family.
pub(crate) trait Renderer {
    /// What belongs to no service port.
    fn base(&self) -> Base;

    /// One service port, by itself: it follows from itself, its Service's health check, the node, and
    /// [`Renderer::has_comments`].
    fn of_port(&self, port: &ServicePort) -> PortRules;

    /// Whether rules of service ports' own chains have comments. When this turns, all of them are different.
    fn has_comments(&self) -> bool {
        true
    }

    /// Service ports that were refused elsewhere than by the iptables program, where that can be.
    fn quarantine(&self) -> Option<&Quarantine> {
        None
    }
}
