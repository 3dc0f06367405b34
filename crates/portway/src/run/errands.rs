//! What is to be done once beside the rules, after a sync: flows to forget, and upstream's rules to remove.
//!
//! An errand that fails is tried again, ever more seldom. Rules never wait for one.

use std::collections::BTreeSet;
use std::time::Duration;

use dataplane::Synced;
use model::flows::{StaleFlows, flows_to, stale_flows};
use model::{Delta, Family, ForwardingTable, Frontend, NodePortAddress, Protocol};

use super::pace::BackOff;

/// Something to do beside the rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Errand {
    /// Have the connection tracker forget these flows.
    Forget(BTreeSet<StaleFlows>),
    /// Remove the rules of upstream's kube-proxy, whose work ours do now.
    TakeOver,
}

/// Which kind of errand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrandKind {
    /// Forgetting flows.
    Forget,
    /// Taking over.
    TakeOver,
}

/// What an errand came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// How many flows were forgotten.
    pub flows: u64,
    /// The passes through the connection tracker that this took.
    pub passes: Vec<Pass>,
    /// What was removed, in words.
    pub removed: Vec<String>,
    /// What had to stay, and what to do about it.
    pub stays: Vec<String>,
    /// Why it was not all; trying again helps.
    pub again: Option<String>,
    /// Nothing is wrong, but there will be more to do after this long.
    pub come_back: Option<Duration>,
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

impl Errand {
    /// Its kind.
    pub fn kind(&self) -> ErrandKind {
        match self {
            Errand::Forget(_) => ErrandKind::Forget,
            Errand::TakeOver => ErrandKind::TakeOver,
        }
    }
}

impl ErrandKind {
    /// What was being done, in words.
    pub(super) fn doing(self) -> &'static str {
        match self {
            ErrandKind::Forget => "forget flows that lead nowhere",
            ErrandKind::TakeOver => "remove the rules of upstream's kube-proxy",
        }
    }
}

/// All that is to be done.
#[derive(Debug)]
pub(super) struct Errands {
    /// By which node ports are matched where nothing is configured.
    default: NodePortAddress,
    /// What changed since flows were last looked at; TCP is left alone.
    changed: Delta,
    left_behind: BTreeSet<Frontend>,
    /// What the mode itself called stale.
    told: BTreeSet<StaleFlows>,
    must_take_over: bool,
    forgetting: BackOff,
    taking_over: BackOff,
    /// Before this time there is nothing to take over.
    take_over_from: Duration,
}

impl Errands {
    pub(super) fn new(default: NodePortAddress) -> Self {
        Self {
            default,
            changed: Delta::default(),
            left_behind: BTreeSet::new(),
            told: BTreeSet::new(),
            must_take_over: false,
            forgetting: BackOff::default(),
            taking_over: BackOff::default(),
            take_over_from: Duration::ZERO,
        }
    }

    /// The kernel holds this change now.
    pub(super) fn synced(&mut self, mut change: Delta, synced: &Synced) {
        self.left_behind.extend(&synced.left_behind);
        if let Some(stale) = &synced.stale {
            self.told.extend(stale.iter().cloned());
            return;
        }
        change.before.retain(|id, _| id.protocol != Protocol::Tcp);
        self.changed.merge(change);
    }

    /// Ours is in place, and complete.
    pub(super) fn take_over(&mut self) {
        self.must_take_over = true;
    }

    /// What to do next, and when.
    pub(super) fn next(&self) -> Option<(Duration, ErrandKind)> {
        let forget = !(self.changed.before.is_empty() && self.left_behind.is_empty() && self.told.is_empty());
        let forget = forget.then(|| (self.forgetting.at().unwrap_or_default(), ErrandKind::Forget));
        let take_over = self.must_take_over.then(|| self.taking_over.at().unwrap_or(self.take_over_from));
        forget.into_iter().chain(take_over.map(|at| (at, ErrandKind::TakeOver))).min_by_key(|(at, _)| *at)
    }

    /// The errand itself; `None` if there turns out to be nothing to do.
    pub(super) fn begin(&mut self, kind: ErrandKind, table: &ForwardingTable) -> Option<Errand> {
        if kind == ErrandKind::TakeOver {
            return Some(Errand::TakeOver);
        }
        let mut stale = stale_flows(&self.changed, table, self.default);
        stale.extend(flows_to(&self.left_behind, table, self.default));
        stale.extend(self.told.iter().cloned());
        if stale.is_empty() {
            self.ended(kind);
            return None;
        }
        Some(Errand::Forget(stale))
    }

    /// It is done.
    pub(super) fn ended(&mut self, kind: ErrandKind) {
        match kind {
            ErrandKind::Forget => {
                (self.changed, self.left_behind) = (Delta::default(), BTreeSet::new());
                self.told.clear();
                self.forgetting = BackOff::default();
            }
            ErrandKind::TakeOver => (self.must_take_over, self.taking_over) = (false, BackOff::default()),
        }
    }

    /// It is done for now: the rest can be done later.
    pub(super) fn goes_on(&mut self, kind: ErrandKind, at: Duration) {
        self.ended(kind);
        if kind == ErrandKind::TakeOver {
            (self.must_take_over, self.take_over_from) = (true, at);
        }
    }

    /// It could not be done. Returns when it is tried again.
    pub(super) fn failed(&mut self, kind: ErrandKind, now: Duration) -> Duration {
        let back_off = match kind {
            ErrandKind::Forget => &mut self.forgetting,
            ErrandKind::TakeOver => &mut self.taking_over,
        };
        back_off.failed(now);
        back_off.at().unwrap_or(now)
    }
}
