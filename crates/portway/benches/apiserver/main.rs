//! A large cluster served by an API server on loopback: how soon its rules are in the kernel, what that costs, and how a change and a
//! storm of changes are followed. `cargo xtask bench apiserver` runs it, as root.
//!
//! The real program runs in a network namespace that vanishes with the benchmark, the server in the benchmark itself. A start is timed
//! from the process' begin until it says that it is in sync; a change from the moment before the server gets it until the kernel tells
//! of the transaction.

mod cluster;
mod page;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::ExitCode;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use cluster::Cluster;
use harness::node::Node;
use harness::{Bench, Machine, Page, ms, rounds, step};
use kernel::nft::{Event, Monitor};
use serde::{Deserialize, Serialize};

/// Services, starts, single changes, and changes of the storm.
const WHOLE: (u32, u32, u32, u32) = (45_000, 3, 200, 10_000);
const QUICK: (u32, u32, u32, u32) = (1_000, 1, 20, 1_000);
/// The shortest wait between writes in each storm: ours by default, then upstream's.
const STORM_PERIODS: [&str; 2] = ["50ms", "1s"];
/// One change of the storm in so long.
const STORM_PACE: Duration = Duration::from_millis(1);
/// A storm that is not followed by then never will be.
const STORM_LIMIT: Duration = Duration::from_secs(60);
/// A change that is not in the kernel by then never will be.
const LIMIT: Duration = Duration::from_secs(10);
/// Between two changes it is quiet for so long: each is a single one.
const QUIET: Duration = Duration::from_millis(50);

const METRICS: &str = "127.0.0.1:10249";
const CHANGES: &str = "kubeproxy_sync_proxy_rules_endpoint_changes_total";
const CPU: &str = "process_cpu_seconds_total";
const PENDING: &str = "kubeproxy_sync_proxy_rules_endpoint_changes_pending";
const SYNCS: &str = "kubeproxy_sync_proxy_rules_duration_seconds_count{ip_family=\"IPv4\"}";

/// All figures; times in milliseconds, memory in MiB.
#[derive(Debug, Serialize, Deserialize)]
struct Results {
    services: u32,
    load_before: f64,
    starts: Vec<Start>,
    changes: Vec<f64>,
    /// With the default's shortest wait between writes, and with upstream's.
    storms: Vec<Storm>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Start {
    took: f64,
    rss: f64,
    rss_peak: f64,
}

#[derive(Debug, Serialize, Deserialize)]
struct Storm {
    min_sync_period: String,
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
    harness::run::<Results>()
}

impl Bench for Results {
    fn measure(is_quick: bool) -> Result<Self> {
        let (services, starts, changes, storm) = if is_quick { QUICK } else { WHOLE };
        let load_before = Machine::look().load_before;
        let mut starts = rounds(0, starts - 1, |_| Ok(Served::start(services, &[])?.1))?;
        let (served, last) = Served::start(services, &["--min-sync-period", "0s"])?;
        starts.push(last);
        // After a cold sync portway rests for up to a second: the first change waits for that.
        let changes = step(format!("{changes} changes, one by one"), || {
            rounds(1, changes, |turn| Ok(ms(served.time_change(turn)?)))
        })?;
        drop(served);
        let storms = STORM_PERIODS.iter().map(|period| {
            let (served, _) = Served::start(services, &["--min-sync-period", period])?;
            let what = format!("a storm of {storm} changes, written every {period}");
            step(what, || served.storm(storm, (*period).into()))
        });
        Ok(Self { services, load_before, starts, changes, storms: storms.collect::<Result<_>>()? })
    }

    fn page(&self) -> Page {
        page::of(self)
    }
}

/// A portway that follows a cluster.
struct Served {
    node: Node,
    cluster: Cluster,
}

impl Served {
    /// Starts the program on an empty kernel.
    fn start(services: u32, arguments: &[&str]) -> Result<(Self, Start)> {
        step(format!("{services} Services: start"), || {
            let mut node = Node::new(env!("CARGO_BIN_EXE_portway"), services)?;
            let cluster = node.namespace.run(|| Cluster::of(services))??;
            let url = cluster.url();
            let own = ["--master", &url, "--healthz-bind-address", "", "--metrics-bind-address", METRICS];
            // These are settings of the whole machine.
            let machine = ["--conntrack-max-per-core", "0", "--conntrack-tcp-timeout-established", "0s"];
            let more = ["--conntrack-tcp-timeout-close-wait", "0s"];
            let took = ms(node.start(&[&own, &machine[..], &more, arguments].concat())?);
            let (rss, rss_peak) = (node.memory_mib("VmRSS")?, node.memory_mib("VmHWM")?);
            Ok((Self { node, cluster }, Start { took, rss, rss_peak }))
        })
    }

    /// From the moment before the server gets a change until the kernel tells of the transaction.
    fn time_change(&self, turn: u32) -> Result<Duration> {
        self.node.namespace.run(|| {
            let mut monitor = Monitor::open()?;
            while monitor.next(QUIET)?.is_some() {}
            let begun = Instant::now();
            self.cluster.change(turn);
            while let Some(event) = monitor.next(LIMIT)? {
                if matches!(event, Event::Generation { .. } | Event::Lost) {
                    return Ok(begun.elapsed());
                }
            }
            bail!("a change was not written within {} s", LIMIT.as_secs())
        })?
    }

    fn storm(&self, changes: u32, min_sync_period: String) -> Result<Storm> {
        let (counted, syncs, cpu) = (self.metric(CHANGES)?, self.metric(SYNCS)?, self.metric(CPU)?);
        let begun = Instant::now();
        for turn in 0..changes {
            self.cluster.change(turn);
            let next = begun + STORM_PACE * (turn + 1);
            sleep(next.saturating_duration_since(Instant::now()));
        }
        let (lasted, ended) = (begun.elapsed(), Instant::now());
        let wanted = counted + f64::from(changes);
        while self.metric(CHANGES)? < wanted || self.metric(PENDING)? > 0.0 {
            ensure!(ended.elapsed() < STORM_LIMIT, "the storm was not followed within a minute");
        }
        let behind = ms(ended.elapsed());
        let rss = self.node.memory_mib("VmRSS")?;
        let (syncs, cpu) = (self.metric(SYNCS)? - syncs, (self.metric(CPU)? - cpu) * 1e3);
        Ok(Storm { min_sync_period, changes, lasted: ms(lasted), behind, syncs, cpu, rss })
    }

    /// A figure of portway's metrics.
    fn metric(&self, name: &str) -> Result<f64> {
        let page = self.node.namespace.run(|| -> std::io::Result<String> {
            let mut stream = TcpStream::connect(METRICS)?;
            stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")?;
            let mut page = String::new();
            stream.read_to_string(&mut page)?;
            Ok(page)
        })??;
        let value = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.and_then(|value| value.parse().ok()).with_context(|| format!("no metric {name}"))
    }
}
