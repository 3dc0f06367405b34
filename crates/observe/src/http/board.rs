//! What the loop tells the servers, at a place where both can look: values, replaced after each step. Who asks for health is counted here:
//! the loop does not meet them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::health::{HealthFacts, Readiness};
use crate::metrics::{Metrics, Probe, Probes};

/// The place.
#[derive(Clone, Debug)]
pub struct Board {
    started: Instant,
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
    /// A place where nothing was told yet, of a process that started then.
    pub fn new(started: Instant) -> Self {
        Self { started, notes: Arc::default() }
    }

    /// How long the process runs.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
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
