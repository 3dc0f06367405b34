//! Passes over the table, each after its stale flows were made anew: time, what the kernel sent, memory.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use dataplane::flows::{ONE_BY_ONE_LIMIT, Way, forget_by};
use harness::process::memory_kib;
use harness::{Spread, step};
use kernel::conntrack::Netlink;
use model::Protocol;
use model::flows::StaleFlows;
use serde::{Deserialize, Serialize};

use crate::tracker::{self, STALE, Tracker};

const DESTINATIONS: [u32; 6] = [1, 2, 4, 10, 100, 1_000];
/// With more destinations, one listing each takes in proportion longer, and nothing else is to be learnt.
const MOST_ONE_BY_ONE: u32 = 100;
pub(crate) const ROUNDS: usize = 21;
/// A row that takes longer than this gets fewer rounds, but not fewer than three.
const ROW_LIMIT: Duration = Duration::from_secs(10);

/// How the kernel is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Asked {
    /// For each destination, with the kernel's filter.
    OneByOne,
    /// For the protocol, with the kernel's filter.
    AllAtOnce,
    /// For everything, as on a kernel without filters.
    WithoutFilter,
}

/// The figures for one number of destinations and one way.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) destinations: u32,
    pub(crate) asked: Asked,
    pub(crate) rounds_us: Vec<f64>,
    /// Entries that the kernel sent in one pass.
    pub(crate) sent: u64,
    /// By how much the most memory in use during a pass exceeds that before it, in the pass where it does most.
    pub(crate) rss_growth_kib: u64,
}

impl Row {
    /// Whether portway asks so, of its own choice.
    pub(crate) fn is_taken(&self) -> bool {
        let is_few = usize::try_from(self.destinations).is_ok_and(|n| n <= ONE_BY_ONE_LIMIT);
        match self.asked {
            Asked::OneByOne => is_few,
            Asked::AllAtOnce => !is_few,
            Asked::WithoutFilter => false,
        }
    }

    pub(crate) fn spread(&self) -> Spread {
        Spread::of(self.rounds_us.iter().copied())
    }
}

/// Every number of destinations in every way.
pub(crate) fn all(tracker: Tracker) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for destinations in DESTINATIONS {
        let ways = [Asked::OneByOne, Asked::AllAtOnce, Asked::WithoutFilter];
        for asked in ways.into_iter().filter(|a| *a != Asked::OneByOne || destinations <= MOST_ONE_BY_ONE) {
            let what = format!("{destinations} destinations, {asked:?}");
            rows.push(step(what, || measure(destinations, asked, tracker))?);
        }
    }
    Ok(rows)
}

fn measure(destinations: u32, asked: Asked, tracker: Tracker) -> Result<Row> {
    let mut maker = Netlink::open()?;
    let (way, open): (Way, fn() -> _) = match asked {
        Asked::OneByOne => (Way::OneByOne, Netlink::open),
        Asked::AllAtOnce => (Way::AllAtOnce, Netlink::open),
        Asked::WithoutFilter => (Way::AllAtOnce, Netlink::open_without_filters),
    };
    let (stale, begin) = (stale(destinations), Instant::now());
    let mut row = Row { destinations, asked, rounds_us: Vec::new(), sent: 0, rss_growth_kib: 0 };
    let mut opened = None;
    while row.rounds_us.len() < ROUNDS && (row.rounds_us.len() < 3 || begin.elapsed() < ROW_LIMIT) {
        tracker::make_stale(&mut maker, destinations)?;
        let before = forget_peak_of_memory()?;
        let conntrack = match &mut opened {
            Some(conntrack) => conntrack,
            none => none.insert(open()?),
        };
        let start = Instant::now();
        let done = forget_by(way, conntrack, &stale)?;
        row.rounds_us.push(start.elapsed().as_secs_f64() * 1e6);
        ensure!(
            done.forgotten == u64::from(STALE),
            "{} of {STALE} stale flows were forgotten",
            done.forgotten
        );
        row.sent = done.looked_at;
        let growth = memory("VmHWM")?.saturating_sub(before);
        row.rss_growth_kib = row.rss_growth_kib.max(growth);
    }
    tracker::check(&mut maker, tracker)?;
    Ok(row)
}

fn stale(destinations: u32) -> BTreeSet<StaleFlows> {
    let of = |n| StaleFlows {
        protocol: Protocol::Udp,
        destination: tracker::destination(n),
        still_served_by: BTreeSet::from([(std::net::Ipv4Addr::new(10, 244, 0, 1).into(), 53)]),
    };
    (0..destinations).map(of).collect()
}

/// Has the kernel count the peak anew; returns what is in use now.
fn forget_peak_of_memory() -> Result<u64> {
    std::fs::write("/proc/self/clear_refs", "5").context("cannot reset the peak of memory")?;
    memory("VmRSS")
}

fn memory(field: &str) -> Result<u64> {
    memory_kib("self", field).context("the kernel tells no memory")
}
