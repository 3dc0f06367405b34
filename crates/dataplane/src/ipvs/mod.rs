//! ipvs: the kernel's own load balancer. README.md beside this file tells the packet's way.
//!
//! In: the forwarding table. Out: a virtual server for each place where a service port is dialled, with its endpoints as real
//! servers; addresses of an interface, so that this host takes their packets; sets, which say what becomes of a packet; and a few rules
//! of iptables, which ask the sets.
//!
//! | file | what it is for |
//! |---|---|
//! | `names` | what sets, chains and marks are called |
//! | `scheduler` | how a virtual server chooses |
//! | `render` | the forwarding table → what the kernel shall hold |
//! | `items` | what the kernel shall hold, as data |
//! | `wanted` | all of it, kept in step with the table |
//! | `observed` | what the kernel holds, in the same words; whose it is |
//! | `keep` | what stays while not all is known |
//! | `steps` | in which order things come and go |
//! | `marks` | numbers of virtual servers by mark |
//! | `drain` | real servers that wait for their connections to end |
//! | `settings`, `timeouts` | settings of the kernel |
//! | `chain_set` | which chains of iptables are its own, or upstream's |
//! | `bound` | which addresses of this host are Services' |
//! | `doors`, `write` | the doors, and carrying out steps |
//! | `sync`, `cleanup` | the mode itself |
//! | `withdraw` | leaving, when another mode serves |
//! | `traces` | how much of it is in a kernel |
//! | `error` | what can go wrong |
//!
//! Absent on purpose: any program of IPVS, sets or links; loading modules; and a clock of its own.

mod bound;
mod carried;
mod chain_set;
mod cleanup;
mod doors;
mod drain;
mod error;
mod items;
mod keep;
mod leaving;
mod marks;
mod mode;
mod names;
mod observed;
mod own_settings;
mod render;
mod scheduler;
mod settings;
#[cfg(feature = "sim")]
pub mod sim;
mod status;
mod steps;
mod sync;
mod timeouts;
mod traces;
mod wanted;
mod withdraw;
mod write;

use std::time::Duration;

pub use bound::Bound;
pub use cleanup::remove_upstreams_sets;
pub use doors::{Doors, Kernel};
pub use drain::Drain;
pub use error::Error;
pub use items::{Delta, Item, Place};
use kernel::ipvs::Timeouts;
pub use mode::{Handles, MODE, handles};
use model::NodePortAddress;
use model::net::IpNet;
pub use names::SetId;
pub use render::render;
pub use scheduler::{IPVS_SCHEDULERS, Scheduler, UnknownScheduler};
pub use settings::{apply as make_settings, are_forgotten as are_settings_forgotten};
pub use steps::{Draining, Plan, Step, plan};
pub use sync::Ipvs;
pub use traces::Traces;
pub use withdraw::{Forget, Withdrawn, withdraw};

use kernel::xtables::Variant;

use crate::checks::{BRIDGE_NETFILTER, Check, IP_FORWARD};
use crate::served::Served;

/// What else must be so on this host. A request is delivered to IPVS and sent on by it, so only answers are forwarded: rules that
/// drop forwarded packets are asked about the first packet alone, and cannot be judged here.
pub const CHECKS: &[Check] = &[IP_FORWARD, BRIDGE_NETFILTER];

/// Are these rules of this mode, which writes with this program?
pub fn owns(served: Served, program: Option<Variant>) -> bool {
    matches!(served, Served::Chains(variant, _) if program.is_none_or(|program| program == variant))
}

/// The interface that upstream makes for the addresses of Services, and so do we.
pub const DUMMY: &str = "kube-ipvs0";

/// What the operator chose for this mode.
#[derive(Clone, Debug)]
pub struct Options {
    /// How virtual servers choose where their Service does not say. `None`: one after the other, or by weight where weights differ.
    pub scheduler: Option<Scheduler>,
    /// The interface that gets the addresses of Services. If it is missing, a dummy of this name is made.
    pub interface: String,
    /// Virtual servers at these addresses are left alone unless a Service has them.
    pub excluded: Vec<IpNet>,
    /// A real server that nobody needs any more waits at most so long for its connections to end.
    pub drain_limit: Duration,
    /// This host answers ARP for the addresses of Services on no interface but their own.
    pub strict_arp: bool,
    /// For how long IPVS remembers a connection on which nothing happens; 0 leaves the kernel's.
    pub timeouts: Timeouts,
    /// The mark bit that says: hide the source of this connection.
    pub masquerade_mark: u32,
    /// Where node ports answer when nobody says so.
    pub default_node_port_addresses: NodePortAddress,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            scheduler: None,
            interface: DUMMY.to_owned(),
            excluded: Vec::new(),
            drain_limit: Duration::from_secs(15 * 60),
            strict_arp: false,
            timeouts: Timeouts::default(),
            masquerade_mark: 0x4000,
            default_node_port_addresses: NodePortAddress::All,
        }
    }
}
