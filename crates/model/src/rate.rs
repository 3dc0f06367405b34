//! How often something may be done: the wait after failures, and how many times in a while.
//!
//! In: failures, and moments as durations since any fixed one. Out: how long to wait, and whether there is room for one more.
//!
//! Absent on purpose: a clock, and chance. Who must not come back together with others spreads the wait.

use std::time::Duration;

/// A wait that doubles with every failure in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackOff {
    min: Duration,
    max: Duration,
    failures: u32,
}

impl BackOff {
    /// Nothing failed yet. The first wait is `min`, and none is longer than `max`.
    pub const fn new(min: Duration, max: Duration) -> Self {
        Self { min, max, failures: 0 }
    }

    /// It failed once more. Returns how long to wait.
    pub fn failed(&mut self) -> Duration {
        self.failures = self.failures.saturating_add(1);
        self.wait().unwrap_or_default()
    }

    /// The next failure is a first one.
    pub fn reset(&mut self) {
        self.failures = 0;
    }

    /// How often it failed in a row.
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// How long to wait after the last failure; `None` without one.
    pub fn wait(&self) -> Option<Duration> {
        let doublings = self.failures.checked_sub(1)?.min(16);
        Some((self.min * (1 << doublings)).min(self.max))
    }
}

/// So many times at once, and then once in so long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenBucket {
    size: u32,
    one_in: Duration,
    left: u32,
    /// When a token was last added, or none was missing.
    added_at: Duration,
}

impl TokenBucket {
    /// A full one.
    pub const fn new(size: u32, one_in: Duration) -> Self {
        Self { size, one_in, left: size, added_at: Duration::ZERO }
    }

    /// Takes a token. Whether there was one.
    pub fn take(&mut self, now: Duration) -> bool {
        self.refill(now);
        let is_there = self.left > 0;
        self.left = self.left.saturating_sub(1);
        is_there
    }

    fn refill(&mut self, now: Duration) {
        while self.left < self.size && now >= self.added_at + self.one_in {
            (self.left, self.added_at) = (self.left + 1, self.added_at + self.one_in);
        }
        if self.left == self.size {
            self.added_at = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_wait_doubles_up_to_the_longest_and_begins_anew() {
        let mut back_off = BackOff::new(SECOND, 5 * SECOND);
        assert_eq!(back_off.wait(), None);
        let waits: Vec<u64> = (0..40).map(|_| back_off.failed().as_secs()).collect();
        assert_eq!((&waits[..5], waits[39]), (&[1, 2, 4, 5, 5][..], 5));
        assert_eq!((back_off.failures(), back_off.wait()), (40, Some(5 * SECOND)));
        back_off.reset();
        assert_eq!((back_off.failures(), back_off.failed()), (0, SECOND));
    }

    #[test]
    fn a_bucket_gives_so_many_at_once_and_then_one_in_a_while() {
        let mut bucket = TokenBucket::new(3, 10 * SECOND);
        let mut taken = |second: u32| bucket.take(second * SECOND);
        assert_eq!([100, 100, 100, 100].map(&mut taken), [true, true, true, false]);
        assert_eq!([109, 110, 110].map(&mut taken), [false, true, false], "one in ten seconds");
        assert_eq!(
            [200, 200, 200, 200].map(&mut taken),
            [true, true, true, false],
            "full again, and not more"
        );
    }
}
