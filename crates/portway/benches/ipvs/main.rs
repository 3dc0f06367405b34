//! What the IPVS mode costs, in a kernel that has IPVS. `cargo xtask bench ipvs` runs it in the VM.
//!
//! | file | what it is for |
//! |---|---|
//! | this one | the figures, and the order in which they are measured |
//! | `proxy` | the mode that is measured, and what goes through its interfaces to the kernel |
//! | `tap` | the netlink datagrams of a namespace, as the kernel counts them |
//! | `programs` | the yardstick: the same state loaded by `ipset`, `ipvsadm`, `ip` and iptables |
//! | `changes` | one event → in force, all sizes in turn; and one address alone |
//!
//! Everything happens in network namespaces that the benchmark makes and that vanish with it.

mod changes;
mod page;
mod programs;
mod proxy;
mod tap;

use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail, ensure};
use changes::Loaded;
use harness::{Bench, Cpu, Machine, Page, Spread, fresh, memory_mib};
use programs::Run;
use proxy::{Work, start};
use serde::{Deserialize, Serialize};
use serde_json::{Value, to_value};
use tap::Traffic;

const SIZES: [u32; 2] = [1_000, 10_000];
/// Cold loads of ours, each followed by one of the programs, for which the larger size takes a minute and more.
const COLD_RUNS: [usize; 2] = [5, 3];
/// Of the kernel, without which there is nothing to measure.
const MODULES: [&str; 3] = ["ip_vs", "dummy", "nlmon"];

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Results {
    /// The machine that the VM runs on.
    machine: Machine,
    /// The VM's kernel.
    kernel: String,
    /// Of the programs.
    versions: String,
    sizes: Vec<Size>,
    loaded: Loaded,
}

/// Cold loads of one number of services.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Size {
    services: u32,
    counted: Counted,
    programs_counted: Vec<Run>,
    /// Ours, each in a process of its own.
    cold: Vec<Cold>,
    /// Right after each of ours, the programs.
    programs: Vec<Vec<Run>>,
}

/// One cold load.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Cold {
    work: Work,
    user_ms: f64,
    system_ms: f64,
    /// CPU of the iptables programs.
    programs_ms: f64,
    /// Resident memory afterwards: facts, table and what is known of the kernel.
    rss_mib: f64,
    rss_peak_mib: f64,
}

/// What went over netlink, the iptables programs' part included.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Counted {
    work: Work,
    traffic: Traffic,
}

fn main() -> ExitCode {
    harness::run::<Results>()
}

impl Bench for Results {
    fn measure(is_quick: bool) -> Result<Self> {
        // Modules are nobody's to load on a machine that is in use.
        let is_vm = std::env::var_os("PORTWAY_VM").is_some();
        ensure!(is_vm, "this benchmark runs in the VM: `cargo xtask bench ipvs`");
        for module in MODULES {
            let loaded =
                Command::new("modprobe").arg(module).status().context("`modprobe` cannot be started")?;
            ensure!(loaded.success(), "the kernel has no module `{module}`");
        }
        let (machine, kernel) = (harness::host()?, Machine::look().kernel);
        let sizes = if is_quick { &SIZES[..1] } else { &SIZES };
        let measured = sizes.iter().map(|services| measure_size(*services)).collect::<Result<_>>()?;
        let loaded = fresh("changes", sizes[sizes.len() - 1])?;
        Ok(Self { machine, kernel, versions: programs::versions(), sizes: measured, loaded })
    }

    fn page(&self) -> Page {
        page::of(self)
    }

    fn part(name: &str, services: u32) -> Result<Value> {
        Ok(match name {
            "cold" => to_value(cold(services)?)?,
            "cold-counted" => to_value(count(services)?)?,
            "programs" => to_value(programs::measure(services, false)?)?,
            "programs-counted" => to_value(programs::measure(services, true)?)?,
            "changes" => to_value(changes::measure(SIZES.into_iter().filter(|size| *size <= services))?)?,
            other => bail!("no part `{other}`"),
        })
    }
}

fn measure_size(services: u32) -> Result<Size> {
    let (counted, programs_counted) =
        (fresh("cold-counted", services)?, fresh("programs-counted", services)?);
    let (mut cold, mut programs) = (Vec::new(), Vec::new());
    for _ in 0..COLD_RUNS[usize::from(services > SIZES[0])] {
        cold.push(fresh("cold", services)?);
        programs.push(fresh("programs", services)?);
    }
    Ok(Size { services, counted, programs_counted, cold, programs })
}

fn cold(services: u32) -> Result<Cold> {
    let namespace = harness::node::namespace()?;
    let (own, children) = (Cpu::own()?, Cpu::children()?);
    let (_proxy, work) = namespace.run(|| start(services))??;
    let (own, children) = (Cpu::own()?.since(own), Cpu::children()?.since(children));
    Ok(Cold {
        work,
        user_ms: own.user_ms,
        system_ms: own.system_ms,
        programs_ms: children.sum_ms(),
        rss_mib: memory_mib("self", "VmRSS")?,
        rss_peak_mib: memory_mib("self", "VmHWM")?,
    })
}

/// Counts what one says to the kernel and hears from it.
fn count(services: u32) -> Result<Counted> {
    let ((_proxy, work), traffic) = harness::node::namespace()?.run(|| tap::count(|| start(services)))??;
    Ok(Counted { work, traffic })
}

impl Size {
    fn cold(&self, figure: impl Fn(&Cold) -> f64) -> Spread {
        Spread::of(self.cold.iter().map(figure))
    }

    /// Of each pair of loads, a figure of ours as a part of what this many programs took.
    fn ratio(&self, programs: usize, ours: fn(&Cold) -> f64, theirs: fn(&Run) -> f64) -> Spread {
        let pairs = self.cold.iter().zip(&self.programs);
        Spread::of(pairs.map(|(cold, runs)| ours(cold) / runs.iter().take(programs).map(theirs).sum::<f64>()))
    }

    /// Wall time.
    fn wall_ratio(&self, programs: usize) -> Spread {
        self.ratio(programs, |cold| cold.work.whole_ms, |run| run.ms)
    }

    /// CPU time, in programs that ours started too.
    fn cpu_ratio(&self, programs: usize) -> Spread {
        self.ratio(programs, |cold| cold.user_ms + cold.system_ms + cold.programs_ms, |run| run.cpu_ms)
    }
}
