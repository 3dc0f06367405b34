//! How a virtual server chooses: the schedulers that the kernel has, by their names.

use std::fmt;

use kernel::ipvs::{self, Flags, Ipvs, Refused, Request, VirtualServer, What};

use super::Error;
use super::names::MARKS;

/// The annotation of a Service that names its scheduler.
pub(super) const ANNOTATION: &str = "portway.io/ipvs-scheduler";

/// The schedulers that Linux has.
pub const IPVS_SCHEDULERS: [&str; 13] =
    ["rr", "wrr", "lc", "wlc", "lblc", "lblcr", "dh", "sh", "sed", "nq", "fo", "ovf", "mh"];

/// What is wrong with an annotation of a Service that this mode reads.
pub(super) fn objection_to_annotation(name: &str, value: &str) -> Option<String> {
    (name == ANNOTATION && !IPVS_SCHEDULERS.contains(&value)).then(|| {
        format!(
            "no IPVS scheduler has this name; it must be one of {}, and without one the default is used",
            IPVS_SCHEDULERS.join(", ")
        )
    })
}

/// A scheduler of the kernel. Its module is called `ip_vs_` and its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Scheduler(&'static str);

/// No scheduler of the kernel is called so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown IPVS scheduler `{asked}`: it must be one of {}", IPVS_SCHEDULERS.join(", "))]
pub struct UnknownScheduler {
    /// What was asked for.
    pub asked: String,
}

impl Scheduler {
    /// One after the other.
    pub const ROUND_ROBIN: Self = Self("rr");
    /// One after the other, the heavier ones more often.
    pub const WEIGHTED: Self = Self("wrr");
    /// By the client's address.
    pub const SOURCE_HASH: Self = Self("sh");

    /// The scheduler of this name.
    pub fn named(asked: &str) -> Result<Self, UnknownScheduler> {
        let found = IPVS_SCHEDULERS.into_iter().find(|name| *name == asked);
        found.map(Self).ok_or_else(|| UnknownScheduler { asked: asked.to_owned() })
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        self.0
    }

    /// Whether this kernel has it, where only a write tells: a virtual server of it is made, and removed again. No packet has its
    /// mark, whose number is given to nobody.
    pub fn try_on(self, servers: &mut dyn Ipvs) -> Result<(), Error> {
        let what = What::Mark(MARKS, ipvs::Family::V4);
        let refused = servers.run(&[Request::Add(VirtualServer::new(what, self.0))])?;
        if refused.is_empty() {
            servers.run(&[Request::Delete(what)])?;
        }
        // Refused for another reason, it is somebody else's, and tells nothing.
        let is_missing = |refused: &Refused| refused.missing_scheduler().is_some();
        if !refused.iter().any(is_missing) {
            return Ok(());
        }
        Err(Error::Refused(format!(
            "this kernel has no IPVS scheduler `{self}`: load the module `ip_vs_{self}` (`modprobe ip_vs_{self}`), or choose another one \
             with `--ipvs-scheduler`"
        )))
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

#[cfg(test)]
mod tests {
    use kernel_sim::ipvs::Simulated;

    use super::*;

    #[test]
    fn a_scheduler_without_its_module_is_refused_with_the_modules_name() {
        let mut kernel = Simulated::default();
        for name in IPVS_SCHEDULERS {
            let scheduler = Scheduler::named(name).unwrap();
            assert_eq!(scheduler.try_on(&mut kernel), Ok(()), "{name}");
            kernel.forget_scheduler(name);
            let refused = scheduler.try_on(&mut kernel).unwrap_err().to_string();
            assert!(refused.contains(&format!("load the module `ip_vs_{name}`")), "{refused}");
        }
        assert_eq!(kernel.virtual_servers().unwrap(), [], "nothing stays");
        let theirs = VirtualServer::new(What::Mark(MARKS, ipvs::Family::V4), "rr");
        let mut kernel = Simulated::default();
        assert!(kernel.run(&[Request::Add(theirs.clone())]).unwrap().is_empty());
        assert_eq!(Scheduler::SOURCE_HASH.try_on(&mut kernel), Ok(()));
        assert_eq!(kernel.virtual_servers().unwrap(), [theirs], "what somebody else has there stays");
    }
}
