//! When the preconditions of this host are checked, and what is told of them.
//!
//! In: the time, and what the checks found. Out: when they may run next, and lines of the log: each finding once when it comes and
//! once when it is over. Checks run after the first sync, after changes of addresses or Services, and every minute; never more
//! often than every ten seconds.

use std::collections::BTreeMap;
use std::time::Duration;

use dataplane::checks::{Finding, Severity};
use observe::doctor::FindingStatus;

use super::effect::Line;

/// Without a first sync, the checks run so long after the start.
pub(super) const FIRST: Duration = Duration::from_secs(5);
/// How often they run when nothing changes.
const PERIOD: Duration = Duration::from_secs(60);
/// The shortest time between two runs.
const REST: Duration = Duration::from_secs(10);

/// The state of the checks.
#[derive(Debug, Default)]
pub(super) struct Examinations {
    /// When the last run began; `None` before the first.
    begun_at: Option<Duration>,
    is_under_way: bool,
    findings: Vec<Finding>,
}

impl Examinations {
    /// When the next run may be, where something changed that the checks look at.
    pub(super) fn earliest(&self, now: Duration) -> Duration {
        self.begun_at.map_or(now, |begun| now.max(begun + REST))
    }

    pub(super) fn is_under_way(&self) -> bool {
        self.is_under_way
    }

    /// A run begins. Returns when the next one is due if nothing changes.
    pub(super) fn begin(&mut self, now: Duration) -> Duration {
        (self.is_under_way, self.begun_at) = (true, Some(now));
        now + PERIOD
    }

    /// A run found this. What is new, and what is over.
    pub(super) fn ended(&mut self, findings: Vec<Finding>) -> Vec<Line> {
        self.is_under_way = false;
        // An example that changes is no new finding.
        let is_same =
            |a: &Finding, b: &Finding| (a.check, a.severity, &a.cause) == (b.check, b.severity, &b.cause);
        let is_in = |list: &[Finding], one: &Finding| list.iter().any(|other| is_same(other, one));
        let new = findings.iter().filter(|one| !is_in(&self.findings, one));
        let over = self.findings.iter().filter(|one| !is_in(&findings, one));
        let lines = new
            .map(|finding| Line::Found(FindingStatus::from(finding)))
            .chain(over.map(|finding| Line::FindingOver(FindingStatus::from(finding))))
            .collect();
        self.findings = findings;
        lines
    }

    pub(super) fn status(&self) -> Vec<FindingStatus> {
        self.findings.iter().map(FindingStatus::from).collect()
    }

    /// The worst finding of each check.
    pub(super) fn worst(&self) -> BTreeMap<&'static str, Severity> {
        let mut worst = BTreeMap::new();
        for finding in &self.findings {
            let known = worst.entry(finding.check).or_insert(finding.severity);
            *known = (*known).min(finding.severity);
        }
        worst
    }
}
