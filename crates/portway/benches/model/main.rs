//! What the model costs: memory for a whole cluster, time for one change. `cargo xtask bench model` runs it.
//!
//! Heap is read as the growth of the process's anonymous memory: an upper bound of what was asked for, and what a node
//! really pays. Times are medians and 99th percentiles of single changes, from an object in memory to an updated table.

use std::hint::black_box;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use harness::cluster::{self, Change, ENDPOINTS};
use harness::process::memory_kib;
use harness::{Bench, Page, Quantiles, fresh, ms};
use model::facts::Fact;
use model::{Cluster, Event, ForwardingTable};
use serde::{Deserialize, Serialize};
use serde_json::{Value, to_value};

const SIZES: [u32; 3] = [1_000, 10_000, 45_000];
const CHANGES: u32 = 1_000;

#[derive(Debug, Serialize, Deserialize)]
#[serde(transparent)]
struct Results(Vec<Size>);

#[derive(Debug, Serialize, Deserialize)]
struct Size {
    services: u32,
    heap_mib: f64,
    load_ms: f64,
    endpoint_change_us: f64,
    endpoint_change_p99_us: f64,
    service_change_us: f64,
    service_change_p99_us: f64,
}

fn main() -> ExitCode {
    harness::run::<Results>()
}

impl Bench for Results {
    const NEEDS_ROOT: bool = false;

    fn measure(is_quick: bool) -> Result<Self> {
        let sizes = SIZES.iter().take(if is_quick { 1 } else { SIZES.len() });
        Ok(Self(sizes.map(|services| fresh("size", *services)).collect::<Result<_>>()?))
    }

    /// Columns of text, in a block of their own.
    fn page(&self) -> Page {
        let rows = self.0.iter().map(|size| {
            format!(
                "{:>8}   {:>8.1}   {:>7.0}   {:>18.1}   {:>6.1}   {:>24.1}   {:>6.1}\n",
                size.services,
                size.heap_mib,
                size.load_ms,
                size.endpoint_change_us,
                size.endpoint_change_p99_us,
                size.service_change_us,
                size.service_change_p99_us
            )
        });
        Page::new(format!(
            "```text\n\
             model: n services x {ENDPOINTS} endpoints; goal at 45,000: heap <= 60 MiB, endpoint change <= 50 us median\n\n\
             services   heap MiB   load ms   endpoint change us   p99      service added+removed us   p99\n\
             {}```",
            rows.collect::<String>()
        ))
    }

    fn part(_size: &str, services: u32) -> Result<Value> {
        Ok(to_value(measure(services)?)?)
    }
}

struct Model {
    cluster: Cluster,
    table: ForwardingTable,
}

impl Model {
    fn apply(&mut self, event: Event) {
        let changed = self.cluster.apply(event);
        black_box(self.table.update(&self.cluster, &changed));
    }

    fn time(&mut self, events: Vec<Event>) -> Duration {
        let start = Instant::now();
        for event in events {
            self.apply(event);
        }
        start.elapsed()
    }
}

fn measure(services: u32) -> Result<Size> {
    let before = anonymous_mib()?;
    let cluster = Cluster::new(cluster::config());
    let mut model = Model { table: ForwardingTable::of(&cluster), cluster };
    let start = Instant::now();
    cluster::facts(services).for_each(|fact: Fact| model.apply(Event::Apply(fact)));
    let load_ms = ms(start.elapsed());
    let heap_mib = anonymous_mib()? - before;
    let [replaced, _, _, added, removed] = Change::ALL;
    let endpoint = Quantiles::of((0..CHANGES).map(|i| model.time(replaced.events(i, services))));
    let service = Quantiles::of(
        (0..CHANGES).map(|i| model.time([added.events(i, services), removed.events(i, services)].concat())),
    );
    Ok(Size {
        services,
        heap_mib,
        load_ms,
        endpoint_change_us: endpoint.p50_us,
        endpoint_change_p99_us: endpoint.p99_us,
        service_change_us: service.p50_us,
        service_change_p99_us: service.p99_us,
    })
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn anonymous_mib() -> Result<f64> {
    let kib = memory_kib("self", "RssAnon").context("the kernel tells no RssAnon")?;
    Ok(kib as f64 / 1024.0)
}
