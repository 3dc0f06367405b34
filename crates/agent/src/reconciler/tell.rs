//! Answers, and the status.

use std::collections::BTreeMap;

use dataplane::Counted;
use observe::question::{Answer, Question};
use observe::status::{DriftStatus, Failures, NodeStanding, Pending, Status};

use super::event::Now;
use super::figures::named;
use super::timers::Task;
use super::{Loop, UnderWay};

impl Loop {
    pub(super) fn answer(&self, question: Question, now: Now) -> Answer {
        match question {
            Question::Picture if self.server.is_some() && !self.source.is_loaded => Answer::NotYet(
                "the API server has not told all Services and EndpointSlices yet; what an earlier life left in the kernel stays. `portway status` says what is \
                 missing, and why",
            ),
            Question::Picture => Answer::Picture(Box::new(self.picture.snapshot())),
            Question::Status => Answer::Status(Box::new(self.status(now))),
            Question::Readiness => Answer::Readiness(self.health().readiness(now.elapsed)),
            Question::Traffic => Answer::Traffic(Vec::new()),
            Question::Counted => Answer::Counted(Counted::default()),
        }
    }

    /// When what the source told last changed. What is known of this host alone is no picture.
    pub(super) fn told_at(&self) -> Option<Now> {
        self.changed_at.filter(|_| self.server.is_none() || self.source.is_loaded)
    }

    /// How the loop is doing.
    pub fn status(&self, now: Now) -> Status {
        let failures_in_a_row =
            self.figures.failures_in_a_row() + u64::from(self.timers.failures(Task::RetryStore));
        let is_failing = failures_in_a_row > 0;
        let store_at = self.timers.at(Task::RetryStore);
        let retry_at = is_failing.then(|| store_at.unwrap_or_else(|| self.pace.next(true, now.elapsed).0));
        let counted = self.recorder.metrics();
        let told = self.figures.status(counted, now, retry_at);
        Status {
            mode: self.mode.to_string(),
            program: self.program.map(|program| program.to_string()),
            node: self.picture.table().node().name.clone(),
            primary_addresses: self.table().node().primary.iter().filter_map(|(_, ip)| *ip).collect(),
            is_in_sync: self.has_told
                && !is_failing
                && self.pending.is_empty()
                && self.is_idle()
                && self.suspicion(now).is_none()
                && self.figures.waits().is_empty(),
            services: self.picture.cluster().services().count(),
            service_ports: self.picture.table().ports().count(),
            reports: self.picture.reports().len(),
            problems: self
                .doubtful()
                .chain(self.picture.problems().iter().map(ToString::to_string))
                .collect(),
            waiting_for_addresses: self.waiting_for_addresses(),
            not_listening: named(&self.not_listening),
            config: self.config.clone(),
            findings: self.examinations.status(),
            picture_age_seconds: self.told_at().map(|at| now.elapsed.saturating_sub(at.elapsed).as_secs()),
            pending: self.waiting(is_failing, now),
            server: self.server.as_ref().map(|server| server.status(now)),
            node_standing: self.node_standing(),
            keeps_leftovers: self.source.is_loaded && !self.source.is_complete,
            drift: DriftStatus {
                repairs: counted.repairs,
                operations: counted.repair_operations,
                ..self.drift.status(now)
            },
            failures: Failures { in_a_row: failures_in_a_row, ..told.failures.clone() },
            ..told
        }
    }

    fn waiting_for_addresses(&self) -> BTreeMap<String, String> {
        let waiting = self.waiting.iter().flat_map(|waiting| {
            waiting.services.iter().map(|service| (service.to_string(), waiting.reason.clone()))
        });
        waiting.collect()
    }

    pub(super) fn node_standing(&self) -> NodeStanding {
        match self.picture.cluster().node() {
            None => NodeStanding::Unknown,
            Some(node) if node.is_leaving => NodeStanding::Leaving,
            Some(_) if self.picture.is_node_of_host() => NodeStanding::OfHost,
            Some(_) => NodeStanding::Known,
        }
    }

    /// Does no object tell of this node?
    pub(super) fn has_no_node(&self) -> bool {
        matches!(self.node_standing(), NodeStanding::Unknown | NodeStanding::OfHost)
    }

    fn is_idle(&self) -> bool {
        !matches!(self.under_way, UnderWay::Sync(..))
    }

    /// What is not in the kernel yet, and why.
    fn waiting(&self, is_failing: bool, now: Now) -> Pending {
        let pending = self.unwritten(is_failing);
        let because = pending.because.or_else(|| self.figures.waits().first().cloned());
        Pending { because: because.or_else(|| self.suspicion(now)), ..pending }
    }

    /// What others may have done, and when it is put right.
    fn suspicion(&self, now: Now) -> Option<String> {
        let what = self.drift.suspicion()?;
        let at = self.pace.next(false, now.elapsed).0.saturating_sub(now.elapsed);
        Some(format!("{what}: that is put right in {} s", at.as_secs()))
    }

    pub(super) fn unread(&self) -> &'static str {
        match &self.server {
            None => "the source was not read yet",
            Some(_) => "the API server has not told all Services, EndpointSlices and the Node yet",
        }
    }

    fn unwritten(&self, is_failing: bool) -> Pending {
        let because = if !self.source.is_loaded {
            self.unread()
        } else if is_failing {
            "the last sync failed"
        } else if self.pending.is_empty() && self.is_idle() {
            return Pending::default();
        } else if self.is_idle() {
            "it is written with the next sync, a moment from now"
        } else {
            "it is being written"
        };
        let under_way = match &self.under_way {
            UnderWay::Sync(about, _) => about.before.len(),
            _ => 0,
        };
        Pending { service_ports: self.pending.before.len() + under_way, because: Some(because.to_owned()) }
    }
}
