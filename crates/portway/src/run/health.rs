//! Is this node healthy? A pure answer from what the loop knows.
//!
//! In: since when the kernel is behind what is wanted, and for how long that may be. Out: healthy or not, of the proxy and of the
//! node.
//!
//! Behind means: something waits to be written, syncs fail, our rules wait for something, or others keep changing what is ours.
//! Each sync that goes well begins the time anew, unless the reason is still there. A service port that the kernel refuses is
//! not behind: it must not take the whole node out of every load balancer.
//!
//! Bare means: the source has told nothing for that long, and the kernel holds nothing of an earlier life either. Such a node
//! should get no clients; but starting the process anew would not help, so it lives.
//!
//! Absent on purpose: a clock, and HTTP. The facts stand still while a sync hangs, and the time that the reader brings goes on: so a
//! loop that hangs turns red as well.

use std::time::Duration;

use model::Family;
use model::time::Timestamp;

/// What the loop knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HealthFacts {
    /// The families that are served.
    pub families: Vec<Family>,
    /// When a sync last went well.
    pub updated: Option<Timestamp>,
    /// Since when the kernel is behind, counted from the start of the process.
    pub behind_since: Option<Duration>,
    /// How long it may be.
    pub patience: Duration,
    /// For as long as that the source has told nothing, and there are no rules at all.
    pub is_bare: bool,
    /// The Node is known, is not being deleted, and is not about to be.
    pub is_node_eligible: bool,
}

/// The answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Health {
    /// The proxy does its work.
    pub is_healthy: bool,
    /// There are no rules that a client could be served by.
    pub is_bare: bool,
    /// Load balancers may send clients to this node, as far as the node goes.
    pub is_node_eligible: bool,
}

impl HealthFacts {
    /// The answer, so long after the start of the process.
    pub fn judge(&self, elapsed: Duration) -> Health {
        let is_late = |since: Duration| elapsed.saturating_sub(since) >= self.patience;
        Health {
            is_healthy: !self.behind_since.is_some_and(is_late),
            is_bare: self.is_bare,
            is_node_eligible: self.is_node_eligible,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_behind_turns_red_when_patience_ends_and_not_before() {
        let second = Duration::from_secs;
        let mut facts = HealthFacts { patience: second(60), ..HealthFacts::default() };
        assert!(facts.judge(second(9999)).is_healthy, "nothing is behind");
        facts.behind_since = Some(second(10));
        for (elapsed, is_healthy) in [(5, true), (10, true), (69, true), (70, false), (7000, false)] {
            assert_eq!(facts.judge(second(elapsed)).is_healthy, is_healthy, "after {elapsed} s");
        }
    }
}
