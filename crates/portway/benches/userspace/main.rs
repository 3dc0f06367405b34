//! What it costs to carry connections in user space, beside HAProxy and nginx. `cargo xtask bench userspace` runs it; `--only WORD`
//! measures the loads whose name has the word.
//!
//! All proxies run at the same time, two threads each, and are measured in turn, round by round: whatever else happens on
//! the machine happens to all of them. Clients and endpoints are threads of this process, all on loopback. Each proxy is a
//! process of its own, so that its processor time and memory can be read; portway's relay is this program once more.
//!
//! HAProxy and nginx are Debian's. Where they are missing their packages are unpacked aside: nothing is installed.

mod endpoints;
mod load;
mod page;
mod peers;
mod proxy;
mod relay;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use endpoints::Endpoints;
use harness::{Bench, Cpu, Machine, Page, Quantiles, Spread, argument, say, step};
use load::{LOADS, Load};
use proxy::Proxy;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Rounds, how long each measurement takes, and idle connections.
const WHOLE: (usize, Duration, usize) = (7, Duration::from_secs(2), 10_000);
const QUICK: (usize, Duration, usize) = (3, Duration::from_millis(700), 1_000);

#[derive(Debug, Serialize, Deserialize)]
struct Results {
    machine: Machine,
    /// Each proxy and its version.
    peers: Vec<(String, String)>,
    /// How many files a process may have open here.
    files: u64,
    /// How long each measurement took.
    seconds: f64,
    measured: Vec<Measured>,
    idle: Vec<Idle>,
}

/// A proxy under load for some seconds.
#[derive(Debug, Serialize, Deserialize)]
struct Measured {
    round: usize,
    load: String,
    proxy: String,
    cpu_seconds: f64,
    /// Of clients and endpoints.
    ends_cpu_seconds: f64,
    figures: Figures,
}

/// What clients counted.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Figures {
    /// Bytes, connections, round trips or datagrams.
    units: u64,
    seconds: f64,
    latency: Option<Quantiles>,
    lost: u64,
}

/// A proxy with very many connections that do nothing.
#[derive(Debug, Serialize, Deserialize)]
struct Idle {
    proxy: String,
    connections: usize,
    before_kib: u64,
    after_kib: u64,
}

fn main() -> ExitCode {
    harness::run::<Results>()
}

impl Bench for Results {
    const NEEDS_ROOT: bool = false;

    fn measure(is_quick: bool) -> Result<Self> {
        let (rounds, length, idle) = if is_quick { QUICK } else { WHOLE };
        let only = argument("--only").unwrap_or_default();
        let machine = Machine::look();
        let files = kernel::limit::raise_files().context("cannot raise the limit of open files")?;
        let endpoints = Endpoints::start()?;
        // Two files for each in the proxy, and two in this process, which is both ends.
        let idle = idle.min(usize::try_from(files.saturating_sub(1000) / 2)?);
        let proxies = proxy::start_all(&endpoints, idle)?;
        let mut measured = Vec::new();
        for round in 1..=rounds {
            for load in LOADS.iter().filter(|load| load.name.contains(&only)) {
                say(format!("round {round} of {rounds}: {}", load.name));
                for proxy in proxies.iter().filter(|proxy| proxy.can(load)) {
                    measured.push(under_load(round, load, proxy, length)?);
                }
            }
        }
        let idle = proxies.iter().map(|proxy| hold_idle(proxy, &endpoints, idle)).collect::<Result<_>>()?;
        let peers = proxies.iter().map(|proxy| (proxy.name.to_owned(), proxy.version.clone())).collect();
        Ok(Self { machine, peers, files, seconds: length.as_secs_f64(), measured, idle })
    }

    fn page(&self) -> Page {
        page::of(self)
    }

    fn part(_relay: &str, _services: u32) -> Result<Value> {
        relay::carry()?;
        Ok(Value::Null)
    }
}

fn under_load(round: usize, load: &Load, proxy: &Proxy, length: Duration) -> Result<Measured> {
    let (before, own_before) = (proxy.cpu_seconds(), Cpu::own()?);
    let figures = load.run(proxy, length).with_context(|| format!("{} of {}", load.name, proxy.name))?;
    Ok(Measured {
        round,
        load: load.name.into(),
        proxy: proxy.name.into(),
        cpu_seconds: proxy.cpu_seconds() - before,
        ends_cpu_seconds: Cpu::own()?.since(own_before).sum_ms() / 1e3,
        figures,
    })
}

/// Memory with very many connections that do nothing.
fn hold_idle(proxy: &Proxy, endpoints: &Endpoints, count: usize) -> Result<Idle> {
    step(format!("{count} idle connections through {}", proxy.name), || {
        let before_kib = proxy.resident_kib();
        let connections = endpoints.hold_idle(proxy.ports[endpoints::IDLE], count)?.len();
        Ok(Idle { proxy: proxy.name.into(), connections, before_kib, after_kib: proxy.resident_kib() })
    })
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
impl Measured {
    /// Units in a second.
    fn rate(&self) -> f64 {
        self.figures.units as f64 / self.figures.seconds
    }

    /// Microseconds of the proxy's processor time for a unit.
    fn cpu_us(&self) -> f64 {
        self.cpu_seconds * 1e6 / self.figures.units as f64
    }

    /// The same with that of clients and endpoints: what a unit costs the machine.
    fn whole_us(&self) -> f64 {
        (self.cpu_seconds + self.ends_cpu_seconds) * 1e6 / self.figures.units as f64
    }

    fn p50_us(&self) -> f64 {
        self.figures.latency.map_or(f64::NAN, |latency| latency.p50_us)
    }

    fn p99_us(&self) -> f64 {
        self.figures.latency.map_or(f64::NAN, |latency| latency.p99_us)
    }
}

impl Idle {
    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    fn kib_each(&self) -> f64 {
        self.after_kib.saturating_sub(self.before_kib) as f64 / self.connections as f64
    }
}

impl Results {
    /// The median and the spread of a figure of all rounds, if the proxy was under this load.
    fn spread(&self, load: &str, proxy: &str, figure: impl Fn(&Measured) -> f64) -> Option<Spread> {
        let rounds = self.measured.iter().filter(|one| one.load == load && one.proxy == proxy);
        let figures: Vec<f64> = rounds.map(figure).collect();
        (!figures.is_empty()).then(|| Spread::of(figures))
    }
}
