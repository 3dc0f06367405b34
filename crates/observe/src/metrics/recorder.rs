//! What is counted while the loop runs. Every number is counted here and nowhere else.
//!
//! In: the changes that came, and what became of each sync and errand; who asked for health. Out: [`Metrics`], for the page of metrics and
//! for the status.

use std::collections::BTreeMap;
use std::time::Duration;

use apiserver::{News, Watched};
use dataplane::{RuleCounts, SyncError, Synced};
use jiff::Timestamp;
use model::{ByFamily, Family};
use serde_json::Value;
use standalone::objects::{Change, Kind, Object};

use super::Gauges;
use super::histogram::{Histogram, PROGRAMMING_SECONDS, SYNC_SECONDS};

/// The controller of slices writes here when what it tells of has happened.
const TRIGGER: &str = "endpoints.kubernetes.io/last-change-trigger-time";
/// So many changes are timed between two syncs.
const TRIGGERS_MAX: usize = 65_536;

/// What was counted, and what the loop knows at the moment. Both families are written in one sync, so what is about syncs is counted once
/// for both.
#[derive(Clone, Debug)]
pub struct Metrics {
    /// What the loop knows at the moment.
    pub gauges: Gauges,
    pub(super) syncs: Histogram,
    pub(super) full_syncs: Histogram,
    pub(super) partial_syncs: Histogram,
    pub(super) synced_at: Option<Timestamp>,
    pub(super) queued_at: Option<Timestamp>,
    pub(super) programming: ByFamily<Histogram>,
    pub(super) services: Changes,
    pub(super) endpoints: Changes,
    pub(super) failures: u64,
    pub(super) partial_failures: u64,
    pub(super) cleanup_failures: u64,
    pub(super) store_failures: u64,
    pub(super) reconciling: ByFamily<Histogram>,
    pub(super) flows: ByFamily<u64>,
    /// Connections to vanished endpoints that were ended.
    pub(super) ended: u64,
    pub(super) rules: RuleCounts,
    /// Syncs that went well and read the kernel, whether or not that was asked for.
    pub full_reads: u64,
    /// Operations written in all.
    pub operations: u64,
    /// How often rules were put right that others had changed.
    pub repairs: u64,
    /// Operations that this took.
    pub repair_operations: u64,
}

/// Counts what happens to the loop.
#[derive(Debug)]
pub struct Recorder {
    started: Timestamp,
    metrics: Metrics,
    /// When what waits to be written happened. There may be many, so they are no part of what is published.
    triggers: Vec<(Family, Timestamp)>,
}

/// How often it was asked for health, by what was asked and the code of the answer.
#[derive(Clone, Debug, Default)]
pub struct Probes(pub(super) BTreeMap<(Probe, u16), u64>);

/// Changes of one kind of object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Changes {
    pub(super) total: u64,
    /// Since the last sync that went well.
    pub(super) pending: u64,
}

/// Who asks for health.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Probe {
    /// `/healthz`: may load balancers send clients here?
    Healthz,
    /// `/livez`: should the process be started anew?
    Livez,
}

/// A pass through the connection tracker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pass {
    /// Whose flows were looked at.
    pub family: Family,
    /// How many were forgotten.
    pub flows: u64,
    /// How long it took.
    pub took: Duration,
}

impl Default for Metrics {
    fn default() -> Self {
        let by_family = |bounds| ByFamily { v4: Histogram::new(bounds), v6: Histogram::new(bounds) };
        Self {
            gauges: Gauges::default(),
            syncs: Histogram::new(SYNC_SECONDS),
            full_syncs: Histogram::new(SYNC_SECONDS),
            partial_syncs: Histogram::new(SYNC_SECONDS),
            synced_at: None,
            queued_at: None,
            programming: by_family(PROGRAMMING_SECONDS),
            services: Changes::default(),
            endpoints: Changes::default(),
            failures: 0,
            partial_failures: 0,
            cleanup_failures: 0,
            store_failures: 0,
            reconciling: by_family(SYNC_SECONDS),
            flows: ByFamily::default(),
            ended: 0,
            rules: RuleCounts::default(),
            full_reads: 0,
            operations: 0,
            repairs: 0,
            repair_operations: 0,
        }
    }
}

impl Metrics {
    /// Syncs that went well.
    pub fn syncs(&self) -> u64 {
        self.syncs.count() - self.failures
    }

    /// Syncs, deletions and allocations of addresses that failed.
    pub fn failures(&self) -> u64 {
        self.failures + self.cleanup_failures + self.store_failures
    }

    /// Flows that led nowhere and were forgotten.
    pub fn flows_forgotten(&self) -> u64 {
        self.flows.iter().map(|(_, flows)| flows).sum()
    }
}

impl Recorder {
    /// Nothing was counted yet.
    pub fn new(started: Timestamp) -> Self {
        Self { started, metrics: Metrics::default(), triggers: Vec::new() }
    }

    /// What was counted.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// What is published: what was counted, and what the loop knows at the moment.
    pub fn metrics_with(&self, gauges: Gauges) -> Metrics {
        Metrics { gauges, ..self.metrics.clone() }
    }

    /// These changes came. Pods count as endpoints: without a cluster, slices are made from them.
    pub fn heard(&mut self, changes: &[Change], now: Timestamp) {
        for change in changes {
            let kind = match change {
                Change::Apply(object) => object.key.kind,
                Change::Delete(key) => key.kind,
            };
            match kind {
                Kind::Service => self.metrics.services.count(),
                Kind::EndpointSlice | Kind::Pod => self.metrics.endpoints.count(),
                Kind::Node | Kind::ServiceCidr => {}
            }
            if let Change::Apply(object) = change
                && self.triggers.len() < TRIGGERS_MAX
            {
                self.triggers.extend(trigger(object).filter(|(_, at)| *at > self.started));
            }
        }
        if !changes.is_empty() {
            self.metrics.queued_at = Some(now);
        }
    }

    /// An API server told this.
    pub fn told(&mut self, news: &News, now: Timestamp) {
        let News::Changed { of, events, triggers } = news else { return };
        let changes = match of {
            Watched::Services => &mut self.metrics.services,
            Watched::EndpointSlices => &mut self.metrics.endpoints,
            Watched::Node | Watched::ServiceCidrs => return,
        };
        for _ in events {
            changes.count();
        }
        self.metrics.queued_at = (!events.is_empty()).then_some(now).or(self.metrics.queued_at);
        let room = TRIGGERS_MAX.saturating_sub(self.triggers.len());
        let since_start = triggers.iter().filter(|(_, at)| *at > self.started);
        self.triggers.extend(since_start.take(room));
    }

    /// Nothing waits to be written: what came changed nothing.
    pub fn nothing_pends(&mut self) {
        (self.metrics.services.pending, self.metrics.endpoints.pending) = (0, 0);
        self.triggers.clear();
    }

    /// A sync ended. `was_full` says what was asked for.
    pub fn synced(
        &mut self,
        result: &Result<Synced, SyncError>,
        was_full: bool,
        took: Duration,
        now: Timestamp,
    ) {
        self.metrics.syncs.observe(took);
        if was_full {
            self.metrics.full_syncs.observe(took);
        } else {
            self.metrics.partial_syncs.observe(took);
        }
        match result {
            Err(_) => {
                self.metrics.failures += 1;
                self.metrics.partial_failures += u64::from(!was_full);
            }
            Ok(synced) => {
                self.metrics.synced_at = Some(now);
                self.metrics.full_reads += u64::from(synced.was_full);
                self.metrics.operations += synced.operations as u64;
                self.metrics.rules.clone_from(&synced.rules);
                for (family, at) in std::mem::take(&mut self.triggers) {
                    let since = Duration::try_from(now.duration_since(at)).unwrap_or_default();
                    self.metrics.programming.get_mut(family).observe(since);
                }
                self.nothing_pends();
            }
        }
    }

    /// Deletions that waited ended.
    pub fn settled(&mut self, result: &Result<Synced, SyncError>) {
        match result {
            Ok(synced) => self.metrics.operations += synced.operations as u64,
            Err(_) => self.metrics.cleanup_failures += 1,
        }
    }

    /// What others had changed was put right.
    pub fn repaired(&mut self, operations: usize) {
        self.metrics.repairs += 1;
        self.metrics.repair_operations += operations as u64;
    }

    /// Addresses could not be given.
    pub fn store_failed(&mut self) {
        self.metrics.store_failures += 1;
    }

    /// Something was done beside the rules: so many connections were ended, in these passes through the connection tracker.
    pub fn ran(&mut self, ended: u64, passes: &[Pass]) {
        self.metrics.ended += ended;
        for pass in passes {
            self.metrics.reconciling.get_mut(pass.family).observe(pass.took);
            *self.metrics.flows.get_mut(pass.family) += pass.flows;
        }
    }
}

impl Probes {
    /// Somebody asked for health and got this answer.
    pub fn count(&mut self, probe: Probe, code: u16) {
        *self.0.entry((probe, code)).or_default() += 1;
    }
}

impl Changes {
    fn count(&mut self) {
        self.total += 1;
        self.pending += 1;
    }
}

/// When what a slice tells of has happened, where it says so.
fn trigger(object: &Object) -> Option<(Family, Timestamp)> {
    let slice = &*object.value;
    if object.key.kind != Kind::EndpointSlice {
        return None;
    }
    let family = match slice.get("addressType").and_then(Value::as_str)? {
        "IPv4" => Family::V4,
        "IPv6" => Family::V6,
        _ => return None,
    };
    let written = slice.pointer("/metadata/annotations")?.get(TRIGGER)?.as_str()?;
    written.parse().ok().map(|at| (family, at))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use standalone::objects::ObjectKey;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("a moment")
    }

    fn slice(happened: i64) -> Change {
        let value = json!({
            "kind": "EndpointSlice", "addressType": "IPv6",
            "metadata": { "name": "web-1", "namespace": "default", "annotations": { TRIGGER: at(happened).to_string() } },
        });
        let key = ObjectKey::of(Kind::EndpointSlice, &value).expect("a name");
        Change::Apply(Object { key, origin: None, value: Arc::new(value) })
    }

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_change_is_timed_from_its_trigger_to_the_sync_that_writes_it() {
        let mut recorder = Recorder::new(at(1000));
        recorder.heard(&[slice(1010), slice(900)], at(1011));
        assert_eq!((recorder.metrics.endpoints.total, recorder.metrics.endpoints.pending), (2, 2));
        recorder.synced(&Err(kernel::nft::Error::OutOfMemory.into()), false, SECOND, at(1012));
        assert_eq!(
            (recorder.metrics.programming.v6.count(), recorder.metrics.partial_failures),
            (0, 1),
            "not yet in force"
        );
        recorder.synced(&Ok(Synced::default()), true, SECOND, at(1014));
        assert_eq!(
            recorder.metrics.programming.v6.count(),
            1,
            "what happened before we started is not our delay"
        );
        assert!((recorder.metrics.programming.v6.sum() - 4.0).abs() < 1e-9);
        assert_eq!((recorder.metrics.programming.v4.count(), recorder.metrics.endpoints.pending), (0, 0));
        assert_eq!(
            (
                recorder.metrics.full_syncs.count(),
                recorder.metrics.partial_syncs.count(),
                recorder.metrics.syncs.count()
            ),
            (1, 1, 2)
        );
    }

    #[test]
    fn what_an_api_server_tells_is_timed_too() {
        let mut recorder = Recorder::new(at(1000));
        let told = |triggers| News::Changed {
            of: Watched::EndpointSlices,
            events: vec![model::Event::DeleteSlice(model::ServiceName::new("default", "web-1"))],
            triggers,
        };
        recorder.told(&told(vec![(Family::V4, at(999)), (Family::V6, at(1010))]), at(1011));
        recorder.told(&told(vec![(Family::V6, at(1011))]), at(1011));
        recorder.synced(&Ok(Synced::default()), false, SECOND, at(1012));
        assert_eq!(
            (recorder.metrics.programming.v4.count(), recorder.metrics.programming.v6.count()),
            (0, 2)
        );
        assert!((recorder.metrics.programming.v6.sum() - 3.0).abs() < 1e-9);
        recorder.synced(&Ok(Synced::default()), true, SECOND, at(1044));
        assert_eq!(recorder.metrics.programming.v6.count(), 2, "each is timed once");
    }

    #[test]
    fn what_changed_nothing_is_not_timed() {
        let mut recorder = Recorder::new(at(1000));
        recorder.heard(&[slice(1010)], at(1011));
        recorder.nothing_pends();
        recorder.synced(&Ok(Synced::default()), true, SECOND, at(1044));
        assert_eq!((recorder.metrics.programming.v6.count(), recorder.metrics.endpoints.total), (0, 1));
    }
}
