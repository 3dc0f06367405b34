//! The ways in which the list is gone through: each mode, and each iptables program, is one.

use std::fmt;

use dataplane::Mode;
use kernel::xtables::{self, Programs, Variant};
use model::Protocol;
use playground::Family;

/// All protocols that a Service can have.
const PROTOCOLS: [Protocol; 3] = [Protocol::Tcp, Protocol::Udp, Protocol::Sctp];

/// A mode, with its program where it has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Nftables,
    IptablesNft,
    IptablesLegacy,
    Userspace,
    Ipvs,
}

impl Way {
    /// All in which the kernel carries connections, so that they outlive portway.
    pub(crate) const KERNEL: [Self; 3] = [Self::Nftables, Self::IptablesNft, Self::IptablesLegacy];

    pub(crate) fn mode(self) -> Mode {
        match self {
            Self::Nftables => dataplane::nftables::MODE,
            Self::IptablesNft | Self::IptablesLegacy => dataplane::iptables::MODE,
            Self::Userspace => dataplane::userspace::MODE,
            Self::Ipvs => dataplane::ipvs::MODE,
        }
    }

    /// The iptables program that writes.
    pub(crate) fn program(self) -> Option<Variant> {
        match self {
            Self::Nftables => None,
            Self::IptablesNft | Self::Userspace | Self::Ipvs => Some(Variant::Nft),
            Self::IptablesLegacy => Some(Variant::Legacy),
        }
    }

    /// The options of `portway run` that choose it.
    pub(crate) fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::Nftables => &["--mode", "nftables"],
            Self::IptablesNft => &["--mode", "iptables", "--iptables-program", "nft"],
            Self::IptablesLegacy => &["--mode", "iptables", "--iptables-program", "legacy"],
            // Held connections are to end by themselves.
            Self::Userspace => &["--mode", "userspace", "--iptables-program", "nft", "--drain-timeout", "5m"],
            // The VM is slow: what the relay carries is to end by itself.
            Self::Ipvs => &["--mode", "ipvs", "--iptables-program", "nft", "--drain-timeout", "5m"],
        }
    }

    /// Has this machine what it needs? If not, the reason is on standard error.
    #[expect(clippy::print_stderr, reason = "the test's own output")]
    pub(crate) fn is_available(self) -> bool {
        if self == Self::Ipvs
            && let Err(error) = kernel::ipvs::Netlink::open()
        {
            eprintln!("skipped: {error}");
            return false;
        }
        let Some(variant) = self.program() else { return true };
        let mut found = Programs::find();
        let missing = xtables::Family::ALL.into_iter().find(|family| found.door(variant, *family).is_none());
        if let Some(family) = missing {
            eprintln!("skipped: {variant} is not installed for {family}");
        }
        missing.is_none()
    }

    /// Does it carry connections itself, so that they end with it?
    pub(crate) fn carries(self) -> bool {
        self == Self::Userspace
    }

    /// The protocols that it serves.
    pub(crate) fn protocols(self) -> &'static [Protocol] {
        if self.mode().semantics().carries_sctp { &PROTOCOLS } else { &PROTOCOLS[..2] }
    }

    /// Every combination of family and protocol.
    pub(crate) fn every_kind(self) -> impl Iterator<Item = (Family, Protocol)> {
        Family::ALL
            .into_iter()
            .flat_map(move |family| self.protocols().iter().map(move |protocol| (family, *protocol)))
    }

    /// Does the kernel answer a refused TCP connection with a reset? If not, with an ICMP error.
    pub(crate) fn resets(self) -> bool {
        self == Self::Nftables
    }

    /// Are the addresses of Services addresses of the host? Then it dials them from themselves, and must be hidden.
    pub(crate) fn has_addresses_of_services(self) -> bool {
        self == Self::Ipvs
    }

    /// Is a client forgotten when it has rested? IPVS waits, too, until the last connection of the client is forgotten: minutes after its end.
    pub(crate) fn forgets_who_rests(self) -> bool {
        self != Self::Ipvs
    }

    /// Is what a host sends to itself refused on its way out where a Service has no endpoints, and on its way in where there is no such
    /// port? Then the sender hears that it may not send, or of an ICMP error.
    pub(crate) fn refuses_in_two_ways(self) -> bool {
        self == Self::Ipvs
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nftables => "nftables",
            Self::IptablesNft => "iptables-nft",
            Self::IptablesLegacy => "iptables-legacy",
            Self::Userspace => "userspace",
            Self::Ipvs => "ipvs",
        })
    }
}
