//! What is to be done once beside the rules, after a sync: flows to forget, connections of vanished Pods to end, and rules
//! of other modes to remove.
//!
//! An errand that fails is tried again, ever more seldom. Rules never wait for one.

use std::collections::BTreeSet;
use std::time::Duration;

use dataplane::Synced;
use dataplane::flows::Ended;
use model::flows::{StaleFlows, VanishedFlows, flows_to, stale_flows, vanished_flows};
use model::{Delta, Frontend, NodePortAddress, Protocol, VanishedEndpoints};
use observe::metrics::Pass;
use observe::picture::Picture;

use super::pace::BackOff;

/// Something to do beside the rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Errand {
    /// Have the connection tracker forget these flows.
    Forget(BTreeSet<StaleFlows>),
    /// End these connections.
    End(BTreeSet<VanishedFlows>),
    /// Remove the rules of other modes, upstream's or ours, whose work those of this mode do now.
    TakeOver,
}

/// Which kind of errand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrandKind {
    /// Forgetting flows.
    Forget,
    /// Ending connections.
    End,
    /// Taking over.
    TakeOver,
}

/// What an errand came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// How many flows were forgotten.
    pub flows: u64,
    /// The connections to vanished endpoints that were ended.
    pub ended: Ended,
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

impl Errand {
    /// Its kind.
    pub fn kind(&self) -> ErrandKind {
        match self {
            Errand::Forget(_) => ErrandKind::Forget,
            Errand::End(_) => ErrandKind::End,
            Errand::TakeOver => ErrandKind::TakeOver,
        }
    }
}

impl ErrandKind {
    /// What was being done, in words.
    pub(super) fn doing(self) -> &'static str {
        match self {
            ErrandKind::Forget => "forget flows that lead nowhere",
            ErrandKind::End => "end connections of vanished Pods",
            ErrandKind::TakeOver => "remove the rules of other modes",
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
    /// Endpoints whose connections are to be ended.
    vanished: VanishedEndpoints,
    /// What the mode itself called stale.
    told: BTreeSet<StaleFlows>,
    must_take_over: bool,
    forgetting: BackOff,
    ending: BackOff,
    taking_over: BackOff,
    /// Before this time there is nothing to take over.
    take_over_from: Duration,
    /// When the last one began.
    begun_at: Duration,
}

impl Errands {
    pub(super) fn new(default: NodePortAddress) -> Self {
        Self {
            default,
            changed: Delta::default(),
            left_behind: BTreeSet::new(),
            vanished: VanishedEndpoints::new(),
            told: BTreeSet::new(),
            must_take_over: false,
            forgetting: BackOff::default(),
            ending: BackOff::default(),
            taking_over: BackOff::default(),
            take_over_from: Duration::ZERO,
            begun_at: Duration::ZERO,
        }
    }

    /// The kernel holds this change now.
    pub(super) fn synced(&mut self, mut change: Delta, synced: &Synced) {
        self.left_behind.extend(&synced.left_behind);
        for (port, endpoints) in std::mem::take(&mut change.vanished) {
            self.vanished.entry(port).or_default().extend(endpoints);
        }
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
        let take_over = self.must_take_over.then(|| self.taking_over.at().unwrap_or(self.take_over_from));
        let take_over = take_over.map(|at| (at, ErrandKind::TakeOver));
        self.next_flows().into_iter().chain(take_over).min_by_key(|(at, _)| *at)
    }

    /// Which conntrack entries to delete next, and when.
    pub(super) fn next_flows(&self) -> Option<(Duration, ErrandKind)> {
        let forget = !(self.changed.before.is_empty() && self.left_behind.is_empty() && self.told.is_empty());
        let forget = forget.then(|| (self.forgetting.at().unwrap_or_default(), ErrandKind::Forget));
        let end =
            (!self.vanished.is_empty()).then(|| (self.ending.at().unwrap_or_default(), ErrandKind::End));
        forget.into_iter().chain(end).min_by_key(|(at, _)| *at)
    }

    /// The errand itself; `None` if there turns out to be nothing to do.
    pub(super) fn begin(&mut self, kind: ErrandKind, picture: &Picture, now: Duration) -> Option<Errand> {
        self.begun_at = now;
        let errand = match kind {
            ErrandKind::TakeOver => Some(Errand::TakeOver),
            ErrandKind::End => self.to_end(picture).map(Errand::End),
            ErrandKind::Forget => self.to_forget(picture).map(Errand::Forget),
        };
        if errand.is_none() {
            self.ended(kind);
        }
        errand
    }

    fn to_end(&self, picture: &Picture) -> Option<BTreeSet<VanishedFlows>> {
        let flows = vanished_flows(&self.vanished, picture.cluster(), picture.table(), self.default);
        (!flows.is_empty()).then_some(flows)
    }

    fn to_forget(&self, picture: &Picture) -> Option<BTreeSet<StaleFlows>> {
        let table = picture.table();
        let mut stale = stale_flows(&self.changed, table, self.default);
        stale.extend(flows_to(&self.left_behind, table, self.default));
        stale.extend(self.told.iter().cloned());
        (!stale.is_empty()).then_some(stale)
    }

    /// It is done.
    pub(super) fn ended(&mut self, kind: ErrandKind) {
        match kind {
            ErrandKind::Forget => {
                (self.changed, self.left_behind) = (Delta::default(), BTreeSet::new());
                self.told.clear();
                self.forgetting = BackOff::default();
            }
            ErrandKind::End => {
                self.vanished.clear();
                self.ending = BackOff::default();
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
            ErrandKind::End => &mut self.ending,
            ErrandKind::TakeOver => &mut self.taking_over,
        };
        back_off.failed_after(now, now.saturating_sub(self.begun_at));
        back_off.at().unwrap_or(now)
    }
}
