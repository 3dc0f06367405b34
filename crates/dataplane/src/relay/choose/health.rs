//! Passive health: an endpoint that fails again and again is tried less until it recovers.
//!
//! In: how dials to one endpoint went. Out: whether it is left out for now.
//!
//! Absent on purpose: probes of our own. The first connection after a pause is the probe.

use std::time::{Duration, Instant};

/// So many failures in a row leave an endpoint out, ...
const FAILURES: u32 = 3;
/// ... first for so long, ...
const PAUSE_MIN: Duration = Duration::from_secs(1);
/// ... and, doubling, for so long at most.
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// How dials to one endpoint went.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Health {
    failures: u32,
    pause: Option<Pause>,
}

#[derive(Clone, Copy, Debug)]
struct Pause {
    length: Duration,
    until: Instant,
    is_probed: bool,
}

impl Health {
    /// Is it left out now?
    pub(super) fn is_out(&self, now: Instant) -> bool {
        self.pause.is_some_and(|pause| now < pause.until)
    }

    /// It is dialled. After a pause that is a probe: until its result is known, others stay away.
    pub(super) fn dialled(&mut self, now: Instant) {
        if let Some(pause) = &mut self.pause {
            pause.is_probed = true;
            pause.until = now + pause.length;
        }
    }

    /// It answered.
    pub(super) fn succeeded(&mut self) {
        *self = Self::default();
    }

    /// It did not.
    pub(super) fn failed(&mut self, now: Instant) {
        self.failures = self.failures.saturating_add(1);
        if self.failures < FAILURES {
            return;
        }
        let length = match self.pause {
            None => PAUSE_MIN,
            Some(pause) if pause.is_probed => (pause.length * 2).min(PAUSE_MAX),
            // Many dials may fail at the same time: together they are one reason to pause.
            Some(_) => return,
        };
        self.pause = Some(Pause { length, until: now + length, is_probed: false });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after_failures(count: u32, now: Instant) -> Health {
        let mut health = Health::default();
        (0..count).for_each(|_| health.failed(now));
        health
    }

    #[test]
    fn two_failures_are_forgiven_and_a_third_in_a_row_is_not() {
        let now = Instant::now();
        assert!(!after_failures(2, now).is_out(now));
        assert!(after_failures(3, now).is_out(now));
        let mut health = after_failures(2, now);
        health.succeeded();
        health.failed(now);
        assert!(!health.is_out(now));
    }

    #[test]
    fn pauses_grow_with_each_failed_probe_and_end_with_a_success() {
        let mut now = Instant::now();
        let mut health = after_failures(3, now);
        for seconds in [1, 2, 4, 8, 16, 30, 30] {
            assert!(health.is_out(now + Duration::from_millis(seconds * 1000 - 1)), "{seconds}");
            now += Duration::from_secs(seconds);
            assert!(!health.is_out(now), "{seconds}");
            health.dialled(now);
            health.failed(now);
        }
        now += Duration::from_secs(30);
        health.dialled(now);
        health.succeeded();
        assert!(!health.is_out(now));
    }

    #[test]
    fn failures_at_the_same_time_make_one_pause() {
        let now = Instant::now();
        assert!(!after_failures(1000, now).is_out(now + PAUSE_MIN));
    }

    #[test]
    fn while_a_probe_is_on_its_way_others_stay_away() {
        let now = Instant::now();
        let mut health = after_failures(3, now);
        health.dialled(now + PAUSE_MIN);
        assert!(health.is_out(now + PAUSE_MIN));
    }
}
