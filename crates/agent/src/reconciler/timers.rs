//! When each task of the loop is due: the one place where the loop remembers times.
//!
//! In: deadlines, set when something happened, and failures. Out: which task comes first, of those that the loop lets run now.
//! A task is in the queue once at most. Of two that are due at the same time, the one that is declared first in [`Task`] goes first.
//!
//! A task that fails is tried again after a wait that doubles. The count of its failures stays until it is cleared.
//!
//! Absent on purpose: a clock, and the rule that one thing is done at a time. `next` decides what may run beside what.

use std::collections::BTreeMap;
use std::time::Duration;

use model::rate::BackOff;

use super::errands::ErrandKind;
use super::pace::BACK_OFF;

/// What the loop does at some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Task {
    /// Delete what nothing leads to any more.
    Settle,
    /// Something beside the rules.
    Errand(ErrandKind),
    /// Look again whether endpoints that are gone have connections left, and settle.
    Drain,
    /// Bring the kernel to the table.
    Sync,
    /// Glance whether others have flushed our rules, where the kernel does not tell of it.
    Glance,
    /// Look whether rules of others, or of the previous process, serve Services.
    Look,
    /// Check the preconditions of this host.
    Examine,
    /// Write the state folder again, after it failed.
    RetryStore,
    /// Give addresses to Services that wait for the state folder.
    RetryAllocation,
    /// Ask whether the API server has told enough to write rules.
    LoadFromServer,
}

impl Task {
    /// Is the loop busy while it is done? All others are done within a step, by a tick.
    pub(super) fn occupies_the_loop(self) -> bool {
        match self {
            Task::Settle | Task::Errand(_) | Task::Drain | Task::Sync | Task::Glance | Task::Look => true,
            Task::Examine | Task::RetryStore | Task::RetryAllocation | Task::LoadFromServer => false,
        }
    }
}

/// When each task is due.
#[derive(Debug, Default)]
pub(super) struct Timers {
    due: BTreeMap<Task, Duration>,
    failing: BTreeMap<Task, BackOff>,
}

impl Timers {
    /// It is due then, whatever was said before; with `None`, never.
    pub(super) fn set(&mut self, task: Task, at: impl Into<Option<Duration>>) {
        match at.into() {
            Some(at) => drop(self.due.insert(task, at)),
            None => drop(self.due.remove(&task)),
        }
    }

    /// It is due then, unless it has a time already.
    pub(super) fn set_if_absent(&mut self, task: Task, at: Duration) {
        self.due.entry(task).or_insert(at);
    }

    /// It is due then at the latest, if it is due at all.
    pub(super) fn bring_forward(&mut self, task: Task, at: Duration) {
        if let Some(due) = self.due.get_mut(&task) {
            *due = at.min(*due);
        }
    }

    /// It is done, or no longer wanted: its failures are forgotten too.
    pub(super) fn clear(&mut self, task: Task) {
        self.due.remove(&task);
        self.failing.remove(&task);
    }

    /// It failed, after it had taken so long. Returns when it is tried again: not sooner than it took, so that other work has half of
    /// the time at least.
    pub(super) fn failed(&mut self, task: Task, now: Duration, took: Duration) -> Duration {
        let wait = self.failing.entry(task).or_insert(BACK_OFF).failed();
        let at = now + wait.max(took);
        self.due.insert(task, at);
        at
    }

    /// How often it failed in a row.
    pub(super) fn failures(&self, task: Task) -> u32 {
        self.failing.get(&task).map_or(0, BackOff::failures)
    }

    /// When it is due, if it is.
    pub(super) fn at(&self, task: Task) -> Option<Duration> {
        self.due.get(&task).copied()
    }

    /// Has its time come?
    pub(super) fn is_due(&self, task: Task, now: Duration) -> bool {
        self.at(task).is_some_and(|at| at <= now)
    }

    /// The first of those that may run, and when. `may_run_from` tells from when on a task may; `None` where it may not at all.
    pub(super) fn first(&self, may_run_from: impl Fn(Task) -> Option<Duration>) -> Option<(Duration, Task)> {
        let admitted = self.due.iter().filter_map(|(task, at)| Some((may_run_from(*task)?.max(*at), *task)));
        admitted.min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    /// The first, where every task may run.
    fn first(timers: &Timers) -> Option<(Duration, Task)> {
        timers.first(|_| Some(Duration::ZERO))
    }

    #[test]
    fn the_earliest_goes_first_and_of_two_at_once_the_one_declared_first() {
        let mut timers = Timers::default();
        assert_eq!(first(&timers), None);
        timers.set(Task::Sync, ms(20));
        timers.set(Task::Glance, ms(10));
        assert_eq!(first(&timers), Some((ms(10), Task::Glance)));
        timers.set(Task::Errand(ErrandKind::TakeOver), ms(10));
        timers.set(Task::Errand(ErrandKind::End), ms(10));
        assert_eq!(first(&timers), Some((ms(10), Task::Errand(ErrandKind::End))));
        timers.set(Task::Settle, ms(10));
        assert_eq!(first(&timers), Some((ms(10), Task::Settle)));
    }

    #[test]
    fn a_task_that_may_not_run_is_passed_by_and_one_that_may_later_waits() {
        let mut timers = Timers::default();
        timers.set(Task::Sync, ms(20));
        timers.set(Task::Drain, ms(10));
        let without_drain = |task| (task != Task::Drain).then_some(ms(0));
        assert_eq!(timers.first(without_drain), Some((ms(20), Task::Sync)));
        let drain_later = |task| Some(if task == Task::Drain { ms(30) } else { ms(0) });
        assert_eq!(timers.first(drain_later), Some((ms(20), Task::Sync)));
        timers.set(Task::Sync, None);
        assert_eq!(timers.first(drain_later), Some((ms(30), Task::Drain)));
    }

    #[test]
    fn a_time_can_be_replaced_brought_forward_and_kept() {
        let mut timers = Timers::default();
        timers.bring_forward(Task::Glance, ms(5));
        assert_eq!(timers.at(Task::Glance), None, "nobody wants it");
        timers.set_if_absent(Task::Glance, ms(10));
        timers.set_if_absent(Task::Glance, ms(7));
        assert_eq!(timers.at(Task::Glance), Some(ms(10)));
        timers.bring_forward(Task::Glance, ms(12));
        timers.bring_forward(Task::Glance, ms(8));
        assert_eq!((timers.is_due(Task::Glance, ms(7)), timers.is_due(Task::Glance, ms(8))), (false, true));
        timers.set(Task::Glance, ms(9));
        assert_eq!(timers.at(Task::Glance), Some(ms(9)));
    }

    #[test]
    fn a_try_that_took_long_is_not_repeated_sooner() {
        let (mut timers, task) = (Timers::default(), Task::Errand(ErrandKind::Forget));
        assert_eq!(timers.failed(task, ms(9_000), ms(5_000)), ms(14_000));
        assert_eq!(timers.failed(task, ms(20_000), ms(1)), ms(20_200), "the wait doubles");
    }

    #[test]
    fn a_task_that_fails_waits_ever_longer_until_it_is_done() {
        let mut timers = Timers::default();
        assert_eq!(timers.failed(Task::RetryStore, ms(1000), ms(0)), ms(1100));
        assert_eq!(timers.failed(Task::RetryStore, ms(2000), ms(0)), ms(2200));
        assert_eq!((timers.at(Task::RetryStore), timers.failures(Task::RetryStore)), (Some(ms(2200)), 2));
        assert_eq!(timers.failures(Task::RetryAllocation), 0, "each has its own");
        timers.clear(Task::RetryStore);
        assert_eq!((first(&timers), timers.failures(Task::RetryStore)), (None, 0));
        assert_eq!(timers.failed(Task::RetryStore, ms(3000), ms(0)), ms(3100), "a first failure again");
    }
}
