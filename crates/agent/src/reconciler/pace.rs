//! When the next sync may begin.
//!
//! A single change is written at once. After that the next sync waits: at least `min_sync_period` from the *end* of the last
//! one, and longer when syncs are slow, so that a storm of changes is written in batches and syncs take a fifth of the time
//! at most. After a failure the wait doubles, to `sync_period` at most, and the next pass is a full one. And every `sync_period` everything is compared,
//! whatever happened; on a huge node, where that takes seconds, less often, so that it takes a twentieth of the time at most.
//!
//! Absent on purpose: a clock. Times are durations since the start of the process, and are handed in.

use std::time::Duration;

use config::PaceOptions;
use model::rate::BackOff;

/// After a slow sync, rest this many times as long as it took.
const REST: u32 = 4;
/// But never longer than this.
const REST_MAX: Duration = Duration::from_secs(1);
/// After comparing everything, wait at least this many times as long as it took.
const REST_FULL: u32 = 20;
/// The waits after failures of whatever the loop does.
pub(super) const BACK_OFF: BackOff = BackOff::new(Duration::from_millis(100), Duration::from_secs(30));
/// The longest while something new waits: it may be what puts things right.
const BACK_OFF_NEWS: Duration = Duration::from_secs(1);

/// What kind of sync is next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// Compare everything.
    Full,
    /// Follow what changed.
    Changes,
}

/// The pace of syncs.
#[derive(Clone, Debug)]
pub(super) struct Pace {
    options: PaceOptions,
    /// When the last sync ended, and how long it took.
    last: Option<(Duration, Duration)>,
    /// When everything was last compared.
    compared_at: Duration,
    /// How long that takes, as far as it is known.
    comparing: Duration,
    back_off: BackOff,
    has_news: bool,
    /// Everything is to be compared by this time, whatever the period says.
    compare_by: Option<Duration>,
}

impl Pace {
    /// Nothing was synced yet.
    pub(super) fn new(options: PaceOptions) -> Self {
        Self {
            options,
            last: None,
            compared_at: Duration::ZERO,
            comparing: Duration::ZERO,
            back_off: BACK_OFF,
            has_news: false,
            compare_by: None,
        }
    }

    /// The operator chose another pace.
    pub(super) fn choose(&mut self, options: PaceOptions) {
        self.options = options;
    }

    /// A sync went well. How long one took that also wrote does not tell how long comparing takes: after a slow cold start nobody would look
    /// for a long time.
    pub(super) fn succeeded(&mut self, now: Duration, took: Duration, was: Due, has_written: bool) {
        self.last = Some((now, took));
        self.back_off.reset();
        self.has_news = false;
        if was == Due::Full {
            self.compared_at = now;
            self.compare_by = None;
        }
        if was == Due::Full && !has_written {
            self.comparing = took;
        }
    }

    /// A sync failed.
    pub(super) fn failed(&mut self, now: Duration, took: Duration) {
        self.last = Some((now, took));
        self.back_off.failed();
        self.has_news = false;
    }

    /// Something new is to be written.
    pub(super) fn has_news(&mut self) {
        self.has_news = true;
    }

    /// Everything is to be compared by then, at the latest.
    pub(super) fn compare_by(&mut self, at: Duration) {
        self.compare_by = Some(self.compare_by.map_or(at, |earlier| earlier.min(at)));
    }

    /// When the next sync may begin, and what kind it is.
    pub(super) fn next(&self, has_changes: bool, now: Duration) -> (Duration, Due) {
        let Some((ended, took)) = self.last else { return (Duration::ZERO, Due::Full) };
        if let Some(wait) = self.back_off.wait() {
            let soon = if self.has_news { wait.min(BACK_OFF_NEWS) } else { wait };
            // As upstream: a failure is tried again within the period at the latest.
            return (ended + soon.min(self.options.sync_period), Due::Full);
        }
        let rested = ended + self.options.min_sync_period.max((took * REST).min(REST_MAX));
        let period = self.options.sync_period.max(self.comparing * REST_FULL);
        let full = (self.compared_at + period).max(rested);
        // What others broke does not rest.
        let full = self.compare_by.map_or(full, |at| at.min(full));
        // Comparing follows the changes too.
        if has_changes && rested < full && full > now { (rested, Due::Changes) } else { (full, Due::Full) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    #[test]
    fn the_first_sync_is_full_and_at_once() {
        assert_eq!(Pace::new(PaceOptions::default()).next(false, ms(0)), (ms(0), Due::Full));
    }

    #[test]
    fn the_interval_counts_from_the_end_and_grows_with_the_work() {
        let mut pace = Pace::new(PaceOptions::default());
        pace.succeeded(ms(1000), ms(2), Due::Full, false);
        assert_eq!(pace.next(true, ms(0)), (ms(1050), Due::Changes));
        assert_eq!(pace.next(false, ms(0)), (ms(31_000), Due::Full));
        pace.succeeded(ms(2000), ms(100), Due::Changes, true);
        assert_eq!(pace.next(true, ms(0)), (ms(2400), Due::Changes));
        pace.succeeded(ms(9000), ms(5000), Due::Changes, true);
        assert_eq!(pace.next(true, ms(0)), (ms(10_000), Due::Changes), "the rest is bounded");
        assert_eq!(
            pace.next(false, ms(0)),
            (ms(31_000), Due::Full),
            "only a full pass puts off the next one"
        );
    }

    #[test]
    fn comparing_everything_leaves_time_for_other_things() {
        let mut pace = Pace::new(PaceOptions::default());
        pace.succeeded(ms(0), ms(9000), Due::Full, true);
        assert_eq!(pace.next(false, ms(0)), (ms(30_000), Due::Full), "most of that was writing");
        pace.succeeded(ms(0), ms(3000), Due::Full, false);
        assert_eq!(pace.next(false, ms(0)), (ms(60_000), Due::Full));
    }

    #[test]
    fn failures_double_the_wait_up_to_half_a_minute() {
        let mut pace = Pace::new(PaceOptions::default());
        let mut waits = Vec::new();
        for _ in 0..12 {
            pace.failed(ms(0), ms(1));
            waits.push(pace.next(true, ms(0)).0.as_millis());
        }
        assert_eq!(waits[..4], [100, 200, 400, 800]);
        assert_eq!(waits[11], 30_000);
        assert_eq!(pace.next(false, ms(0)).1, Due::Full);
        pace.has_news();
        assert_eq!(
            pace.next(true, ms(0)),
            (ms(1000), Due::Full),
            "news is not kept waiting for half a minute"
        );
        pace.succeeded(ms(40_000), ms(1), Due::Full, false);
        assert_eq!(pace.next(true, ms(0)), (ms(40_050), Due::Changes));
    }

    #[test]
    fn a_failure_is_tried_again_within_the_period() {
        let options = PaceOptions { sync_period: ms(5000), ..PaceOptions::default() };
        let mut pace = Pace::new(options);
        (0..12).for_each(|_| pace.failed(ms(0), ms(1)));
        assert_eq!(pace.next(true, ms(0)), (ms(5000), Due::Full));
        pace.choose(PaceOptions { sync_period: ms(2000), ..options });
        assert_eq!(pace.next(true, ms(0)), (ms(2000), Due::Full), "a new choice counts at once");
    }

    #[test]
    fn what_others_broke_is_compared_at_once_and_with_it_what_changed() {
        let mut pace = Pace::new(PaceOptions::default());
        pace.succeeded(ms(1000), ms(100), Due::Full, false);
        pace.compare_by(ms(1010));
        pace.compare_by(ms(1020));
        assert_eq!(pace.next(true, ms(1010)), (ms(1010), Due::Full));
        assert_eq!(pace.next(false, ms(1005)), (ms(1010), Due::Full));
        pace.succeeded(ms(1100), ms(1), Due::Changes, true);
        assert_eq!(pace.next(true, ms(1200)).1, Due::Full, "a sync of changes compares nothing");
        pace.succeeded(ms(1200), ms(1), Due::Full, false);
        assert_eq!(pace.next(true, ms(1250)), (ms(1250), Due::Changes));
    }
}
