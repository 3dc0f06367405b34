//! iptables: the rules that every guide shows, for both iptables programs. README.md beside this file tells the packet's way.
//!
//! In: the forwarding table. Out: for each family upstream's chains in `filter` and `nat`, with upstream's names, comments and
//! order, as typed rules ([`Tables`]) and as the text that `iptables-restore --noflush` reads ([`Tables::restore_text`]).
//!
//! | file | what it is for |
//! |---|---|
//! | `names` | what chains are called |
//! | `render` | the rules: the fixed ones, and those of one service port by itself |
//! | `sync` | the mode itself; `chains` beside this folder keeps the kernel in step with its rules |
//! | `packets` | what two of the rules have counted, for upstream's metrics |
//! | `choose` | which of the two programs this node uses |
//!
//! Absent on purpose: `route_localnet`. Rules for it are written only when an option asks for them, with their guard.

pub(crate) mod leftovers;
mod localnet;
mod mode;
mod names;
mod packets;
mod render;
#[cfg(feature = "sim")]
pub mod sim;
mod sync;

pub use mode::MODE;
use model::{Family, ForwardingTable, NodePortAddress};
pub use names::{Names, PREFIXES, is_of_a_service_port};
pub use render::{Renderer, SHARED, TO_NODE_PORTS, TO_SERVICES};
pub use sync::Iptables;

use crate::checks::{BRIDGE_HAIRPIN, BRIDGE_NETFILTER, Check, FORWARD_FILTER, IP_FORWARD};
use crate::served::Served;
use crate::xtables;
pub use crate::xtables::{Base, Chain, Jump, PortRules, Shared, Tables};
use kernel::xtables::Variant;

/// What else must be so on this host: packets are translated, and then forwarded as any others.
pub const CHECKS: &[Check] = &[IP_FORWARD, FORWARD_FILTER, BRIDGE_NETFILTER, BRIDGE_HAIRPIN];

/// Are these rules of this mode, which writes with this program?
pub fn owns(served: Served, program: Option<Variant>) -> bool {
    matches!(served, Served::Chains(variant, _) if program.is_none_or(|program| program == variant))
}

/// Everything of one family as text, the jumps too: what a first sync writes into a kernel that has nothing of ours.
///
/// `iptables-restore --noflush` takes it for IPv4, `ip6tables-restore --noflush` for IPv6.
pub fn render(desired: &ForwardingTable, family: Family, options: &Options) -> String {
    xtables::render(options, desired, family)
}

/// What the operator chose for this mode.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The mark bit that says: hide the source of this connection.
    pub masquerade_mark: u32,
    /// Where node ports answer when nobody says so.
    pub default_node_port_addresses: NodePortAddress,
    /// Node ports answer on 127.0.0.0/8 too. Whoever sets this sets `route_localnet`, which opens the loopback addresses of
    /// this host to its neighbours (CVE-2020-8558); the rules then have the guard against it.
    pub localhost_node_ports: bool,
    /// Drop packets that the connection tracker finds invalid: unless it is told to be liberal, a stray one of them resets
    /// a masqueraded connection.
    pub drops_invalid: bool,
    /// Which rules say whose they are.
    pub comments: Comments,
    /// So many lines the nft-backed program is given at once, which takes the square of them. What changes together may be more.
    pub lines_at_once: usize,
}

/// Whether the rules of service ports' own chains say whose they are. All others do always.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comments {
    /// They do.
    Always,
    /// While there are at most so many endpoints: comments make large tables slow.
    UpTo(usize),
}

impl Default for Options {
    fn default() -> Self {
        Self {
            masquerade_mark: 0x4000,
            default_node_port_addresses: NodePortAddress::All,
            localhost_node_ports: false,
            drops_invalid: true,
            // Upstream's number.
            comments: Comments::UpTo(1000),
            lines_at_once: xtables::LINES_AT_ONCE,
        }
    }
}
