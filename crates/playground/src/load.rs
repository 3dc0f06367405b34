//! Many questions: a fixed number of them, or as long as it takes, in the background.
//!
//! Every question has a connection of its own; what counts is who answered how often, and that none failed.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use model::Protocol;

use crate::client::{Ask, ask_here};
use crate::error::{Result, Trying};
use crate::patience::patient;
use crate::place::Place;
use crate::reply::{Outcome, Reply};

/// So many failures are kept in words; all are counted.
const FAILURES_KEPT: usize = 20;

/// How to ask often.
#[derive(Debug, Clone)]
pub struct Work {
    /// TCP or UDP. After some 27,000 UDP questions within half a minute ports repeat, and connection tracking
    /// takes the question for one of an old flow: count balance with fewer.
    pub protocol: Protocol,
    /// So many ask side by side.
    pub parallel: usize,
    /// How each question is put.
    pub ask: Ask,
    /// Each asker rests so long between two questions, which bounds the traffic.
    pub pause: Duration,
}

impl Default for Work {
    fn default() -> Self {
        Self { protocol: Protocol::Tcp, parallel: 4, ask: Ask::default(), pause: Duration::ZERO }
    }
}

/// What came of many questions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stats {
    /// How many were answered.
    pub ok: u64,
    /// How many were not.
    pub failed: u64,
    /// Who answered how often.
    pub servers: BTreeMap<String, u64>,
    /// Whom the servers saw how often: the source addresses, without ports.
    pub sources: BTreeMap<String, u64>,
    /// How often each kind of failure happened ([`Outcome::kind`]).
    pub failed_by_kind: BTreeMap<&'static str, u64>,
    /// The first failures, in words.
    pub failures: Vec<String>,
}

impl Stats {
    fn count(&mut self, outcome: &Outcome, since: Instant) {
        if let Some(reply) = outcome.reply() {
            return self.count_answer(reply);
        }
        self.failed += 1;
        *self.failed_by_kind.entry(outcome.kind()).or_default() += 1;
        if self.failures.len() < FAILURES_KEPT {
            self.failures.push(format!("at {:.3?}: {outcome}", since.elapsed()));
        }
    }

    fn count_answer(&mut self, reply: &Reply) {
        self.ok += 1;
        *self.servers.entry(reply.server.clone()).or_default() += 1;
        *self.sources.entry(reply.saw.ip().to_string()).or_default() += 1;
    }
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} answered, {} failed", self.ok, self.failed)?;
        self.servers.iter().try_for_each(|(server, count)| write!(f, "\n  {server:12} {count:>8}"))?;
        self.failures.iter().try_for_each(|failure| write!(f, "\n  {failure}"))
    }
}

/// Asks `count` times, and returns when all have ended.
pub fn many(from: &Place, destination: SocketAddr, count: usize, work: &Work) -> Result<Stats> {
    let asked = Arc::new(AtomicUsize::new(0));
    let may_ask = move || asked.fetch_add(1, Ordering::Relaxed) < count;
    Load::run(from, destination, work, may_ask).map(Load::stop)
}

/// Questions that are put in the background until they are stopped.
#[derive(Debug)]
pub struct Load {
    running: Arc<AtomicBool>,
    stats: Arc<Mutex<Stats>>,
    askers: Vec<JoinHandle<io::Result<()>>>,
}

impl Load {
    /// Starts to ask.
    pub fn start(from: &Place, destination: SocketAddr, work: &Work) -> Result<Self> {
        let running = Arc::new(AtomicBool::new(true));
        let flag = Arc::clone(&running);
        let mut load = Self::run(from, destination, work, move || flag.load(Ordering::Relaxed))?;
        load.running = running;
        Ok(load)
    }

    /// What has come of it so far.
    pub fn so_far(&self) -> Stats {
        lock(&self.stats).clone()
    }

    /// Waits until so many more have ended than now; `false` when the time is over first.
    pub fn wait_for(&self, more: u64, limit: Duration) -> bool {
        let ended = || {
            let stats = lock(&self.stats);
            stats.ok + stats.failed
        };
        let (goal, deadline) = (ended() + more, Instant::now() + patient(limit));
        while ended() < goal && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(1));
        }
        ended() >= goal
    }

    /// Asks no more, waits for the questions under way, and tells what came of all.
    pub fn stop(mut self) -> Stats {
        self.end();
        lock(&self.stats).clone()
    }

    fn run(
        from: &Place,
        destination: SocketAddr,
        work: &Work,
        may_ask: impl Fn() -> bool + Clone + Send + 'static,
    ) -> Result<Self> {
        let mut load = Self { running: Arc::default(), stats: Arc::default(), askers: Vec::new() };
        for _ in 0..work.parallel.max(1) {
            let (stats, work, may_ask) = (Arc::clone(&load.stats), work.clone(), may_ask.clone());
            let asker = move || ask_while(may_ask, destination, &work, &stats);
            let asker = from.namespace().start("load", asker);
            load.askers.push(asker.trying(|| format!("ask from `{}`", from.name()))?);
        }
        Ok(load)
    }

    fn end(&mut self) {
        self.running.store(false, Ordering::Relaxed);
        for asker in self.askers.drain(..) {
            let trouble = match asker.join() {
                Ok(Ok(())) => continue,
                Ok(Err(error)) => error.to_string(),
                Err(_) => "an asker panicked".into(),
            };
            let mut stats = lock(&self.stats);
            stats.failed += 1;
            stats.failures.push(trouble);
        }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.end();
    }
}

fn ask_while(may_ask: impl Fn() -> bool, destination: SocketAddr, work: &Work, stats: &Mutex<Stats>) {
    let start = Instant::now();
    while may_ask() {
        let outcome = ask_here(work.protocol, destination, &work.ask);
        lock(stats).count(&outcome, start);
        if !work.pause.is_zero() {
            thread::sleep(work.pause);
        }
    }
}

/// Counts are whole even when an asker has panicked.
fn lock(stats: &Mutex<Stats>) -> MutexGuard<'_, Stats> {
    stats.lock().unwrap_or_else(PoisonError::into_inner)
}
