//! What is begun now, or when to come back.

use std::time::Duration;

use apiserver::Watched;
use dataplane::Scope;
use observe::doctor::Sample;

use super::effect::Effect;
use super::errands::ErrandKind;
use super::event::Now;
use super::pace::Due;
use super::{Loop, UnderWay};

/// A packet that met the old rules has its conntrack entry by then.
const PACKETS_UNDER_WAY: Duration = Duration::from_millis(5);

impl Loop {
    /// Begins what is due, or says when to come back.
    pub(super) fn go_on(&mut self, now: Now, effects: &mut Vec<Effect>) {
        if !matches!(self.under_way, UnderWay::Nothing) {
            return;
        }
        match self.next(now.elapsed) {
            Some((at, next)) if at <= now.elapsed => match self.begin(next, now.elapsed) {
                Some(effect) => effects.push(effect),
                None => self.go_on(now, effects),
            },
            next => {
                let wishes = [
                    self.store.at(),
                    self.allocation.at(),
                    self.waits_for_server(now),
                    self.examinations.due().filter(|at| *at > now.elapsed || !self.has_errand(now)),
                    next.map(|(at, _)| at),
                ];
                effects.extend(wishes.into_iter().flatten().min().map(Effect::WakeAt));
            }
        }
    }

    /// Begins the checks of this host, when nothing else is to be done now: what the first sync and its errands put right is no
    /// finding.
    pub(super) fn examine(&mut self, now: Now, effects: &mut Vec<Effect>) {
        let is_due = self.examinations.due().is_some_and(|at| at <= now.elapsed);
        if is_due && !self.has_errand(now) && matches!(self.under_way, UnderWay::Nothing) {
            self.examinations.begin(now.elapsed);
            let is_node_told = self.server.as_ref().is_none_or(|server| server.is_complete(Watched::Node));
            effects.push(Effect::Examine(Box::new(Sample::of(&self.picture, is_node_told))));
        }
    }

    /// Is an errand due? It may have to wait all the same, for deletions: the checks then come after it.
    fn has_errand(&self, now: Now) -> bool {
        self.errands.next().is_some_and(|(at, _)| at <= now.elapsed)
    }

    fn waits_for_server(&self, now: Now) -> Option<Duration> {
        self.server.as_ref().filter(|_| !self.source.is_loaded)?.waits_until(now.elapsed)
    }

    /// What comes next, and when. Deletions that wait go before syncs: in a storm without end they would wait for ever.
    fn next(&self, now: Duration) -> Option<(Duration, Next)> {
        if let Some(at) = self.settle_at {
            return [(at, Next::Settle)].into_iter().chain(self.flows_before(at)).min_by_key(|(at, _)| *at);
        }
        let sync = (self.source.is_loaded && !self.must_look_first())
            .then(|| self.pace.next(!self.pending.is_empty(), now));
        let errand = self.errands.next().map(|(at, kind)| (at, Next::Errand(kind)));
        let sync = sync.map(|(at, due)| (at, Next::Sync(due)));
        let glance = self.glance.filter(|_| self.has_told).map(|(_, at)| (at, Next::Glance));
        let is_unknown = (!self.source.is_loaded || self.must_look_first()) && self.is_bare.is_none();
        let look = is_unknown.then_some((self.look_at, Next::Look));
        let drain = self.drain_at.map(|at| (at, Next::Settle));
        errand.into_iter().chain(drain).chain(sync).chain(glance).chain(look).min_by_key(|(at, _)| *at)
    }

    /// Conntrack entries go before deletions that wait for longer than packets are under way: in iptables mode, which deletes chains after
    /// a second, clients of a vanished Pod would hang for so long.
    fn flows_before(&self, settle_at: Duration) -> Option<(Duration, Next)> {
        let (at, kind) = self.errands.next_flows()?;
        let after_the_rules = settle_at.min(self.in_force_at + PACKETS_UNDER_WAY);
        Some((at.max(after_the_rules), Next::Errand(kind)))
    }

    /// `None` if there turns out to be nothing to do.
    fn begin(&mut self, next: Next, now: Duration) -> Option<Effect> {
        match next {
            Next::Settle => {
                (self.settle_at, self.drain_at, self.under_way) = (None, None, UnderWay::Settling);
                Some(Effect::Settle)
            }
            Next::Errand(kind) => {
                let errand = self.errands.begin(kind, &self.picture, now)?;
                self.under_way = UnderWay::Errand;
                Some(Effect::Run(errand))
            }
            Next::Glance => {
                self.under_way = UnderWay::Glancing;
                Some(Effect::Glance)
            }
            Next::Look => {
                self.under_way = UnderWay::Glancing;
                Some(Effect::Look)
            }
            Next::Sync(due) => Some(self.begin_sync(due)),
        }
    }

    fn begin_sync(&mut self, due: Due) -> Effect {
        let about = std::mem::take(&mut self.pending);
        let scope = match due {
            Due::Full if self.source.is_complete => Scope::Everything,
            Due::Full => Scope::AllThatIsKnown,
            Due::Changes => Scope::Changed(about.before.keys().cloned().collect()),
        };
        self.under_way = UnderWay::Sync(Box::new(about), due);
        Effect::Sync(scope)
    }
}

/// What may be begun.
#[derive(Clone, Copy, Debug)]
enum Next {
    Settle,
    Glance,
    Look,
    Errand(ErrandKind),
    Sync(Due),
}
