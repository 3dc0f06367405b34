//! What it costs to forget stale flows in a real kernel. `cargo xtask bench conntrack` runs it, as root.
//!
//! The connection tracker is that of a network namespace that the benchmark makes and that vanishes with it. The hash table
//! is shared by all namespaces of the machine, and each listing walks through all of it.

mod pass;
mod tracker;

use std::process::ExitCode;

use anyhow::Result;
use harness::{Bench, Machine, Page, number, step, table};
use pass::{Asked, ROUNDS, Row};
use playground::namespace::Namespace;
use serde::{Deserialize, Serialize};
use tracker::{STALE, Tracker};

#[derive(Debug, Serialize, Deserialize)]
struct Results {
    machine: Machine,
    tracker: Tracker,
    rows: Vec<Row>,
}

fn main() -> ExitCode {
    harness::run::<Results>()
}

impl Bench for Results {
    fn measure(is_quick: bool) -> Result<Self> {
        let machine = Machine::look();
        let foreign = if is_quick { 10_000 } else { 100_000 };
        Namespace::create()?.run(|| {
            let tracker = step(format!("{foreign} flows of others"), || tracker::fill(foreign))?;
            Ok(Self { machine, tracker, rows: pass::all(tracker)? })
        })?
    }

    fn page(&self) -> Page {
        let mut rows: Vec<&Row> = self.rows.iter().collect();
        rows.sort_by_key(|row| row.asked as u8);
        Page::new(self.head()).text(passes(&rows)).text(format!(
            "Medians of {ROUNDS} passes, of fewer where they take long; the stale flows are made anew before each, and each \
             pass forgets all of them and no other. \
             *Taken*: what portway does where the kernel filters; without that it always makes one listing for each family and \
             protocol.\n\
             *RSS growth*: the peak during a pass over what was in use before it, the most of all passes. \
             Entries are looked at as they come, and none is kept."
        ))
    }
}

impl Results {
    fn head(&self) -> String {
        let Tracker { foreign, limit, buckets } = self.tracker;
        format!(
            "{}\n{} flows of others, half of them TCP and half UDP, and {STALE} stale UDP flows, in a network namespace of the \
             benchmark's own; the machine's hash table has {} buckets and lets a namespace hold {} flows.",
            self.machine.sentence(&format!(", portway {}", self.machine.portway)),
            number(foreign),
            number(buckets),
            number(limit),
        )
    }
}

fn passes(rows: &[&Row]) -> String {
    table(rows).columns(&[
        ("asked", &|row| match row.asked {
            Asked::OneByOne => "kernel filters by destination, one listing each".into(),
            Asked::AllAtOnce => "kernel filters by protocol, one listing".into(),
            Asked::WithoutFilter => "kernel does not filter, one listing".into(),
        }),
        ("stale destinations", &|row| number(row.destinations)),
        ("taken", &|row| if row.is_taken() { "yes".into() } else { String::new() }),
        ("p50", &|row| milliseconds(row.spread().median)),
        ("spread", &|row| row.spread().range(milliseconds)),
        ("entries sent", &|row| number(row.sent)),
        ("RSS growth", &|row| format!("{} KiB", number(row.rss_growth_kib))),
    ])
}

fn milliseconds(us: f64) -> String {
    if us < 1e5 { format!("{:.1} ms", us / 1e3) } else { format!("{:.0} ms", us / 1e3) }
}
