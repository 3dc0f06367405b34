//! The proxy that is measured: cluster, table and mode.
//!
//! In: facts, then events. Out: how long it took until they were in force.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use dataplane::{Dataplane, Scope};
use model::facts::Fact;
use model::{Changed, Cluster, Event, ForwardingTable};

use crate::cluster;

/// A proxy that has synced once.
#[derive(Debug)]
pub struct Proxy<D> {
    cluster: Cluster,
    pub table: ForwardingTable,
    pub mode: D,
}

/// How long something took.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// Facts or events → table.
    pub table: Duration,
    /// Facts or events → in force.
    pub whole: Duration,
}

/// The table of these facts.
pub fn table_of(facts: impl Iterator<Item = Fact>) -> (Cluster, ForwardingTable) {
    let mut cluster = Cluster::new(cluster::config());
    for fact in facts {
        cluster.apply(Event::Apply(fact));
    }
    let table = ForwardingTable::of(&cluster);
    (cluster, table)
}

impl<D: Dataplane> Proxy<D> {
    /// Takes in all facts and writes everything.
    pub fn start(mode: D, facts: impl Iterator<Item = Fact>) -> Result<(Self, Times)> {
        let start = Instant::now();
        let (cluster, table) = table_of(facts);
        let decided = start.elapsed();
        let mut proxy = Self { cluster, table, mode };
        let synced = proxy.mode.sync(&proxy.table, Scope::Everything).context("the first sync failed")?;
        let whole = start.elapsed();
        ensure!(synced.refused.is_empty(), "the kernel refused: {:?}", synced.refused);
        Ok((proxy, Times { table: decided, whole }))
    }

    /// Takes in events that come together, and writes what they change.
    pub fn change(&mut self, events: Vec<Event>) -> Result<Times> {
        let start = Instant::now();
        let mut changed = Changed::default();
        for event in events {
            changed.merge(self.cluster.apply(event));
        }
        let delta = self.table.update(&self.cluster, &changed);
        let ports: BTreeSet<_> = delta.before.into_keys().collect();
        let table = start.elapsed();
        let synced = self.mode.sync(&self.table, Scope::Changed(&ports))?;
        let whole = start.elapsed();
        ensure!(!synced.was_full && synced.operations > 0, "this was no change in part: {synced:?}");
        Ok(Times { table, whole })
    }

    /// Deletes what earlier changes left behind.
    pub fn settle(&mut self) -> Result<Duration> {
        let start = Instant::now();
        self.mode.settle()?;
        Ok(start.elapsed())
    }

    /// Reads everything back, compares, and finds nothing to do: what a mode does from time to time.
    pub fn compare(&mut self) -> Result<Duration> {
        let start = Instant::now();
        let synced = self.mode.sync(&self.table, Scope::Everything)?;
        let whole = start.elapsed();
        ensure!(synced.operations == 0, "the kernel differed from the table: {synced:?}");
        Ok(whole)
    }
}
