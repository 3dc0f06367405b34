//! How long things may take, and how long to wait after a failure.

use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

use model::rate::BackOff;

/// How long things may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// The first wait after a failure; it doubles from there.
    pub wait_min: Duration,
    /// The longest wait after a failure.
    pub wait_max: Duration,
    /// So long the server may take to begin an answer, and an account to be read.
    pub answer: Duration,
    /// An answer that has begun, or a watch, is given up when no byte came for so long.
    ///
    /// Servers send a bookmark about once a minute, so nothing shorter tells a quiet server from a dead one. A watch without one for
    /// longer is either dead, or on a server that sends none; asking again from where we are costs neither much.
    pub silence: Duration,
    /// A watch that ends sooner than this did not work; one that says nothing for longer was taken.
    pub at_once: Duration,
    /// After watches without failure for so long the next failure is a first one.
    pub calm: Duration,
    /// A question for a single Node waits for a random time up to this.
    pub lookup: Duration,
    /// A server that has only an older picture than ours is believed after so long: somebody has restored a backup.
    pub older: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            wait_min: Duration::from_millis(200),
            wait_max: Duration::from_secs(30),
            answer: Duration::from_secs(30),
            silence: Duration::from_secs(75),
            at_once: Duration::from_secs(1),
            calm: Duration::from_secs(5),
            older: Duration::from_secs(600),
            lookup: Duration::from_secs(5),
        }
    }
}

/// The longest `Retry-After` that is obeyed.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(600);

impl Pace {
    /// The waits after failures in a row. How long it took to fail counts for nothing: a list that fails late is as dear as one that
    /// fails at once.
    pub(crate) fn back_off(&self) -> BackOff {
        BackOff::new(self.wait_min, self.wait_max)
    }
}

/// A part of this wait, or longer where the server `wanted` that.
pub(crate) fn spread(wait: Duration, wanted: Option<Duration>) -> Duration {
    // Between half of it and all of it, so that the nodes of a cluster do not come back all at once.
    let own = wait.mul_f64(0.5 + 0.5 * chance());
    let wanted = wanted.unwrap_or_default().min(RETRY_AFTER_MAX);
    // What the server wants is a least: some of what we would have waited anyway spreads the nodes.
    if wanted > own { wanted + own } else { own }
}

/// A number from 0 to 1. Every new hasher of the standard library has keys of its own.
pub(crate) fn chance() -> f64 {
    let word = u32::try_from(RandomState::new().hash_one(0) >> 32).unwrap_or_default();
    f64::from(word) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_with_jitter_until_they_begin_anew() {
        let pace = Pace::default();
        let mut back_off = pace.back_off();
        for doubled in [200, 400, 800, 1600] {
            let wait = spread(back_off.failed(), None).as_millis();
            assert!((doubled / 2..=doubled).contains(&wait), "{wait} of {doubled}");
        }
        for _ in 0..20 {
            assert!(spread(back_off.failed(), None) <= pace.wait_max);
        }
        back_off.reset();
        assert!(spread(back_off.failed(), None) <= pace.wait_min);
    }

    #[test]
    fn what_the_server_wants_is_waited_at_least_and_not_for_ever() {
        let mut back_off = Pace::default().back_off();
        let mut wait = |seconds| spread(back_off.failed(), Some(Duration::from_secs(seconds)));
        assert!(wait(7) >= Duration::from_secs(7));
        assert!(wait(1_000_000) <= RETRY_AFTER_MAX + Pace::default().wait_max);
    }

    #[test]
    fn two_nodes_seldom_wait_equally_long() {
        let all: std::collections::BTreeSet<u128> =
            (0..100).map(|_| spread(Pace::default().back_off().failed(), None).as_micros()).collect();
        assert!(all.len() > 90, "{} different waits of 100", all.len());
    }
}
