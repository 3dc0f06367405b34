//! A clock that never goes back, and the time of day.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use model::time::Timestamp;

use crate::reconciler::Now;

/// A clock that never goes back, and the time of day.
#[derive(Debug)]
pub(super) struct Clock {
    pub(super) started: Instant,
}

impl Clock {
    pub(super) fn start() -> Self {
        Self { started: Instant::now() }
    }

    pub(super) fn now(&self) -> Now {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let wall = Timestamp(i64::try_from(since.as_secs()).unwrap_or(i64::MAX));
        Now { elapsed: self.started.elapsed(), wall }
    }
}
