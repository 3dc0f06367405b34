//! A large cluster served by an API server on loopback: how soon its rules are in the kernel, what that costs, and how a change and a
//! storm of changes are followed. `cargo xtask bench apiserver` runs it, as root.
//!
//! In: nothing, or `--quick` for a small cluster. Out: progress on standard error, tables (Markdown) on standard output, everything as
//! JSON (`--json FILE`).
//!
//! The real program runs in a network namespace that vanishes with the benchmark, the server in the benchmark itself. A start is timed
//! from the process' begin until it says that it is in sync; a change from the moment before the server gets it until the kernel tells
//! of the transaction.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a benchmark prints its table and its progress"
)]

mod cluster;
#[path = "../shared/command.rs"]
mod command;
mod node;
mod page;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use cluster::Cluster;
use command::{end, has, write_json};
use node::Node;
use serde::Serialize;

/// Services, starts, single changes, and changes of the storm.
const WHOLE: Size = Size { services: 45_000, starts: 3, changes: 200, storm: 10_000 };
const QUICK: Size = Size { services: 1_000, starts: 1, changes: 20, storm: 1_000 };
/// The shortest wait between writes in each storm: ours by default, then upstream's.
const STORM_PERIODS: [&str; 2] = ["50ms", "1s"];
/// One change of the storm in so long.
const STORM_PACE: Duration = Duration::from_millis(1);

#[derive(Clone, Copy, Debug)]
struct Size {
    services: u32,
    starts: usize,
    changes: u32,
    storm: u32,
}

/// All figures; times in milliseconds, memory in MiB.
#[derive(Debug, Serialize)]
struct Results {
    services: u32,
    load_before: f64,
    starts: Vec<Start>,
    changes: Vec<f64>,
    /// With the default's shortest wait between writes, and with upstream's.
    storms: Vec<Storm>,
}

#[derive(Debug, Serialize)]
struct Start {
    took: f64,
    rss: f64,
    rss_peak: f64,
}

#[derive(Debug, Serialize)]
struct Storm {
    min_sync_period: &'static str,
    changes: u32,
    /// From its first change to its last.
    lasted: f64,
    /// From its last change until nothing waited to be written.
    behind: f64,
    syncs: f64,
    /// Of portway, from the first change until nothing waited to be written.
    cpu: f64,
    rss: f64,
}

fn main() -> ExitCode {
    end(run())
}

fn run() -> Result<()> {
    if let Err(error) = playground::namespace::Namespace::create() {
        bail!("this benchmark makes network namespaces and needs root for it: {error}");
    }
    let is_quick = has("--quick");
    let results = measure(if is_quick { QUICK } else { WHOLE })?;
    println!("{}", page::render(&results).trim_end());
    write_json(&results)
}

fn measure(size: Size) -> Result<Results> {
    let load_before = load().unwrap_or_default();
    let mut starts = Vec::new();
    for _ in 1..size.starts {
        starts.push(start(size, &[])?.0);
    }
    let (last, node, cluster) = start(size, &["--min-sync-period", "0s"])?;
    starts.push(last);
    eprintln!("{} changes, one by one …", size.changes);
    // After a cold sync portway rests for up to a second: the first change waits for that.
    node.time_change(&cluster, 0)?;
    let changes = (1..=size.changes).map(|turn| node.time_change(&cluster, turn).map(milliseconds));
    let changes = changes.collect::<Result<Vec<_>>>()?;
    drop(node);
    let mut storms = Vec::new();
    for period in STORM_PERIODS {
        let (_, node, cluster) = start(size, &["--min-sync-period", period])?;
        storms.push(storm(&node, &cluster, size.storm, period)?);
    }
    Ok(Results { services: size.services, load_before, starts, changes, storms })
}

/// Starts the program on an empty kernel.
fn start(size: Size, arguments: &[&str]) -> Result<(Start, Node, Cluster)> {
    eprint!("{} Services: start …", size.services);
    let mut node = Node::new()?;
    let cluster = node.inside(|| Cluster::of(size.services))??;
    let took = node.start(&cluster.url(), size.services, arguments)?;
    let memory = |field| node.memory_mib(field).context("the process tells no memory");
    let start = Start { took: milliseconds(took), rss: memory("VmRSS")?, rss_peak: memory("VmHWM")? };
    eprintln!(" {:.0} ms, {:.0} MiB", start.took, start.rss);
    Ok((start, node, cluster))
}

fn storm(node: &Node, cluster: &Cluster, changes: u32, min_sync_period: &'static str) -> Result<Storm> {
    eprintln!("a storm of {changes} changes, written every {min_sync_period} …");
    let (counted, syncs, cpu) = (node.metric(CHANGES)?, node.metric(SYNCS)?, node.metric(CPU)?);
    let begun = Instant::now();
    for turn in 0..changes {
        cluster.change(turn);
        let next = begun + STORM_PACE * (turn + 1);
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    let (lasted, ended) = (begun.elapsed(), Instant::now());
    let wanted = counted + f64::from(changes);
    while node.metric(CHANGES)? < wanted || node.metric(PENDING)? > 0.0 {
        if ended.elapsed() > Duration::from_secs(60) {
            bail!("the storm was not followed within a minute");
        }
    }
    let behind = milliseconds(ended.elapsed());
    let rss = node.memory_mib("VmRSS").context("the process tells no memory")?;
    let (syncs, cpu) = (node.metric(SYNCS)? - syncs, (node.metric(CPU)? - cpu) * 1e3);
    Ok(Storm { min_sync_period, changes, lasted: milliseconds(lasted), behind, syncs, cpu, rss })
}

const CHANGES: &str = "kubeproxy_sync_proxy_rules_endpoint_changes_total";
const CPU: &str = "process_cpu_seconds_total";
const PENDING: &str = "kubeproxy_sync_proxy_rules_endpoint_changes_pending";
const SYNCS: &str = "kubeproxy_sync_proxy_rules_duration_seconds_count{ip_family=\"IPv4\"}";

fn load() -> Option<f64> {
    std::fs::read_to_string("/proc/loadavg").ok()?.split_whitespace().next()?.parse().ok()
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
