//! What the nftables mode costs, in a real kernel. `cargo xtask bench nftables` runs it, as root.
//!
//! In: nothing, or `--quick` for the smallest size alone. Out: progress on standard error, tables (Markdown) on standard
//! output, everything as JSON (`--json FILE`) and as a plot (`--svg FILE`). `--again FILE` draws an earlier run's JSON
//! anew, without measuring.
//!
//! | file | what it measures |
//! |---|---|
//! | `cold` | facts in memory → the kernel has all |
//! | `changes` | one event → the kernel's acknowledgement; memory |
//! | `traffic` | connects through a service and straight |
//! | `established` | exchanges and throughput of an open connection, with and without the rule for stray replies |
//! | `yardstick` | the usual layout, loaded by `nft -f` |
//!
//! Everything happens in network namespaces that the benchmark makes and that vanish with it.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a benchmark prints its table and its progress"
)]

mod changes;
mod cold;
mod command;
mod established;
mod facts;
mod goals;
mod machine;
mod page;
mod plot;
mod process;
mod proxy;
mod results;
mod samples;
mod table;
mod traffic;
mod upstream;
mod yardstick;

use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use command::{argument, end, has, write, write_json};
use machine::Machine;
use process::{fresh, line};
use results::{Results, Size};
use yardstick::Yardstick;

/// What is measured.
struct Scope {
    sizes: &'static [u32],
    cold_runs: usize,
    traffic: &'static [u32],
    yardstick: &'static [u32],
}

const WHOLE: Scope = Scope {
    sizes: &[1_000, 10_000, 45_000],
    cold_runs: 9,
    traffic: &[10, 45_000],
    yardstick: &[1_000, 10_000],
};
const QUICK: Scope = Scope { sizes: &[1_000], cold_runs: 3, traffic: &[10, 1_000], yardstick: &[1_000] };

/// Cold syncs right before the yardstick.
const BESIDE: usize = 5;

fn main() -> ExitCode {
    end(run())
}

fn run() -> Result<()> {
    if let Some(part) = argument("--part") {
        let services = argument("--services").context("--part needs --services")?.parse()?;
        println!("{}", measure_part(&part, services)?);
        return Ok(());
    }
    let results = match argument("--again") {
        Some(file) => {
            serde_json::from_slice(&std::fs::read(&file).with_context(|| format!("cannot read {file}"))?)?
        }
        None => measure(if has("--quick") { &QUICK } else { &WHOLE })?,
    };
    println!("{}", page::render(&results).trim_end());
    write_json(&results)?;
    write("--svg", || Ok(plot::render(&results)))
}

/// What the fresh processes do.
fn measure_part(part: &str, services: u32) -> Result<String> {
    match part {
        "cold" => line(&cold::measure(services)?),
        "changes" => line(&changes::measure(services)?),
        "established" => line(&established::measure()?),
        "traffic" => line(&traffic::measure(services)?),
        "yardstick" => line(&yardstick::measure(services)?),
        other => bail!("no part `{other}`: there are cold, changes, established, traffic and yardstick"),
    }
}

fn measure(scope: &Scope) -> Result<Results> {
    if let Err(error) = playground::namespace::Namespace::create() {
        bail!("this benchmark makes network namespaces and needs root for it: {error}");
    }
    let mut progress = Progress::new(scope);
    let machine = Machine::look();
    let sizes = measure_sizes(scope, &mut progress)?;
    let mut traffic = Vec::new();
    for services in scope.traffic {
        traffic.push(progress.step("connections", *services, || fresh("traffic", *services))?);
    }
    let established = progress.step("an open connection", 10, || fresh("established", 10))?;
    // Last, because the kernel is busy for a while with taking the yardstick's rules away.
    let mut yardstick = Vec::new();
    for services in scope.yardstick.iter().filter(|_| yardstick::is_available()) {
        yardstick.push(progress.step("yardstick", *services, || measure_yardstick(*services))?);
    }
    Ok(Results { machine, sizes, traffic, established, yardstick })
}

/// The yardstick, and right before it some cold syncs of ours: a machine's mood changes within a minute.
fn measure_yardstick(services: u32) -> Result<Yardstick> {
    let beside = (0..BESIDE).map(|_| fresh("cold", services)).collect::<Result<_>>()?;
    Ok(Yardstick { beside, ..fresh("yardstick", services)? })
}

/// Cold syncs of all sizes in turn, then the changes.
fn measure_sizes(scope: &Scope, progress: &mut Progress) -> Result<Vec<Size>> {
    let mut cold = vec![Vec::new(); scope.sizes.len()];
    for _ in 0..scope.cold_runs {
        for (runs, services) in cold.iter_mut().zip(scope.sizes) {
            runs.push(progress.step("cold sync", *services, || fresh("cold", *services))?);
        }
    }
    let mut sizes = Vec::new();
    for (cold, services) in cold.into_iter().zip(scope.sizes) {
        let loaded = progress.step("changes", *services, || fresh("changes", *services))?;
        sizes.push(Size { services: *services, cold, loaded });
    }
    Ok(sizes)
}

/// One line for each step.
struct Progress {
    done: usize,
    total: usize,
}

impl Progress {
    fn new(scope: &Scope) -> Self {
        let total =
            scope.sizes.len() * (scope.cold_runs + 1) + scope.traffic.len() + 1 + scope.yardstick.len();
        Self { done: 0, total }
    }

    fn step<T>(&mut self, what: &str, services: u32, work: impl FnOnce() -> Result<T>) -> Result<T> {
        self.done += 1;
        let start = Instant::now();
        eprint!("[{:>2}/{}] {what} at {} services …", self.done, self.total, page::number(services));
        let result = work();
        eprintln!(" {:.1} s", start.elapsed().as_secs_f64());
        result
    }
}
