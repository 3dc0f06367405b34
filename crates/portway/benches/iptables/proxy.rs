//! The proxy that is measured: cluster, table and iptables mode. Whoever starts it is in a network namespace of its own.
//!
//! In: facts, then events. Out: how long it took until their rules were in force, and how much of it the programs ran.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use dataplane::iptables::Options;
use dataplane::iptables::sim::Iptables;
use dataplane::{Dataplane, Scope};
use kernel::xtables::{Programs, Xtables as _};
use model::facts::Fact;
use model::{Changed, Cluster, Event, ForwardingTable};

use crate::door::Timed;
use crate::facts;
use crate::results::Program;

/// A proxy that has synced once.
pub(crate) struct Proxy {
    cluster: Cluster,
    pub(crate) table: ForwardingTable,
    dataplane: Iptables<Timed>,
}

/// How long something took.
#[derive(Clone, Copy)]
pub(crate) struct Times {
    pub(crate) whole: Duration,
    /// Of it, while a program ran.
    pub(crate) program: Duration,
}

impl Proxy {
    /// Takes in all facts and writes everything, for both families as `portway run` does.
    pub(crate) fn start(program: Program, facts: impl Iterator<Item = Fact>) -> Result<(Self, Times)> {
        let doors = Programs::find().programs.into_iter().filter(|door| door.variant() == program.variant());
        let dataplane = Iptables::new(doors.map(Timed::new), Options::default());
        let start = Instant::now();
        let mut cluster = Cluster::new(facts::config());
        for fact in facts {
            cluster.apply(Event::Apply(fact));
        }
        let table = ForwardingTable::of(&cluster);
        let mut proxy = Self { cluster, table, dataplane };
        proxy.dataplane.sync(&proxy.table, Scope::Everything).context("the first sync failed")?;
        let whole = start.elapsed();
        let program = proxy.spent();
        Ok((proxy, Times { whole, program }))
    }

    /// Takes in events that come together, and writes what they change.
    pub(crate) fn change(&mut self, events: Vec<Event>) -> Result<Times> {
        let start = Instant::now();
        let mut changed = Changed::default();
        for event in events {
            changed.merge(self.cluster.apply(event));
        }
        let delta = self.table.update(&self.cluster, &changed);
        let ports: BTreeSet<_> = delta.before.into_keys().collect();
        let synced = self.dataplane.sync(&self.table, Scope::Changed(&ports))?;
        let whole = start.elapsed();
        ensure!(!synced.was_full && synced.operations > 0, "this was no change in part: {synced:?}");
        Ok(Times { whole, program: self.spent() })
    }

    /// Deletes what earlier changes left behind.
    pub(crate) fn settle(&mut self) -> Result<Duration> {
        let start = Instant::now();
        self.dataplane.settle()?;
        self.spent();
        Ok(start.elapsed())
    }

    /// Reads everything back, compares, and finds nothing to do: what the mode does from time to time.
    pub(crate) fn compare(&mut self) -> Result<Times> {
        let start = Instant::now();
        let synced = self.dataplane.sync(&self.table, Scope::Everything)?;
        let whole = start.elapsed();
        ensure!(synced.operations == 0, "the kernel differed from the table: {synced:?}");
        Ok(Times { whole, program: self.spent() })
    }

    fn spent(&mut self) -> Duration {
        self.dataplane.doors().map(|door| std::mem::take(&mut door.spent)).sum()
    }
}
