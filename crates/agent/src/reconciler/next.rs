//! What is begun now, or when to come back.
//!
//! One thing is done at a time. Times are in `timers`; here is which task may run in which state.

use std::time::Duration;

use apiserver::Watched;
use dataplane::Scope;
use observe::doctor::Sample;

use super::effect::Effect;
use super::errands::ErrandKind;
use super::event::Now;
use super::pace::Due;
use super::timers::Task;
use super::{Loop, UnderWay};

/// A packet that met the old rules has its conntrack entry by then.
const PACKETS_UNDER_WAY: Duration = Duration::from_millis(5);

impl Loop {
    /// Begins what is due, or says when to come back.
    pub(super) fn go_on(&mut self, now: Now, effects: &mut Vec<Effect>) {
        if !matches!(self.under_way, UnderWay::Nothing) {
            return;
        }
        self.set_timers(now);
        let Some(task) = self.next(now.elapsed) else {
            effects.extend(self.wake_at(now.elapsed).map(Effect::WakeAt));
            return;
        };
        match self.begin(task, now.elapsed) {
            Some(effect) => effects.push(effect),
            None => self.go_on(now, effects),
        }
    }

    /// Begins the checks of this host, when nothing else is to be done now: what the first sync and its errands put right is no
    /// finding.
    pub(super) fn examine(&mut self, now: Now, effects: &mut Vec<Effect>) {
        let is_due = self.timers.is_due(Task::Examine, now.elapsed);
        let may_run = self.may_run_from(Task::Examine, now.elapsed).is_some();
        if is_due && may_run && matches!(self.under_way, UnderWay::Nothing) {
            self.timers.set(Task::Examine, self.examinations.begin(now.elapsed));
            let is_node_told = self.server.as_ref().is_none_or(|server| server.is_complete(Watched::Node));
            effects.push(Effect::Examine(Box::new(Sample::of(&self.picture, is_node_told))));
        }
    }

    /// These times follow from the state alone, which any event may have changed.
    fn set_timers(&mut self, now: Now) {
        let (sync_at, _) = self.pace.next(!self.pending.is_empty(), now.elapsed);
        self.timers.set(Task::Sync, sync_at);
        let server = self.server.as_ref().filter(|_| !self.source.is_loaded);
        self.timers.set(Task::LoadFromServer, server.and_then(|server| server.waits_until(now.elapsed)));
    }

    /// What is to be begun now.
    fn next(&self, now: Duration) -> Option<Task> {
        let may_run_from = |task: Task| self.may_run_from(task, now).filter(|_| task.occupies_the_loop());
        self.timers.first(may_run_from).filter(|(at, _)| *at <= now).map(|(_, task)| task)
    }

    /// When to come back, where nothing is begun now.
    fn wake_at(&self, now: Duration) -> Option<Duration> {
        self.timers.first(|task| self.may_run_from(task, now)).map(|(at, _)| at)
    }

    /// From when on a task may run in this state; `None` where it may not. Deletions that wait go before syncs: in a storm without end they
    /// would wait for ever.
    fn may_run_from(&self, task: Task, now: Duration) -> Option<Duration> {
        let settle_at = self.timers.at(Task::Settle);
        let may_run = match task {
            Task::Errand(ErrandKind::Forget | ErrandKind::End) => {
                return Some(settle_at.map_or(Duration::ZERO, |at| self.flows_from(at)));
            }
            Task::Errand(ErrandKind::TakeOver) | Task::Drain => settle_at.is_none(),
            Task::Sync => settle_at.is_none() && self.source.is_loaded && !self.must_look_first(),
            Task::Glance => settle_at.is_none() && self.has_told,
            Task::Look => {
                let is_unknown = !self.source.is_loaded || self.must_look_first();
                settle_at.is_none() && is_unknown && self.is_bare.is_none()
            }
            // An errand that is due may have to wait all the same, for deletions: the checks then come after it.
            Task::Examine => {
                let waits = self.timers.is_due(Task::Examine, now) && self.has_errand(now);
                !waits && !self.examinations.is_under_way()
            }
            Task::Settle | Task::RetryStore | Task::RetryAllocation | Task::LoadFromServer => true,
        };
        may_run.then_some(Duration::ZERO)
    }

    /// Conntrack entries go before deletions that wait for longer than packets are under way: in iptables mode, which deletes chains after
    /// a second, clients of a vanished Pod would hang for so long.
    fn flows_from(&self, settle_at: Duration) -> Duration {
        settle_at.min(self.in_force_at + PACKETS_UNDER_WAY)
    }

    fn has_errand(&self, now: Duration) -> bool {
        ErrandKind::ALL.into_iter().any(|kind| self.timers.is_due(Task::Errand(kind), now))
    }

    /// `None` if there turns out to be nothing to do.
    fn begin(&mut self, task: Task, now: Duration) -> Option<Effect> {
        let (under_way, effect) = match task {
            Task::Settle | Task::Drain => {
                self.timers.set(Task::Settle, None);
                self.timers.set(Task::Drain, None);
                (UnderWay::Settling, Effect::Settle)
            }
            Task::Errand(kind) => {
                let Some(errand) = self.errands.begin(kind, &self.picture) else {
                    self.errand_ended(kind);
                    return None;
                };
                (UnderWay::Errand { begun_at: now }, Effect::Run(errand))
            }
            Task::Glance => (UnderWay::Glancing, Effect::Glance),
            Task::Look => (UnderWay::Glancing, Effect::Look),
            Task::Sync => self.begin_sync(now),
            Task::Examine | Task::RetryStore | Task::RetryAllocation | Task::LoadFromServer => return None,
        };
        self.under_way = under_way;
        Some(effect)
    }

    fn begin_sync(&mut self, now: Duration) -> (UnderWay, Effect) {
        let (_, due) = self.pace.next(!self.pending.is_empty(), now);
        let about = std::mem::take(&mut self.pending);
        let scope = match due {
            Due::Full if self.source.is_complete => Scope::Everything,
            Due::Full => Scope::AllThatIsKnown,
            Due::Changes => Scope::Changed(about.before.keys().cloned().collect()),
        };
        (UnderWay::Sync(Box::new(about), due), Effect::Sync(scope))
    }
}
