//! How a virtual server chooses: the schedulers that the kernel has, by their names.

use std::fmt;

use kernel::ipvs::Flags;

/// A scheduler of the kernel. Its module is called `ip_vs_` and its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Scheduler(&'static str);

/// No scheduler of the kernel is called so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown IPVS scheduler `{asked}`: it must be one of {}", ALL.join(", "))]
pub struct UnknownScheduler {
    /// What was asked for.
    pub asked: String,
}

const ALL: [&str; 13] =
    ["rr", "wrr", "lc", "wlc", "lblc", "lblcr", "dh", "sh", "sed", "nq", "fo", "ovf", "mh"];

impl Scheduler {
    /// One after the other.
    pub const ROUND_ROBIN: Self = Self("rr");
    /// One after the other, the heavier ones more often.
    pub const WEIGHTED: Self = Self("wrr");
    /// By the client's address.
    pub const SOURCE_HASH: Self = Self("sh");

    /// The scheduler of this name.
    pub fn named(asked: &str) -> Result<Self, UnknownScheduler> {
        let found = ALL.into_iter().find(|name| *name == asked);
        found.map(Self).ok_or_else(|| UnknownScheduler { asked: asked.to_owned() })
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        self.0
    }

    /// Those that hash pass over a server that takes nothing, which without this they would refuse for; and `mh` looks at the
    /// client's port too, as upstream has it.
    pub(super) fn flags(self) -> Flags {
        match self.0 {
            "sh" => Flags::HASH_FALLBACK,
            "mh" => Flags(Flags::HASH_FALLBACK.0 | Flags::HASH_PORT.0),
            _ => Flags::NONE,
        }
    }

    /// Whether it passes over a server of weight 0. `dh` does not: it would refuse whomever it sends there.
    pub(super) fn passes_over(name: &str) -> bool {
        name != "dh"
    }
}

impl fmt::Display for Scheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}
