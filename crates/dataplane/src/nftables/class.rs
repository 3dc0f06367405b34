//! A class: what a frontend needs done, apart from which endpoints it has.
//!
//! Frontends lead to class numbers, and a tiny verdict map leads from there to a chain. So the number of chains follows the
//! number of distinct classes, and a change of a service's endpoint count changes one element of a data map: the kernel
//! re-validates a verdict map as a whole whenever it gets a new element, which at 45,000 services takes milliseconds.
//!
//! The number is a pure function of the class, 32 bits of `meta priority`:
//!
//! ```text
//!   31     the flag of all our numbers
//!   30-29  whose source is hidden      28  endpoints of this node only
//!   27     sticky: 26-17 slots - 1, 16-0 timeout in seconds      else: 26-0 slots; 0 slots: refuse or drop
//! ```

use kernel::nft::Verdict;
use model::table::Masquerade;

use super::layout::PRIORITY_FLAG;

/// What a frontend needs done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Class {
    /// Refused.
    Reject,
    /// Dropped.
    Drop,
    /// Sent to one of its endpoints.
    Forward(Forward),
}

/// How a frontend is sent to one of its endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Forward {
    /// Whose source is hidden.
    pub(super) masquerade: Masquerade,
    /// The slots are those from [`super::layout::LOCAL_SLOTS`] on.
    pub(super) is_local: bool,
    /// How many slots.
    pub(super) slots: u32,
    /// A client is remembered for so many seconds.
    pub(super) sticky_seconds: Option<u32>,
}

/// A sticky pool has no more slots than this: its class has ten bits for them.
pub(super) const MOST_STICKY_SLOTS: u32 = 1024;

/// Is the frontend an address, or a node port?
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Door {
    Address,
    NodePort,
}

impl Door {
    /// What the names of its chains begin with.
    pub(super) fn prefix(self) -> &'static str {
        match self {
            Door::Address => "",
            Door::NodePort => "node-port-",
        }
    }
}

impl Class {
    /// The number that frontends of this class lead to.
    pub(super) fn number(self) -> u32 {
        PRIORITY_FLAG
            | match self {
                Class::Reject => 0,
                Class::Drop => 1 << 29,
                Class::Forward(forward) => forward.bits(),
            }
    }

    /// What the verdict map holds for that number.
    pub(super) fn verdict(self, door: Door) -> Verdict {
        match self {
            Class::Reject => Verdict::Goto(super::chains::REFUSE.into()),
            Class::Drop => Verdict::Drop,
            Class::Forward(forward) => Verdict::Goto(forward.chain(door).into()),
        }
    }
}

impl Forward {
    fn bits(self) -> u32 {
        let masquerade = match self.masquerade {
            Masquerade::Nobody => 0,
            Masquerade::AllButPods => 1,
            Masquerade::ThisHost => 2,
            Masquerade::Everybody => 3,
        };
        let pool = match self.sticky_seconds {
            None => self.slots,
            Some(seconds) => (1 << 27) | ((self.slots - 1) << 17) | seconds,
        };
        (masquerade << 29) | (u32::from(self.is_local) << 28) | pool
    }

    /// The name of its chain: `cluster-ip-4`, `node-port-external-sticky-2-10800`.
    pub(super) fn chain(self, door: Door) -> String {
        let policy = match self.masquerade {
            Masquerade::Nobody => "plain",
            Masquerade::AllButPods => "cluster-ip",
            Masquerade::ThisHost => "short-cut",
            Masquerade::Everybody => "external",
        };
        let place = if self.is_local { "-local" } else { "" };
        let (prefix, slots) = (door.prefix(), self.slots);
        match self.sticky_seconds {
            None => format!("{prefix}{policy}{place}-{slots}"),
            Some(seconds) => format!("{prefix}{policy}{place}-sticky-{slots}-{seconds}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    #[test]
    fn different_classes_have_different_numbers_and_chains() {
        let mut numbers = BTreeMap::new();
        let mut chains = BTreeSet::new();
        for masquerade in
            [Masquerade::Nobody, Masquerade::AllButPods, Masquerade::ThisHost, Masquerade::Everybody]
        {
            for (is_local, slots) in
                [(false, 1), (true, 1), (false, 1024), (true, 1023), (false, 70_000), (false, 2)]
            {
                for sticky_seconds in [None, Some(1), Some(10_800), Some(86_400)] {
                    let forward = Forward { masquerade, is_local, slots, sticky_seconds };
                    if sticky_seconds.is_some() && slots > MOST_STICKY_SLOTS {
                        continue;
                    }
                    let class = Class::Forward(forward);
                    assert_eq!(numbers.insert(class.number(), class), None, "{class:?}");
                    for door in [Door::Address, Door::NodePort] {
                        assert!(chains.insert(forward.chain(door)), "{class:?}");
                    }
                }
            }
        }
        for class in [Class::Reject, Class::Drop] {
            assert_eq!(numbers.insert(class.number(), class), None, "{class:?}");
        }
    }
}
