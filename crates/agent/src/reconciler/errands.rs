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
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
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

impl Done {
    /// How many flows were forgotten.
    pub fn flows(&self) -> u64 {
        self.passes.iter().map(|pass| pass.flows).sum()
    }
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
    pub(super) const ALL: [Self; 3] = [Self::Forget, Self::End, Self::TakeOver];

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
}

impl Errands {
    pub(super) fn new(default: NodePortAddress) -> Self {
        Self {
            default,
            changed: Delta::default(),
            left_behind: BTreeSet::new(),
            vanished: VanishedEndpoints::new(),
            told: BTreeSet::new(),
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

    /// Is there something to do? What is taken over, only the leftovers in the kernel tell.
    pub(super) fn is_wanted(&self, kind: ErrandKind) -> bool {
        match kind {
            ErrandKind::Forget => {
                !(self.changed.before.is_empty() && self.left_behind.is_empty() && self.told.is_empty())
            }
            ErrandKind::End => !self.vanished.is_empty(),
            ErrandKind::TakeOver => false,
        }
    }

    /// The errand itself; `None` if there turns out to be nothing to do.
    pub(super) fn begin(&self, kind: ErrandKind, picture: &Picture) -> Option<Errand> {
        match kind {
            ErrandKind::TakeOver => Some(Errand::TakeOver),
            ErrandKind::End => self.to_end(picture).map(Errand::End),
            ErrandKind::Forget => self.to_forget(picture).map(Errand::Forget),
        }
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
            }
            ErrandKind::End => self.vanished.clear(),
            ErrandKind::TakeOver => {}
        }
    }
}
