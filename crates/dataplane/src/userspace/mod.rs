//! userspace: the original proxy. Rules lead every frontend to a port of ours, and the relay carries what comes there.
//!
//! In: the forwarding table. Out: listeners of the relay, one for each service port, family and distinct pool; and for each family
//! the chains that the first guides show, which lead to them. README.md beside this file tells the packet's way.
//!
//! | file | what it is for |
//! |---|---|
//! | `names` | what chains and listeners are called |
//! | `ports` | which listeners a service port needs, and which port each has |
//! | `render` | the rules: the fixed ones, and those of one service port by itself |
//! | `sync` | the mode itself: listeners first, then rules, then what nothing leads to goes |
//! | `listening` | opening, and closing |
//! | `earlier` | ports of an earlier life, as the kernel's rules tell them |
//! | `held` | node ports, held so that no other program takes them |
//! | `stale` | flows of UDP that lead to no port of ours any more |
//!
//! Absent on purpose: how a connection is spread and carried, which is the relay's; and masquerading, for the relay dials anew.

mod earlier;
mod held;
pub(crate) mod leftovers;
mod listening;
mod mode;
mod names;
mod ports;
mod render;
#[cfg(feature = "sim")]
pub mod sim;
mod stale;
mod sync;

pub use mode::MODE;
use model::{Family, ForwardingTable, NodePortAddress};
pub use ports::Ports;
use render::Portals;
pub use render::SHARED;
pub use sync::Userspace;

use crate::checks::Check;
use crate::xtables::{self, Style as _, Tables};

/// What else must be so on this host: nothing. The relay ends connections and begins others, so nothing is forwarded and no
/// answer has to be translated back by a bridge.
pub const CHECKS: &[Check] = &[];

/// What the operator chose for this mode.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Where node ports answer when nobody says so.
    pub default_node_port_addresses: NodePortAddress,
}

impl Default for Options {
    fn default() -> Self {
        Self { default_node_port_addresses: NodePortAddress::All }
    }
}

/// All rules of one family, for listeners that have these ports.
pub fn tables(desired: &ForwardingTable, family: Family, options: &Options, ports: Ports) -> Tables {
    let portals = Portals::new(*options, ports);
    let service_ports = desired.ports().map(|port| &**port);
    Tables::assemble::<Portals>(family, &portals.renderer(desired, family), service_ports)
}

/// The same as text, the jumps too: what a first sync writes into a kernel that has nothing of ours.
///
/// `iptables-restore --noflush` takes it for IPv4, `ip6tables-restore --noflush` for IPv6.
pub fn render(desired: &ForwardingTable, family: Family, options: &Options, ports: Ports) -> String {
    xtables::render(&Portals::new(*options, ports), desired, family)
}
