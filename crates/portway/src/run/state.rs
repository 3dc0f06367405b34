//! The loop itself: one owner of all state, and one function, [`Loop::step`], by which it changes.
//!
//! Three rules. Nothing is written before the source was read once: what the kernel holds of an earlier life stays in force
//! until we know what should be there. What changed is remembered until a sync of it went well. And one thing is done at a
//! time: while a sync or a settling is under way, everything else is only remembered.

use std::collections::BTreeSet;
use std::time::Duration;

use dataplane::{SyncError, Synced};
use model::{Delta, ForwardingTable, ServicePortId};

use super::effect::{Answer, Effect, Line, Work};
use super::event::{Event, Now, Question};
use super::pace::{BackOff, Due, Pace, PaceOptions};
use super::status::{Failures, Figures, Status, milliseconds};
use crate::host::HostFacts;
use crate::modes::Mode;
use crate::objects::{Change, Problem};
use crate::picture::Picture;

/// All state of `portway run`.
#[derive(Debug)]
pub struct Loop {
    mode: Mode,
    picture: Picture,
    host: HostFacts,
    /// The source was read, and what it asks for was given.
    is_loaded: bool,
    has_told: bool,
    /// What is different from what the last good sync wrote.
    pending: Delta,
    under_way: UnderWay,
    settle_at: Option<Duration>,
    store: BackOff,
    pace: Pace,
    figures: Figures,
}

/// What the loop begins with.
#[derive(Debug)]
pub struct Start {
    /// The mode.
    pub mode: Mode,
    /// A picture into which nothing was read yet.
    pub picture: Picture,
    /// The addresses of this host, so that the first sync knows them.
    pub host: HostFacts,
    /// The pace.
    pub pace: PaceOptions,
    /// The moment at which the process started.
    pub now: Now,
}

/// What is being done.
#[derive(Debug)]
enum UnderWay {
    Nothing,
    /// A sync of these changes.
    Sync(Box<Delta>),
    Settling,
}

impl Loop {
    /// A loop to which nothing happened yet.
    pub fn new(start: Start) -> Self {
        let mut new = Self {
            mode: start.mode,
            picture: start.picture,
            host: HostFacts::default(),
            is_loaded: false,
            has_told: false,
            pending: Delta::default(),
            under_way: UnderWay::Nothing,
            settle_at: None,
            store: BackOff::default(),
            pace: Pace::new(start.pace),
            figures: Figures::new(start.now),
        };
        new.follow_host(start.host);
        new
    }

    /// The table that a [`Effect::Sync`] is about.
    pub fn table(&self) -> &ForwardingTable {
        self.picture.table()
    }

    /// Takes in what happened, and says what to do now.
    pub fn step(&mut self, event: Event, now: Now) -> Vec<Effect> {
        let mut effects = Vec::new();
        match event {
            Event::FilesChanged { changes, problems } => {
                self.follow_files(&changes, problems, now, &mut effects);
            }
            Event::AddressesChanged(host) => self.follow_host(host),
            Event::Tick => self.retry_store(now, &mut effects),
            Event::Query(question, reply) => effects.push(Effect::Answer(reply, self.answer(question, now))),
            Event::Synced { result, took } => self.synced(result, took, now, &mut effects),
            Event::Settled { result, took } => self.settled(result, took, now, &mut effects),
            Event::Stop(signal) => return vec![Effect::Log(Line::Stopping(signal)), Effect::Exit],
            Event::FeedEnded(feed) => return vec![Effect::Fail { feed }],
        }
        self.go_on(now, &mut effects);
        effects
    }

    fn follow_files(
        &mut self,
        changes: &[Change],
        problems: Vec<Problem>,
        now: Now,
        effects: &mut Vec<Effect>,
    ) {
        let is_new = |problem: &&Problem| !self.picture.problems().contains(problem);
        let new =
            problems.iter().filter(is_new).map(|problem| Effect::Log(Line::Problem(problem.to_string())));
        effects.extend(new);
        self.picture.set_problems(problems);
        self.apply(changes, now, effects);
    }

    fn retry_store(&mut self, now: Now, effects: &mut Vec<Effect>) {
        if self.store.at().is_some_and(|at| at <= now.elapsed) {
            self.apply(&[], now, effects);
        }
    }

    fn apply(&mut self, changes: &[Change], now: Now, effects: &mut Vec<Effect>) {
        self.picture.set_now(now.wall);
        match self.picture.apply(changes) {
            Ok(delta) => {
                self.store = BackOff::default();
                self.remember(delta);
                self.describe_node();
                self.loaded(effects);
            }
            Err(error) => {
                self.store.failed(now.elapsed);
                let retry_in = self.store.at().unwrap_or_default().saturating_sub(now.elapsed);
                effects.push(Effect::Log(Line::StoreFailed { reason: error.to_string(), retry_in }));
                self.figures.store_failed(error.to_string());
            }
        }
    }

    fn loaded(&mut self, effects: &mut Vec<Effect>) {
        if !std::mem::replace(&mut self.is_loaded, true) {
            let reports = self.picture.reports().len();
            effects.extend((reports > 0).then_some(Effect::Log(Line::Reports(reports))));
        }
    }

    fn follow_host(&mut self, host: HostFacts) {
        let addresses = host.addresses.clone().map(model::Event::LocalAddresses);
        self.host = host;
        let delta = self.picture.take(addresses);
        self.remember(delta);
        self.describe_node();
    }

    /// Files may have brought or taken away the Node that describes this host.
    fn describe_node(&mut self) {
        let delta = self.picture.describe_node(self.host.node.clone());
        self.remember(delta);
    }

    fn remember(&mut self, delta: Delta) {
        if !delta.is_empty() {
            self.pace.has_news();
            self.pending.merge(delta);
        }
    }

    fn answer(&self, question: Question, now: Now) -> Answer {
        match question {
            Question::Picture => Answer::Picture(Box::new(self.picture.snapshot())),
            Question::Status => Answer::Status(Box::new(self.status(now))),
        }
    }

    /// How the loop is doing.
    pub fn status(&self, now: Now) -> Status {
        let failures_in_a_row = self.figures.failures_in_a_row() + u64::from(self.store.failures());
        let is_failing = failures_in_a_row > 0;
        let retry_at = is_failing.then(|| self.store.at().unwrap_or_else(|| self.pace.next(true).0));
        let told = self.figures.status(now, retry_at);
        Status {
            mode: self.mode.to_string(),
            node: self.picture.table().node().name.clone(),
            is_in_sync: self.has_told && !is_failing && self.pending.is_empty() && self.is_idle(),
            services: self.picture.cluster().services().count(),
            service_ports: self.picture.table().ports().count(),
            reports: self.picture.reports().len(),
            problems: self.picture.problems().iter().map(ToString::to_string).collect(),
            failures: Failures { in_a_row: failures_in_a_row, ..told.failures.clone() },
            ..told
        }
    }

    fn is_idle(&self) -> bool {
        !matches!(self.under_way, UnderWay::Sync(_))
    }

    fn synced(
        &mut self,
        result: Result<Synced, SyncError>,
        took: Duration,
        now: Now,
        effects: &mut Vec<Effect>,
    ) {
        let UnderWay::Sync(about) = std::mem::replace(&mut self.under_way, UnderWay::Nothing) else { return };
        match result {
            Ok(synced) => self.succeeded(&synced, &ids(&about), took, now, effects),
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
        about: &BTreeSet<ServicePortId>,
        took: Duration,
        now: Now,
        effects: &mut Vec<Effect>,
    ) {
        self.pace.succeeded(now.elapsed, took, synced.was_full);
        self.settle_at = synced.settle_after.map(|wait| now.elapsed + wait).or(self.settle_at);
        for (id, reason) in
            synced.refused.iter().filter(|(id, reason)| self.figures.refused.get(id) != Some(reason))
        {
            effects.push(Effect::Log(Line::Refused { service_port: id.to_string(), reason: reason.clone() }));
        }
        self.figures.synced(synced, about, now, took);
        let operations = synced.operations;
        effects.push(Effect::Log(Line::Synced { operations, took, full: synced.was_full }));
        // Nothing was new on our side, and still something had to be written.
        if self.has_told && synced.was_full && about.is_empty() && operations > 0 {
            effects.push(Effect::Log(Line::Repaired { operations }));
        }
        if !std::mem::replace(&mut self.has_told, true) {
            effects.push(Effect::Tell(self.in_sync(synced, now)));
        }
    }

    fn in_sync(&self, synced: &Synced, now: Now) -> String {
        format!(
            "portway is in sync: {} service ports, {} operations, {} ms after start",
            self.table().ports().count(),
            synced.operations,
            milliseconds(self.figures.elapsed(now))
        )
    }

    fn settled(
        &mut self,
        result: Result<Synced, SyncError>,
        took: Duration,
        now: Now,
        effects: &mut Vec<Effect>,
    ) {
        self.under_way = UnderWay::Nothing;
        match result {
            Ok(synced) => {
                self.figures.settled(&synced);
                effects.push(Effect::Log(Line::Settled { operations: synced.operations }));
            }
            Err(error) => self.failed(&error, took, now, effects),
        }
    }

    /// The next pass is a full one, and finds what is left over.
    fn failed(&mut self, error: &SyncError, took: Duration, now: Now, effects: &mut Vec<Effect>) {
        self.settle_at = None;
        self.pace.failed(now.elapsed, took);
        self.figures.failed(error.to_string());
        let retry_in = self.pace.next(true).0.saturating_sub(now.elapsed);
        effects.push(Effect::Log(Line::Failed { reason: error.to_string(), retry_in }));
    }

    /// Begins what is due, or says when to come back.
    fn go_on(&mut self, now: Now, effects: &mut Vec<Effect>) {
        if !matches!(self.under_way, UnderWay::Nothing) {
            return;
        }
        match self.next() {
            Some((at, next)) if at <= now.elapsed => effects.push(self.begin(next)),
            next => {
                let wishes = [self.store.at(), next.map(|(at, _)| at)];
                effects.extend(wishes.into_iter().flatten().min().map(Effect::WakeAt));
            }
        }
    }

    /// What comes next, and when. Deletions that wait go before syncs: in a storm without end they would wait for ever.
    fn next(&self) -> Option<(Duration, Next)> {
        if let Some(at) = self.settle_at {
            return Some((at, Next::Settle));
        }
        let (at, due) = self.pace.next(!self.pending.is_empty());
        self.is_loaded.then_some((at, Next::Sync(due)))
    }

    fn begin(&mut self, next: Next) -> Effect {
        let Next::Sync(due) = next else {
            (self.settle_at, self.under_way) = (None, UnderWay::Settling);
            return Effect::Settle;
        };
        let about = std::mem::take(&mut self.pending);
        let work = match due {
            Due::Full => Work::Everything,
            Due::Changes => Work::Changed(ids(&about)),
        };
        self.under_way = UnderWay::Sync(Box::new(about));
        Effect::Sync(work)
    }
}

/// What may be begun.
#[derive(Clone, Copy, Debug)]
enum Next {
    Settle,
    Sync(Due),
}

fn ids(delta: &Delta) -> BTreeSet<ServicePortId> {
    delta.before.keys().cloned().collect()
}
