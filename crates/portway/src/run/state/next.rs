//! What is begun now, or when to come back.

use std::time::Duration;

use super::super::effect::{Effect, Work};
use super::super::errands::ErrandKind;
use super::super::event::Now;
use super::super::pace::Due;
use super::{Loop, UnderWay};

impl Loop {
    /// Begins what is due, or says when to come back.
    pub(super) fn go_on(&mut self, now: Now, effects: &mut Vec<Effect>) {
        if !matches!(self.under_way, UnderWay::Nothing) {
            return;
        }
        match self.next(now.elapsed) {
            Some((at, next)) if at <= now.elapsed => match self.begin(next) {
                Some(effect) => effects.push(effect),
                None => self.go_on(now, effects),
            },
            next => {
                let wishes = [self.store.at(), self.waits_for_server(now), next.map(|(at, _)| at)];
                effects.extend(wishes.into_iter().flatten().min().map(Effect::WakeAt));
            }
        }
    }

    fn waits_for_server(&self, now: Now) -> Option<Duration> {
        self.server.as_ref().filter(|_| !self.source.is_loaded)?.waits_until(now.elapsed)
    }

    /// What comes next, and when. Deletions that wait go before syncs: in a storm without end they would wait for ever.
    fn next(&self, now: Duration) -> Option<(Duration, Next)> {
        if let Some(at) = self.settle_at {
            return Some((at, Next::Settle));
        }
        let sync = self.source.is_loaded.then(|| self.pace.next(!self.pending.is_empty(), now));
        let errand = self.errands.next().map(|(at, kind)| (at, Next::Errand(kind)));
        let sync = sync.map(|(at, due)| (at, Next::Sync(due)));
        let glance = self.glance.filter(|_| self.has_told).map(|(_, at)| (at, Next::Glance));
        let is_unknown = !self.source.is_loaded && self.is_bare.is_none();
        let look = is_unknown.then_some((self.look_at, Next::Look));
        let drain = self.drain_at.map(|at| (at, Next::Settle));
        errand.into_iter().chain(drain).chain(sync).chain(glance).chain(look).min_by_key(|(at, _)| *at)
    }

    /// `None` if there turns out to be nothing to do.
    fn begin(&mut self, next: Next) -> Option<Effect> {
        match next {
            Next::Settle => {
                (self.settle_at, self.drain_at, self.under_way) = (None, None, UnderWay::Settling);
                Some(Effect::Settle)
            }
            Next::Errand(kind) => {
                let errand = self.errands.begin(kind, self.picture.table())?;
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
        let work = match due {
            Due::Full if self.source.is_complete => Work::Everything,
            Due::Full => Work::AllThatIsKnown,
            Due::Changes => Work::Changed(about.before.keys().cloned().collect()),
        };
        self.under_way = UnderWay::Sync(Box::new(about), due);
        Effect::Sync(work)
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
