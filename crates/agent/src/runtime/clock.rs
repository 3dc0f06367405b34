//! A clock that never goes back, and the time of day.

use std::time::Instant;

use crate::reconciler::Now;

/// A clock that never goes back, and the time of day.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    started: Instant,
}

impl Clock {
    pub(super) fn start() -> Self {
        Self { started: Instant::now() }
    }

    pub(super) fn now(&self) -> Now {
        Now { elapsed: self.started.elapsed(), wall: jiff::Timestamp::now() }
    }
}
