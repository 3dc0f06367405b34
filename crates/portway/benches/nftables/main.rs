//! What the nftables mode costs, in a real kernel. `cargo xtask bench nftables` runs it, as root.
//!
//! | file | what it measures |
//! |---|---|
//! | this one | facts in memory → the kernel has all; one event → the kernel's acknowledgement; memory |
//! | `traffic` | connects through a service and straight |
//! | `established` | exchanges and throughput of an open connection, with and without the rule for stray replies |
//! | `yardstick` | the usual layout, loaded by `nft -f` |
//!
//! Everything happens in network namespaces that the benchmark makes and that vanish with it.

mod established;
mod page;
mod picture;
mod traffic;
mod upstream;
mod yardstick;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use dataplane::Dataplane as _;
use dataplane::nftables::Options;
use dataplane::nftables::sim::Nftables;
use harness::cluster::{self, Change, ENDPOINTS};
use harness::process::{thread_cpu_us, thread_waited_ms};
use harness::{Bench, Cpu, Machine, Page, Quantiles, Spread, fresh, in_turn, memory_mib, ms, rounds};
use kernel::nft::{Family, Kernel as _, Netlink};
use model::facts::Fact;
use playground::namespace::Namespace;
use serde::{Deserialize, Serialize};
use serde_json::{Value, to_value};

const SIZES: [u32; 3] = [1_000, 10_000, 45_000];
const COLD_RUNS: [u32; 2] = [9, 3];
/// Cold syncs right before the yardstick.
const BESIDE: u32 = 5;
/// How often each kind of change is measured.
const CHANGES: u32 = 200;
/// Changes that nobody counts, before each kind: they bring this code into the processor's caches.
const WARM_UP: u32 = 5;

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Results {
    machine: Machine,
    sizes: Vec<Size>,
    traffic: Vec<traffic::Traffic>,
    /// Empty in files of before it was measured.
    #[serde(default)]
    established: Vec<established::Round>,
    /// Empty where there is no `nft`.
    yardstick: Vec<yardstick::Yardstick>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Size {
    services: u32,
    /// Each in a process of its own.
    cold: Vec<Cold>,
    loaded: Loaded,
}

/// One cold sync.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[expect(clippy::struct_field_names, reason = "they all have a unit, and the names go into the JSON file")]
struct Cold {
    /// Facts → table.
    model_ms: f64,
    /// Table → the kernel's last acknowledgement.
    kernel_ms: f64,
    user_ms: f64,
    system_ms: f64,
    /// How much of the wall time others had all cores.
    waited_ms: f64,
}

/// What a loaded proxy weighs, and what its changes cost.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Loaded {
    rss_mib: f64,
    /// The most until the cold sync was over.
    rss_peak_mib: f64,
    changes: Vec<Kind>,
}

/// One kind of change.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Kind {
    name: String,
    /// Event → acknowledgement.
    whole: Quantiles,
    /// Of it, event → table.
    model: Quantiles,
    /// The later transaction that deletes what nothing leads to any more.
    settle: Quantiles,
    /// CPU time, settling included.
    cpu_us: f64,
}

fn main() -> ExitCode {
    harness::run::<Results>()
}

impl Bench for Results {
    fn measure(is_quick: bool) -> Result<Self> {
        let machine = Machine::look();
        let sizes = if is_quick { &SIZES[..1] } else { &SIZES };
        let (traffic, yardstick) =
            if is_quick { ([10, 1_000], &SIZES[..1]) } else { ([10, 45_000], &SIZES[..2]) };
        let sizes = measure_sizes(sizes, COLD_RUNS[usize::from(is_quick)])?;
        let traffic =
            traffic.map(|services| fresh("traffic", services)).into_iter().collect::<Result<_>>()?;
        let established = fresh("established", established::SERVICES)?;
        // Last, because the kernel is busy for a while with taking the yardstick's rules away.
        let yardstick =
            yardstick.iter().filter(|_| machine.nft != "unknown").map(|services| beside(*services));
        let yardstick = yardstick.collect::<Result<_>>()?;
        Ok(Self { machine, sizes, traffic, established, yardstick })
    }

    fn page(&self) -> Page {
        page::of(self)
    }

    fn picture(&self) -> Option<String> {
        Some(picture::of(self))
    }

    fn part(name: &str, services: u32) -> Result<Value> {
        Ok(match name {
            "cold" => to_value(cold(services)?)?,
            "changes" => to_value(loaded(services)?)?,
            "established" => to_value(established::measure()?)?,
            "traffic" => to_value(traffic::measure(services)?)?,
            "yardstick" => to_value(yardstick::measure(services)?)?,
            other => bail!("no part `{other}`"),
        })
    }
}

/// Cold syncs of all sizes in turn, then the changes.
fn measure_sizes(sizes: &[u32], cold_runs: u32) -> Result<Vec<Size>> {
    let cold = in_turn(cold_runs, sizes, |services| fresh("cold", services))?;
    let sizes = cold
        .into_iter()
        .zip(sizes)
        .map(|(cold, services)| Ok(Size { services: *services, cold, loaded: fresh("changes", *services)? }));
    sizes.collect()
}

/// The yardstick, and right before it some cold syncs of ours: a machine's mood changes within a minute.
fn beside(services: u32) -> Result<yardstick::Yardstick> {
    let beside = rounds(0, BESIDE, |_| fresh("cold", services))?;
    Ok(yardstick::Yardstick { beside, ..fresh("yardstick", services)? })
}

type Proxy = harness::proxy::Proxy<Nftables<Netlink>>;

/// A proxy for this namespace: the mode's socket stays inside, wherever it is used.
fn start(namespace: &Namespace, facts: impl Iterator<Item = Fact>) -> Result<(Proxy, harness::proxy::Times)> {
    let kernel = namespace.run(Netlink::open)??;
    Proxy::start(Nftables::new(kernel, Options::default()), facts)
}

fn cold(services: u32) -> Result<Cold> {
    let namespace = Namespace::create()?;
    let facts: Vec<Fact> = cluster::facts(services).collect();
    let (before, waited_before) = (Cpu::own()?, thread_waited_ms()?);
    let (_proxy, times) = start(&namespace, facts.into_iter())?;
    let (Cpu { user_ms, system_ms }, waited_ms) =
        (Cpu::own()?.since(before), thread_waited_ms()? - waited_before);
    let (model_ms, kernel_ms) = (ms(times.table), ms(times.whole) - ms(times.table));
    Ok(Cold { model_ms, kernel_ms, user_ms, system_ms, waited_ms })
}

/// Loads so many services; what that weighs, and what changes cost then.
fn loaded(services: u32) -> Result<Loaded> {
    let namespace = Namespace::create()?;
    // Facts are made one at a time, as a source would hand them over: they are no part of the proxy's weight.
    let (mut proxy, _) = start(&namespace, cluster::facts(services))?;
    let (rss_mib, rss_peak_mib) = (memory_mib("self", "VmRSS")?, memory_mib("self", "VmHWM")?);
    let kinds = Change::ALL.iter().map(|change| kind(&mut proxy, change, services));
    let changes = kinds.collect::<Result<_>>()?;
    verify(&mut proxy, services * ENDPOINTS)?;
    Ok(Loaded { rss_mib, rss_peak_mib, changes })
}

fn kind(proxy: &mut Proxy, change: &Change, services: u32) -> Result<Kind> {
    let measured = rounds(WARM_UP, CHANGES, |i| {
        let events = change.events(i, services);
        thread_cpu_us(|| Ok((proxy.change(events)?, proxy.settle()?)))
    })?;
    let of = |part: fn(&(harness::proxy::Times, Duration)) -> Duration| {
        Quantiles::of(measured.iter().map(|(times, _)| part(times)))
    };
    Ok(Kind {
        name: change.name.into(),
        whole: of(|(times, _)| times.whole),
        model: of(|(times, _)| times.table),
        settle: of(|(_, settle)| *settle),
        cpu_us: measured.iter().map(|(_, cpu_us)| cpu_us).sum::<f64>() / f64::from(CHANGES),
    })
}

/// Reads everything back: the kernel must hold what the table says, and no endpoint beside it.
fn verify(proxy: &mut Proxy, endpoints: u32) -> Result<()> {
    let differences = proxy.mode.differences(&proxy.table)?;
    ensure!(differences.is_empty(), "the kernel differs from the table: {}", differences.join("\n"));
    let listed = proxy.mode.kernel().list(Family::V4, "kube-proxy")?.context("the table is gone")?;
    let found = listed.sets.get("endpoints").map_or(0, |set| set.elements.len());
    ensure!(u32::try_from(found)? == endpoints, "the kernel holds {found} endpoints, not {endpoints}");
    Ok(())
}

impl Cold {
    fn wall_ms(&self) -> f64 {
        self.model_ms + self.kernel_ms
    }
}

impl Size {
    fn cold(&self, figure: fn(&Cold) -> f64) -> Spread {
        Spread::of(self.cold.iter().map(figure))
    }
}
