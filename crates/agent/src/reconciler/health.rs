//! Since when the kernel is behind what is wanted.

use dataplane::Synced;
use observe::health::HealthFacts;
use observe::status::NodeStanding;

use super::event::Now;
use super::timers::Task;
use super::{Loop, UnderWay};

impl Loop {
    /// What a health server needs to know.
    pub fn health(&self) -> HealthFacts {
        HealthFacts {
            families: self.families.clone(),
            updated: self.figures.updated(),
            behind_since: self.behind_since,
            patience: self.patience,
            is_bare: self.is_bare == Some(true) && !self.figures.has_synced(),
            is_node_eligible: self.is_node_eligible(),
            is_in_force: self.has_told && !self.is_refused_whole(),
            behind_because: self.behind_because(),
        }
    }

    /// Why a client may meet other rules than the source asks for. `None` where nothing is behind.
    fn behind_because(&self) -> Option<String> {
        if !self.source.is_loaded && self.timers.failures(Task::RetryStore) == 0 {
            return Some(self.unread().to_owned());
        }
        if self.is_refused_whole() {
            let (first, reason) = self.figures.refused.first_key_value()?;
            return Some(format!("the kernel refuses every service port; {first}: {reason}"));
        }
        let fails = self.figures.failures_in_a_row() > 0 || self.timers.failures(Task::RetryStore) > 0;
        let failure = self.figures.last_failure().filter(|_| fails);
        let because = failure.or(self.figures.waits().first().map(String::as_str)).map(str::to_owned);
        let because = because.or_else(|| self.drift.suspicion()).or_else(|| self.drift.conflict());
        because.filter(|_| self.behind_since.is_some() || !self.has_told)
    }

    /// One Service that the kernel refuses is that Service's problem. Where it refuses all of them, this process serves nobody.
    fn is_refused_whole(&self) -> bool {
        let refused = self.figures.refused.len();
        refused > 0 && refused >= self.table_gauges.service_ports
    }

    /// May load balancers send connections here? A server that does not know this node, or no longer, says no.
    pub(super) fn is_node_eligible(&self) -> bool {
        match self.node_standing() {
            NodeStanding::Known => true,
            NodeStanding::OfHost => self.server.is_none(),
            NodeStanding::Unknown | NodeStanding::Leaving => false,
        }
    }

    /// A sync went well: what is behind from now on is so from now on, unless the reason is still there.
    pub(super) fn caught_up(&mut self, synced: &Synced, now: Now) {
        if synced.waits.is_empty()
            && !self.drift.is_at_war_with_anybody(now)
            && self.timers.failures(Task::RetryStore) == 0
        {
            self.behind_since = None;
        }
    }

    /// Looks whether the kernel is behind, after each step.
    pub(super) fn look_behind(&mut self, now: Now) {
        self.behind_since = self.is_behind(now).then(|| self.behind_since.unwrap_or(now.elapsed));
    }

    /// Before the source was read nobody knows: what an earlier life left is in force, and that is well. Where there was none, the
    /// node is bare.
    fn is_behind(&self, now: Now) -> bool {
        let waits = !self.pending.is_empty() || matches!(self.under_way, UnderWay::Sync(..));
        let fails = self.figures.failures_in_a_row() > 0 || self.timers.failures(Task::RetryStore) > 0;
        let is_contested = self.drift.is_suspicious() || self.drift.is_at_war_with_anybody(now);
        self.source.is_loaded && (waits || fails || is_contested || !self.figures.waits().is_empty())
    }
}
