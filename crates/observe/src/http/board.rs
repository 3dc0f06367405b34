//! What the loop tells the servers, at a place where both can look: values, replaced after each step. Who asks for health is counted here:
//! the loop does not meet them.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;

use crate::health::{HealthFacts, Readiness};
use crate::metrics::{Metrics, Probe, Probes};

/// Reads the time: since the start of the process, and of the day. The reader of an answer wants that of its question, whatever the loop
/// does meanwhile.
type Clock = dyn Fn() -> (Duration, Timestamp) + Send + Sync;

/// The place.
#[derive(Clone)]
pub struct Board {
    clock: Arc<Clock>,
    notes: Arc<Mutex<Notes>>,
}

/// What stands there.
#[derive(Clone, Debug, Default)]
pub(super) struct Notes {
    pub(super) health: HealthFacts,
    pub(super) metrics: Metrics,
    pub(super) probes: Probes,
}

impl Board {
    /// A place where nothing was told yet.
    pub fn new(clock: impl Fn() -> (Duration, Timestamp) + Send + Sync + 'static) -> Self {
        Self { clock: Arc::new(clock), notes: Arc::default() }
    }

    /// How long the process runs.
    pub fn elapsed(&self) -> Duration {
        (self.clock)().0
    }

    /// The time of day.
    pub(super) fn wall(&self) -> Timestamp {
        (self.clock)().1
    }

    /// This is how it is now.
    pub fn publish(&self, health: HealthFacts, metrics: Metrics) {
        let mut notes = self.lock();
        (notes.health, notes.metrics) = (health, metrics);
    }

    /// Somebody asked for health and got this answer.
    pub(super) fn count(&self, probe: Probe, code: u16) {
        self.lock().probes.count(probe, code);
    }

    /// Healthy or not, as far as that is known.
    pub(super) fn health(&self) -> HealthFacts {
        self.lock().health.clone()
    }

    /// Whether the rules of this process are in force, without waiting for the loop.
    pub fn readiness(&self) -> Readiness {
        self.health().readiness(self.elapsed())
    }

    /// All of it.
    pub(super) fn read(&self) -> Notes {
        self.lock().clone()
    }

    /// Whoever panicked while it was here has replaced a value at most.
    fn lock(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Board {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Board").field("notes", &self.notes).finish_non_exhaustive()
    }
}
