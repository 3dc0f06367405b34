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
//! Ready means: rules that this process wrote or adopted are in force, and it is healthy. It decides whether a rolling update goes on,
//! so it fails closed: a process that has not finished its first sync is healthy, but not ready.
//!
//! Absent on purpose: a clock, and HTTP. The facts stand still while a sync hangs, and the time that the reader brings goes on: so a
//! loop that hangs turns red as well.

use std::time::Duration;

use model::Family;
use model::time::Timestamp;
use serde::{Deserialize, Serialize};

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
    /// A sync of this process is in force, and the kernel did not refuse every service port of it.
    pub is_in_force: bool,
    /// Why the kernel is behind, or why nothing of this process is in force.
    pub behind_because: Option<String>,
}

/// Whether the rules of one process are in force, as `portway status --ready` asks it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Readiness {
    /// The rules are in force, and follow the source.
    pub is_ready: bool,
    /// Why not.
    pub reason: Option<String>,
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

    /// Whether a rolling update may go on to the next node, so long after the start of the process.
    pub fn readiness(&self, elapsed: Duration) -> Readiness {
        let is_ready = self.is_in_force && self.judge(elapsed).is_healthy;
        Readiness { is_ready, reason: (!is_ready).then(|| self.why_not_ready(elapsed)) }
    }

    fn why_not_ready(&self, elapsed: Duration) -> String {
        let because = self.behind_because.as_deref().unwrap_or("a sync has not finished");
        match self.behind_since {
            Some(since) if self.is_in_force => {
                let seconds = elapsed.saturating_sub(since).as_secs();
                format!("its rules have been out of date for {seconds} s: {because}")
            }
            _ => because.to_owned(),
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

    #[test]
    fn a_process_is_ready_from_its_first_sync_until_its_rules_are_out_of_date_for_too_long() {
        let second = Duration::from_secs;
        let facts = HealthFacts { patience: second(60), ..HealthFacts::default() };
        assert!(facts.judge(second(1)).is_healthy, "it lives");
        let reason = |facts: &HealthFacts, at| facts.readiness(second(at)).reason;
        assert_eq!(reason(&facts, 1).as_deref(), Some("a sync has not finished"));
        let behind = Some("the kernel said no".to_owned());
        let failing = HealthFacts { behind_since: Some(second(1)), behind_because: behind, ..facts };
        assert_eq!(reason(&failing, 2).as_deref(), Some("the kernel said no"), "without any patience");
        let once_good = HealthFacts { is_in_force: true, ..failing };
        assert_eq!(once_good.readiness(second(60)), Readiness { is_ready: true, reason: None });
        let late = once_good.readiness(second(61));
        assert!(!late.is_ready);
        let sentence = "its rules have been out of date for 60 s: the kernel said no";
        assert_eq!(late.reason.as_deref(), Some(sentence));
    }
}
