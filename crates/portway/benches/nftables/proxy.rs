//! The proxy that is measured: cluster, table and nftables mode, in a network namespace of its own.
//!
//! In: facts, then events. Out: how long the kernel took to have them.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use dataplane::nftables::Options;
use dataplane::nftables::sim::Nftables;
use dataplane::{Dataplane, Scope};
use kernel::nft::{Family, Kernel as _, Netlink};
use kernel_sim::sysctl::Simulated;
use model::facts::Fact;
use model::{Changed, Cluster, Event, ForwardingTable};
use playground::namespace::Namespace;

use crate::facts;

/// A proxy that has synced once.
pub(crate) struct Proxy {
    cluster: Cluster,
    table: ForwardingTable,
    dataplane: Nftables<Netlink>,
}

/// How long a change took.
#[derive(Clone, Copy)]
pub(crate) struct Times {
    /// Event → table.
    pub(crate) model: Duration,
    /// Event → the kernel's acknowledgement.
    pub(crate) whole: Duration,
    /// The transaction that later deletes what nothing leads to any more.
    pub(crate) settle: Duration,
}

impl Proxy {
    /// Takes in all facts and writes everything into `namespace`. Also says how long facts → table and table → kernel took.
    pub(crate) fn start(
        namespace: &Namespace,
        facts: impl Iterator<Item = Fact>,
    ) -> Result<(Self, Duration, Duration)> {
        // The socket stays inside, wherever it is used.
        let kernel = namespace.run(Netlink::open)??;
        let mut dataplane = Nftables::new(kernel, Options::default());
        let start = Instant::now();
        let mut cluster = Cluster::new(facts::config());
        for fact in facts {
            cluster.apply(Event::Apply(fact));
        }
        let table = ForwardingTable::of(&cluster);
        let decided = start.elapsed();
        let start = Instant::now();
        dataplane.sync(&table, Scope::Everything).context("the first sync failed")?;
        let written = start.elapsed();
        Ok((Self { cluster, table, dataplane }, decided, written))
    }

    /// Takes in events that come together, and writes what they change; then settles.
    pub(crate) fn change(&mut self, events: Vec<Event>) -> Result<Times> {
        let start = Instant::now();
        let mut changed = Changed::default();
        for event in events {
            changed.merge(self.cluster.apply(event));
        }
        let delta = self.table.update(&self.cluster, &changed);
        let ports: BTreeSet<_> = delta.before.into_keys().collect();
        let model = start.elapsed();
        let synced = self.dataplane.sync(&self.table, Scope::Changed(&ports))?;
        let whole = start.elapsed();
        ensure!(!synced.was_full && synced.operations > 0, "this was no change in part: {synced:?}");
        let start = Instant::now();
        self.dataplane.settle()?;
        Ok(Times { model, whole, settle: start.elapsed() })
    }

    /// Compares everything, as if the kernel had these settings.
    pub(crate) fn resync(&mut self, settings: Simulated) -> Result<()> {
        *self.dataplane.settings() = settings;
        self.dataplane.sync(&self.table, Scope::Everything)?;
        self.dataplane.settle()?;
        Ok(())
    }

    /// Reads everything back: the kernel must hold what the table says, and no endpoint beside it.
    pub(crate) fn verify(&mut self, endpoints: u32) -> Result<()> {
        let differences = self.dataplane.differences(&self.table)?;
        ensure!(differences.is_empty(), "the kernel differs from the table: {}", differences.join("\n"));
        let listed = self.dataplane.kernel().list(Family::V4, "kube-proxy")?.context("the table is gone")?;
        let found = listed.sets.get("endpoints").map_or(0, |set| set.elements.len());
        ensure!(u32::try_from(found)? == endpoints, "the kernel holds {found} endpoints, not {endpoints}");
        Ok(())
    }
}
