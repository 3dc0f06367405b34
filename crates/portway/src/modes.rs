//! The ways in which a kernel can be told, and what each of them promises.

use std::fmt;

use dataplane::checks::{COMMON, Check};
use dataplane::served::Served;
use dataplane::{iptables, ipvs, nftables, userspace};
use kernel::xtables::Variant;
use model::fate::{Loopback, Refusal, Remembered};
use model::{NodePortAddress, Promises};

/// A mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Mode {
    /// nftables maps, written by netlink: the default.
    Nftables,
    /// The rules that every guide shows.
    Iptables,
    /// The kernel's virtual servers.
    Ipvs,
    /// The original proxy.
    Userspace,
}

/// Which iptables program is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Program {
    /// The one that this node already uses.
    #[default]
    Auto,
    /// The one whose tables are of `nf_tables`.
    Nft,
    /// The old one.
    Legacy,
}

impl Mode {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Nftables => "nftables",
            Mode::Iptables => "iptables",
            Mode::Ipvs => "ipvs",
            Mode::Userspace => "userspace",
        }
    }

    /// The preconditions of this mode.
    pub fn checks(self) -> impl Iterator<Item = &'static Check> {
        let own = match self {
            Mode::Nftables => nftables::CHECKS,
            Mode::Iptables => iptables::CHECKS,
            Mode::Ipvs => ipvs::CHECKS,
            Mode::Userspace => userspace::CHECKS,
        };
        own.iter().chain(COMMON)
    }

    /// Are these rules of this mode, which writes with this program? Without a program, with any.
    pub fn owns(self, served: Served, program: Option<Variant>) -> bool {
        match self {
            Mode::Nftables => nftables::owns(served),
            Mode::Iptables => iptables::owns(served, program),
            Mode::Ipvs => ipvs::owns(served, program),
            Mode::Userspace => false,
        }
    }

    /// What it does where Kubernetes leaves the choice. docs/parity.md has a row for each.
    pub fn promises(self) -> Promises {
        let as_upstream = Promises {
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
        match self {
            Mode::Nftables => Promises::default(),
            Mode::Ipvs => Promises {
                undefined_port_of_cluster_ip: Refusal::Reject,
                undefined_port_of_external_ip: Refusal::Reject,
                link_local_node_ports: false,
                hairpin_of_other_nodes: false,
                affinity: Remembered::ForFrontend,
                ..as_upstream
            },
            Mode::Iptables => as_upstream,
            Mode::Userspace => Promises { keeps_source: false, carries_sctp: false, ..as_upstream },
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
