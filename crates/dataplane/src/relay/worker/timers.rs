//! What a worker does at a certain time.
//!
//! Nothing is ever taken back: what has become pointless finds that out when its time comes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::{Duration, Instant};

use super::token::Slot;

/// What is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::relay) enum Due {
    /// The dial of a connection has taken too long.
    Dial(Slot),
    /// What a listener that was closed still has is cut.
    Cut(u32),
    /// UDP sessions of a listener may have ended.
    Sessions(u32),
    /// There may be room for connections again.
    Resume,
}

/// What is due, and when.
#[derive(Debug, Default)]
pub(in crate::relay) struct Timers {
    heap: BinaryHeap<Reverse<(Instant, Due)>>,
}

impl Timers {
    pub(in crate::relay) fn add(&mut self, at: Instant, due: Due) {
        self.heap.push(Reverse((at, due)));
    }

    /// How long to wait for the next.
    pub(super) fn wait(&self, now: Instant) -> Option<Duration> {
        self.heap.peek().map(|Reverse((at, _))| at.saturating_duration_since(now))
    }

    /// The next that is due now.
    pub(super) fn pop(&mut self, now: Instant) -> Option<Due> {
        let is_due = self.heap.peek().is_some_and(|Reverse((at, _))| *at <= now);
        if is_due { self.heap.pop().map(|Reverse((_, due))| due) } else { None }
    }
}
