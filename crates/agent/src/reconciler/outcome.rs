//! What became of a sync, of deletions that waited, and of errands.

use std::collections::BTreeSet;
use std::time::Duration;

use dataplane::{SyncError, Synced};
use model::net::show_address_and_port;
use model::{Delta, ServicePortId};

use super::announce;
use super::effect::{Effect, Line};
use super::errands::{Done, ErrandKind};
use super::event::Now;
use super::figures::milliseconds;
use super::pace::Due;
use super::timers::Task;
use super::{Loop, UnderWay};

/// Between two glances there is at least so much time.
const GLANCE_REST: Duration = Duration::from_secs(1);

impl Loop {
    pub(super) fn synced(
        &mut self,
        result: Result<Synced, SyncError>,
        took: Duration,
        now: Now,
        effects: &mut Vec<Effect>,
    ) {
        let under_way = std::mem::replace(&mut self.under_way, UnderWay::Nothing);
        let UnderWay::Sync(about, due) = under_way else { return };
        self.recorder.synced(&result, due == Due::Full, took, now.wall);
        match result {
            Ok(synced) => self.succeeded(&synced, (*about, due), took, now, effects),
            Err(error) => {
                let later = std::mem::replace(&mut self.pending, *about);
                self.pending.merge(later);
                self.failed(&error, took, now, effects);
            }
        }
    }

    fn succeeded(
        &mut self,
        synced: &Synced,
        (about, due): (Delta, Due),
        took: Duration,
        now: Now,
        effects: &mut Vec<Effect>,
    ) {
        self.pace.succeeded(now.elapsed, took, due, synced.operations > 0);
        self.in_force_at = now.elapsed;
        if let Some(wait) = synced.settle_after {
            self.timers.set(Task::Settle, now.elapsed + wait);
        }
        if let Some(wait) = synced.drain_after {
            self.timers.set_if_absent(Task::Drain, now.elapsed + wait);
        }
        self.tell_refused(synced, effects);
        let had_news = !about.is_empty();
        let (ids, operations) = (ids(&about), synced.operations);
        self.figures.synced(synced, &ids, now, took);
        let (service_ports, changed, full) = (self.gauges().service_ports, ids.len(), synced.was_full);
        effects.push(Effect::Log(Line::Synced { service_ports, changed, operations, took, full }));
        if about.health_checks || about.node_before.is_some() {
            effects.push(Effect::AnswerBalancers);
        }
        effects.extend(synced.replaced.iter().cloned().map(|what| Effect::Log(Line::Replaced(what))));
        effects.extend(synced.waits.iter().cloned().map(|why| Effect::Log(Line::Waits(why))));
        if due == Due::Full {
            self.compared(synced, had_news, now, effects);
        }
        if had_news || due == Due::Full && synced.operations > 0 {
            self.examine_soon(now);
        }
        if due == Due::Full && synced.kept.is_empty() {
            self.nothing_was_kept(now);
        }
        self.errands.synced(about, synced);
        self.want_errands();
        self.caught_up(synced, now);
        if synced.waits.is_empty() && !std::mem::replace(&mut self.has_told, true) {
            effects.push(Effect::Tell(self.in_sync(synced, now)));
        }
    }

    fn tell_refused(&self, synced: &Synced, effects: &mut Vec<Effect>) {
        let is_new = |(id, reason): &(&ServicePortId, &String)| self.figures.refused.get(id) != Some(reason);
        for (id, reason) in synced.refused.iter().filter(is_new) {
            effects.push(Effect::Log(Line::Refused { service_port: id.to_string(), reason: reason.clone() }));
            let note = format!("port {id} is refused and stays as it was: {reason}");
            effects.push(Effect::Announce(announce::refused(id.service.clone(), note)));
        }
        let is_new = |(id, reason): &(&ServicePortId, &String)| self.figures.warned.get(id) != Some(reason);
        for (id, reason) in synced.warned.iter().filter(is_new) {
            effects.push(Effect::Log(Line::Warned { service_port: id.to_string(), reason: reason.clone() }));
        }
        let stays = synced.stays.iter().filter(|what| !self.figures.stays.contains(what));
        effects.extend(stays.cloned().map(|what| Effect::Log(Line::Stays(what))));
    }

    /// Everything was compared. If nothing was new on our side, or somebody was heard, and still something had to be
    /// written, it was a repair.
    fn compared(&mut self, synced: &Synced, had_news: bool, now: Now, effects: &mut Vec<Effect>) {
        self.table_gauges.reports = self.picture.reports().len();
        let is_adopted = std::mem::replace(&mut self.is_adopted, self.source.is_complete);
        let is_first = !self.has_told || self.source.is_complete != is_adopted;
        let has_found = synced.operations > 0 || synced.settle_after.is_some();
        effects.extend(synced.settings.iter().cloned().map(|what| Effect::Log(Line::Setting(what))));
        let had_news = had_news || !synced.settings.is_empty();
        let is_repair = !is_first && has_found && (!had_news || self.drift.has_suspect());
        let by = self.drift.compared(is_repair.then_some(synced.operations), now);
        if is_repair {
            self.recorder.repaired(synced.operations);
            effects.push(Effect::Log(Line::Repaired { operations: synced.operations, by }));
        }
        if self.source.is_complete && !is_adopted {
            self.timers.set_if_absent(Task::Errand(ErrandKind::TakeOver), Duration::ZERO);
        }
    }

    fn in_sync(&self, synced: &Synced, now: Now) -> String {
        let refused = match synced.refused.len() {
            0 => String::new(),
            count => format!(" ({count} more refused: see `portway status`)"),
        };
        format!(
            "portway is in sync: {} service ports{refused}, {} operations, {} ms after start",
            self.table().ports().count().saturating_sub(synced.refused.len()),
            synced.operations,
            milliseconds(self.figures.elapsed(now))
        )
    }

    pub(super) fn settled(
        &mut self,
        result: Result<Synced, SyncError>,
        took: Duration,
        now: Now,
        effects: &mut Vec<Effect>,
    ) {
        self.under_way = UnderWay::Nothing;
        self.recorder.settled(&result);
        match result {
            Ok(synced) => {
                self.timers.set(Task::Drain, synced.drain_after.map(|wait| now.elapsed + wait));
                effects.push(Effect::Log(Line::Settled { operations: synced.operations }));
            }
            Err(error) => self.failed(&error, took, now, effects),
        }
    }

    /// The next pass is a full one, and finds what is left over.
    fn failed(&mut self, error: &SyncError, took: Duration, now: Now, effects: &mut Vec<Effect>) {
        self.timers.set(Task::Settle, None);
        self.pace.failed(now.elapsed, took);
        self.figures.failed(error.to_string());
        let retry_in = self.pace.next(true, now.elapsed).0.saturating_sub(now.elapsed);
        let is_first = !self.figures.has_synced();
        effects.push(Effect::Log(Line::Failed { is_first, reason: error.to_string(), retry_in }));
    }

    /// A look that failed says nothing; the periodic compare says why.
    pub(super) fn glanced(&mut self, result: &Result<bool, SyncError>, now: Now) {
        self.under_way = UnderWay::Nothing;
        self.timers.set(Task::Glance, self.glance_every.map(|every| now.elapsed + every));
        self.glanced_at = now.elapsed;
        if matches!(result, Ok(true)) {
            self.pace.compare_by(now.elapsed);
        }
    }

    /// A look that failed is taken again.
    pub(super) fn found(&mut self, is_served: &Result<bool, SyncError>, now: Now, effects: &mut Vec<Effect>) {
        self.under_way = UnderWay::Nothing;
        match is_served {
            Ok(is_served) => self.is_bare = Some(!is_served),
            // Nothing waits for a second look: there may be rules, so what they serve stays.
            Err(_) if self.must_look_first() => self.is_bare = Some(false),
            Err(_) => self.timers.set(Task::Look, now.elapsed + self.patience),
        }
        self.doubt_after_look(now, effects);
    }

    /// Links or addresses of this host changed, of which some may be ours: the glance comes earlier, but not all the time.
    pub(super) fn touched(&mut self, now: Now) {
        self.timers.bring_forward(Task::Glance, now.elapsed.max(self.glanced_at + GLANCE_REST));
    }

    /// Errands for which a sync left something are due at once, unless they wait after a failure.
    fn want_errands(&mut self) {
        for kind in ErrandKind::ALL.into_iter().filter(|kind| self.errands.is_wanted(*kind)) {
            self.timers.set_if_absent(Task::Errand(kind), Duration::ZERO);
        }
    }

    pub(super) fn errand_ended(&mut self, kind: ErrandKind) {
        self.errands.ended(kind);
        self.timers.clear(Task::Errand(kind));
    }

    pub(super) fn ran(
        &mut self,
        errand: ErrandKind,
        result: Result<Done, String>,
        now: Now,
        effects: &mut Vec<Effect>,
    ) {
        let under_way = std::mem::replace(&mut self.under_way, UnderWay::Nothing);
        let begun_at = if let UnderWay::Errand { begun_at } = under_way { begun_at } else { now.elapsed };
        let mut come_back = None;
        let again = match result {
            Ok(done) => {
                let is_new = |what: &String| !self.figures.beside.stays.contains(what);
                let stays: Vec<String> = done.stays.iter().filter(|what| is_new(what)).cloned().collect();
                self.recorder.ran(done.ended.values().sum(), &done.passes);
                self.figures.errand_done(errand, &done);
                effects.extend(ended(&done).map(Effect::Log));
                let lines = [
                    (done.flows() > 0).then(|| Line::Forgot { flows: done.flows() }),
                    (!done.removed.is_empty()).then(|| Line::TookOver(done.removed.join(", "))),
                ];
                effects.extend(lines.into_iter().flatten().map(Effect::Log));
                effects.extend(stays.into_iter().map(|stays| Effect::Log(Line::Stays(stays))));
                come_back = done.come_back;
                done.again
            }
            Err(reason) => Some(reason),
        };
        let Some(reason) = again else {
            self.errand_ended(errand);
            // The rest can be done later.
            if let Some(wait) = come_back.filter(|_| errand == ErrandKind::TakeOver) {
                self.timers.set(Task::Errand(errand), now.elapsed + wait);
            }
            return;
        };
        let took = now.elapsed.saturating_sub(begun_at);
        let retry_at = self.timers.failed(Task::Errand(errand), now.elapsed, took);
        let retry_in = retry_at.saturating_sub(now.elapsed);
        if self.figures.errand_failed(errand, &reason) {
            effects.push(Effect::Log(Line::ErrandFailed { doing: errand.doing(), reason, retry_in }));
        }
    }
}

/// The connections that were ended. An endpoint without any is not worth a line.
fn ended(done: &Done) -> impl Iterator<Item = Line> {
    let some = done.ended.iter().filter(|(_, connections)| **connections > 0);
    some.map(|((port, (ip, number)), connections)| Line::Ended {
        service_port: port.to_string(),
        endpoint: show_address_and_port(*ip, *number),
        connections: *connections,
    })
}

fn ids(delta: &Delta) -> BTreeSet<ServicePortId> {
    delta.before.keys().cloned().collect()
}
