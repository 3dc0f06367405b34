//! The ways in which the list is gone through: each mode, and each iptables program, is one.

use std::fmt;

use kernel::xtables::{Family, Programs, Variant};
use portway::modes::Mode;

/// A mode, with its program where it has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Nftables,
    IptablesNft,
    IptablesLegacy,
}

impl Way {
    /// All of them.
    pub(crate) const ALL: [Self; 3] = [Self::Nftables, Self::IptablesNft, Self::IptablesLegacy];

    pub(crate) fn mode(self) -> Mode {
        match self {
            Self::Nftables => Mode::Nftables,
            Self::IptablesNft | Self::IptablesLegacy => Mode::Iptables,
        }
    }

    /// The iptables program that writes.
    pub(crate) fn program(self) -> Option<Variant> {
        match self {
            Self::Nftables => None,
            Self::IptablesNft => Some(Variant::Nft),
            Self::IptablesLegacy => Some(Variant::Legacy),
        }
    }

    /// The options of `portway run` that choose it.
    pub(crate) fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::Nftables => &["--mode", "nftables"],
            Self::IptablesNft => &["--mode", "iptables", "--iptables-program", "nft"],
            Self::IptablesLegacy => &["--mode", "iptables", "--iptables-program", "legacy"],
        }
    }

    /// Has this machine what it needs? If not, the reason is on standard error.
    #[expect(clippy::print_stderr, reason = "the test's own output")]
    pub(crate) fn is_available(self) -> bool {
        let Some(variant) = self.program() else { return true };
        let mut found = Programs::find();
        let missing = Family::ALL.into_iter().find(|family| found.door(variant, *family).is_none());
        if let Some(family) = missing {
            eprintln!("skipped: {variant} is not installed for {family}");
        }
        missing.is_none()
    }

    /// Does the kernel answer a refused TCP connection with a reset? If not, with an ICMP error.
    pub(crate) fn resets(self) -> bool {
        self == Self::Nftables
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nftables => "nftables",
            Self::IptablesNft => "iptables-nft",
            Self::IptablesLegacy => "iptables-legacy",
        })
    }
}
