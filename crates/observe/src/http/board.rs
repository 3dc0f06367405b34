//! What the loop tells the servers, at a place where both can look: values, replaced after each step.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;

use crate::health::{HealthFacts, Readiness};
use crate::metrics::{Gauges, Meters};

/// The place.
#[derive(Clone, Debug)]
pub struct Board {
    started: Instant,
    notes: Arc<Mutex<Notes>>,
}

/// What stands there.
#[derive(Clone, Debug)]
pub(super) struct Notes {
    pub(super) health: HealthFacts,
    pub(super) gauges: Gauges,
    pub(super) meters: Meters,
}

impl Board {
    /// A place where nothing was told yet, of a process that started then.
    pub fn new(started: Instant) -> Self {
        let meters = Meters::new(Timestamp::now());
        let notes = Notes { health: HealthFacts::default(), gauges: Gauges::default(), meters };
        Self { started, notes: Arc::new(Mutex::new(notes)) }
    }

    /// How long the process runs.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// This is how it is now.
    pub fn publish(&self, health: HealthFacts, gauges: Gauges) {
        let mut notes = self.lock();
        if !gauges.is_pending {
            notes.meters.nothing_pends();
        }
        (notes.health, notes.gauges) = (health, gauges);
    }

    /// Something was counted.
    pub fn measure(&self, count: impl FnOnce(&mut Meters)) {
        count(&mut self.lock().meters);
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
