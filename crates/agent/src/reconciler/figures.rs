//! What the [`Status`] of the loop tells of syncs and errands, apart from counts, which are in [`Metrics`].

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use dataplane::Synced;
use model::ServicePortId;
use model::time::Timestamp;
use observe::metrics::{Gauges, Metrics};
use observe::status::{Beside, Failures, LastSync, Status};

use super::errands::{Done, ErrandKind};
use super::event::Now;

/// So many take-overs are told.
const TOOK_OVER_MAX: usize = 32;

/// The figures behind a [`Status`].
#[derive(Debug)]
pub(super) struct Figures {
    started: Now,
    last: Option<(Now, Duration, usize, bool)>,
    in_a_row: u64,
    last_failure: Option<String>,
    pub(super) beside: Beside,
    waits: Vec<String>,
    pub(super) stays: Vec<String>,
    pub(super) refused: BTreeMap<ServicePortId, String>,
    pub(super) warned: BTreeMap<ServicePortId, String>,
}

impl Figures {
    pub(super) fn new(started: Now) -> Self {
        Self {
            started,
            last: None,
            in_a_row: 0,
            last_failure: None,
            beside: Beside::default(),
            waits: Vec::new(),
            stays: Vec::new(),
            refused: BTreeMap::new(),
            warned: BTreeMap::new(),
        }
    }

    pub(super) fn elapsed(&self, now: Now) -> Duration {
        now.elapsed.saturating_sub(self.started.elapsed)
    }

    /// A sync of these service ports went well. A full one tells of all.
    pub(super) fn synced(
        &mut self,
        synced: &Synced,
        about: &BTreeSet<ServicePortId>,
        now: Now,
        took: Duration,
    ) {
        self.last = Some((now, took, synced.operations, synced.was_full));
        self.in_a_row = 0;
        for (known, told) in [(&mut self.refused, &synced.refused), (&mut self.warned, &synced.warned)] {
            known.retain(|id, _| !synced.was_full && !about.contains(id));
            known.extend(told.clone());
        }
        self.took_over(&synced.replaced);
        self.waits.clone_from(&synced.waits);
        if synced.was_full {
            self.stays.clone_from(&synced.stays);
        }
    }

    pub(super) fn errand_done(&mut self, errand: ErrandKind, done: &Done) {
        self.beside.failing.remove(errand.doing());
        self.took_over(&done.removed);
        if errand == ErrandKind::TakeOver {
            self.beside.stays.clone_from(&done.stays);
        }
    }

    /// The same is told once, and not without end.
    fn took_over(&mut self, what: &[String]) {
        let known = &mut self.beside.took_over;
        for one in what {
            if known.len() < TOOK_OVER_MAX && !known.contains(one) {
                known.push(one.clone());
            }
        }
    }

    /// Whether it is news that this errand fails for this reason.
    pub(super) fn errand_failed(&mut self, errand: ErrandKind, reason: &str) -> bool {
        self.beside.failing.insert(errand.doing().to_owned(), reason.to_owned()).as_deref() != Some(reason)
    }

    pub(super) fn failed(&mut self, reason: String) {
        self.in_a_row += 1;
        self.last_failure = Some(reason);
    }

    /// Addresses could not be given.
    pub(super) fn store_failed(&mut self, reason: String) {
        self.last_failure = Some(reason);
    }

    /// What is not written because something else must come first.
    pub(super) fn waits(&self) -> &[String] {
        &self.waits
    }

    /// Whether a sync ever went well.
    pub(super) fn has_synced(&self) -> bool {
        self.last.is_some()
    }

    /// The part of the gauges that the figures tell.
    pub(super) fn gauges(&self) -> Gauges {
        let (refused, warned) = (self.refused.len(), self.warned.len());
        Gauges { refused, warned, ..Gauges::default() }
    }

    /// When a sync last went well.
    pub(super) fn updated(&self) -> Option<Timestamp> {
        self.last.map(|(at, ..)| at.seconds())
    }

    pub(super) fn failures_in_a_row(&self) -> u64 {
        self.in_a_row
    }

    /// Why a sync, or an allocation of addresses, last failed.
    pub(super) fn last_failure(&self) -> Option<&str> {
        self.last_failure.as_deref()
    }

    /// The part of the status that the figures tell, and what was counted.
    pub(super) fn status(&self, counted: &Metrics, now: Now, retry_at: Option<Duration>) -> Status {
        let retry_in_ms = retry_at.map(|at| milliseconds(at.saturating_sub(now.elapsed)));
        Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            since: text(self.started.seconds()),
            uptime_seconds: self.elapsed(now).as_secs(),
            last_sync: self.last.map(|last| last_sync(last, now)),
            syncs: counted.syncs(),
            full_syncs: counted.full_reads,
            operations: counted.operations,
            failures: Failures {
                total: counted.failures(),
                in_a_row: self.in_a_row,
                last: self.last_failure.clone(),
                retry_in_ms,
            },
            beside: Beside {
                stays: self.waits.iter().chain(&self.stays).chain(&self.beside.stays).cloned().collect(),
                flows_forgotten: counted.flows_forgotten(),
                ..self.beside.clone()
            },
            refused: named(&self.refused),
            warned: named(&self.warned),
            ..Status::default()
        }
    }
}

pub(super) fn named(reasons: &BTreeMap<impl ToString, String>) -> BTreeMap<String, String> {
    reasons.iter().map(|(id, reason)| (id.to_string(), reason.clone())).collect()
}

fn last_sync((at, took, operations, full): (Now, Duration, usize, bool), now: Now) -> LastSync {
    let seconds_ago = now.elapsed.saturating_sub(at.elapsed).as_secs();
    LastSync { at: text(at.seconds()), seconds_ago, took_ms: milliseconds(took), operations, full }
}

pub(crate) fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

pub(super) fn text(moment: Timestamp) -> String {
    jiff::Timestamp::from_second(moment.0).map(|moment| moment.to_string()).unwrap_or_default()
}
