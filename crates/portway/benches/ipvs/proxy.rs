//! The proxy that is measured: cluster, table and IPVS mode with both families. Whoever starts it is in a network namespace of its own.
//!
//! In: facts, then events. Out: what went through the mode's doors until they were in force, and how long it took.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use dataplane::ipvs::{Ipvs, Kernel, Options};
use dataplane::{Dataplane, Scope};
use kernel::xtables::{Programs, Variant, Xtables as _};
use kernel::{host, ipset, ipvs, sysctl};
use model::facts::Fact;
use model::{Changed, Cluster, Event, ForwardingTable};
use serde::{Deserialize, Serialize};

use crate::door::{Seen, Watched};
use crate::facts;

type Doors =
    Kernel<Watched<ipvs::Netlink>, Watched<ipset::Netlink>, Watched<host::ThisMachine>, sysctl::ThisMachine>;

/// A proxy that has synced once.
pub(crate) struct Proxy {
    cluster: Cluster,
    table: ForwardingTable,
    mode: Ipvs<Watched<Programs>, Doors>,
}

/// What something took.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Work {
    pub(crate) whole_ms: f64,
    /// Of it, facts or events → forwarding table.
    pub(crate) table_ms: f64,
    pub(crate) servers: Seen,
    pub(crate) sets: Seen,
    pub(crate) addresses: Seen,
    /// iptables, of both families.
    pub(crate) rules: Seen,
}

impl Work {
    /// Netlink requests of ours.
    pub(crate) fn messages(&self) -> u64 {
        [self.servers, self.sets, self.addresses].iter().map(|seen| seen.writes + seen.listings).sum()
    }

    /// Listings of whatever the kernel holds, and runs of a save program.
    pub(crate) fn listings(&self) -> u64 {
        [self.servers, self.sets, self.addresses, self.rules].iter().map(|seen| seen.listings).sum()
    }
}

impl Proxy {
    /// Takes in all facts and writes everything, for both families as `portway run` does.
    pub(crate) fn start(facts: impl Iterator<Item = Fact>) -> Result<(Self, Work)> {
        let programs = Programs::find().programs.into_iter().filter(|door| door.variant() == Variant::Nft);
        let doors = Kernel {
            servers: Watched::new(ipvs::Netlink::open()?),
            sets: Watched::new(ipset::Netlink::open()?),
            host: Watched::new(host::ThisMachine),
            settings: sysctl::ThisMachine,
        };
        // Nobody has connections here: what waits for them goes when it is asked to.
        let mode = Ipvs::new(programs.map(Watched::new), doors, Options::default(), || Duration::ZERO);
        let start = Instant::now();
        let mut cluster = Cluster::new(facts::config());
        for fact in facts {
            cluster.apply(Event::Apply(fact));
        }
        let table = ForwardingTable::of(&cluster);
        let decided = start.elapsed();
        let mut proxy = Self { cluster, table, mode };
        let synced = proxy.mode.sync(&proxy.table, Scope::Everything).context("the first sync failed")?;
        let work = proxy.work(start.elapsed(), decided);
        ensure!(synced.refused.is_empty(), "the kernel refused: {:?}", synced.refused);
        Ok((proxy, work))
    }

    /// Takes in events that come together, and writes what they change.
    pub(crate) fn change(&mut self, events: Vec<Event>) -> Result<Work> {
        let start = Instant::now();
        let mut changed = Changed::default();
        for event in events {
            changed.merge(self.cluster.apply(event));
        }
        let delta = self.table.update(&self.cluster, &changed);
        let ports: BTreeSet<_> = delta.before.into_keys().collect();
        let decided = start.elapsed();
        let synced = self.mode.sync(&self.table, Scope::Changed(&ports))?;
        let work = self.work(start.elapsed(), decided);
        ensure!(!synced.was_full && synced.operations > 0, "this was no change in part: {synced:?}");
        Ok(work)
    }

    /// Removes real servers that earlier changes left to their connections.
    pub(crate) fn settle(&mut self) -> Result<Work> {
        let start = Instant::now();
        self.mode.settle()?;
        Ok(self.work(start.elapsed(), Duration::ZERO))
    }

    /// Reads everything back, compares, and finds nothing to do: what the mode does from time to time.
    pub(crate) fn compare(&mut self) -> Result<Work> {
        let start = Instant::now();
        let synced = self.mode.sync(&self.table, Scope::Everything)?;
        let work = self.work(start.elapsed(), Duration::ZERO);
        ensure!(synced.operations == 0, "the kernel differed from the table: {synced:?}");
        Ok(work)
    }

    fn work(&mut self, whole: Duration, table: Duration) -> Work {
        let mut rules = Seen::default();
        for seen in self.mode.programs().map(Watched::take) {
            rules = Seen {
                writes: rules.writes + seen.writes,
                listings: rules.listings + seen.listings,
                ms: rules.ms + seen.ms,
            };
        }
        let doors = self.mode.doors();
        Work {
            whole_ms: ms(whole),
            table_ms: ms(table),
            servers: doors.servers.take(),
            sets: doors.sets.take(),
            addresses: doors.host.take(),
            rules,
        }
    }
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
