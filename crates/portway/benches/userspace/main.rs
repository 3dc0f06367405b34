//! What it costs to carry connections in user space, beside HAProxy and nginx. `cargo xtask bench userspace` runs it.
//!
//! In: nothing, or `--quick` for short measurements, or `--only WORD` for the loads whose name has the word. Out: progress on standard error, tables (Markdown) on standard output,
//! everything as JSON (`--json FILE`).
//!
//! All proxies run at the same time, two threads each, and are measured in turn, round by round: whatever else happens on
//! the machine happens to all of them. Clients and endpoints are threads of this process, all on loopback. Each proxy is a
//! process of its own, so that its processor time and memory can be read; portway's relay is this program once more.
//!
//! HAProxy and nginx are Debian's. Where they are missing their packages are unpacked aside: nothing is installed.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a benchmark prints its table and its progress"
)]

#[path = "../shared/command.rs"]
mod command;
mod datagrams;
mod endpoints;
mod goals;
mod load;
#[path = "../shared/machine.rs"]
mod machine;
mod page;
mod peers;
mod proxy;
mod relay;
mod results;
#[path = "../shared/samples.rs"]
mod samples;
#[path = "../shared/table.rs"]
mod table;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use command::{argument, end, has, write_json};
use endpoints::Endpoints;
use load::Load;
use machine::Machine;
use proxy::Proxy;
use results::{Idle, Measured, Results};

/// How much is measured.
#[derive(Clone, Copy, Debug)]
struct Effort {
    rounds: usize,
    each: Duration,
    idle: usize,
}

const WHOLE: Effort = Effort { rounds: 7, each: Duration::from_secs(2), idle: 10_000 };
const QUICK: Effort = Effort { rounds: 3, each: Duration::from_millis(700), idle: 1_000 };

fn main() -> ExitCode {
    let result = match relay::role() {
        Some(ports) => relay::run(ports),
        None => run(),
    };
    end(result)
}

fn run() -> Result<()> {
    let effort = if has("--quick") { QUICK } else { WHOLE };
    let only = argument("--only").unwrap_or_default();
    let is_wanted = |load: &Load| load.name().contains(&only);
    let machine = Machine::look();
    let files = kernel::limit::raise_files().context("cannot raise the limit of open files")?;
    let endpoints = Endpoints::start()?;
    // Two files for each in the proxy, and two in this process, which is both ends.
    let idle_count = effort.idle.min(usize::try_from(files.saturating_sub(1000) / 2)?);
    let proxies = proxy::start_all(&endpoints, idle_count)?;
    let mut measured = Vec::new();
    for round in 1..=effort.rounds {
        for load in Load::ALL.into_iter().filter(is_wanted) {
            eprintln!("round {round} of {}: {}", effort.rounds, load.name());
            for proxy in proxies.iter().filter(|proxy| proxy.can(load)) {
                measured.push(measure(round, load, proxy, effort)?);
            }
        }
    }
    let idle = idle(&proxies, &endpoints, idle_count)?;
    let peers = proxies.iter().map(|proxy| (proxy.name.clone(), proxy.version.clone())).collect();
    let results = Results { machine, peers, files, seconds: effort.each.as_secs_f64(), measured, idle };
    println!("{}", page::render(&results).trim_end());
    write_json(&results)
}

fn measure(round: usize, load: Load, proxy: &Proxy, effort: Effort) -> Result<Measured> {
    let own = || proxy::cpu_seconds(std::process::id()).unwrap_or_default();
    let (before, own_before) = (proxy.cpu_seconds(), own());
    let figures =
        load.run(proxy, effort.each).with_context(|| format!("{} of {}", load.name(), proxy.name))?;
    Ok(Measured {
        round,
        load: load.name().into(),
        proxy: proxy.name.clone(),
        cpu_seconds: proxy.cpu_seconds() - before,
        ends_cpu_seconds: own() - own_before,
        figures,
    })
}

/// Memory with very many connections that do nothing.
fn idle(proxies: &[Proxy], endpoints: &Endpoints, count: usize) -> Result<Vec<Idle>> {
    let mut all = Vec::new();
    for proxy in proxies {
        eprintln!("{count} idle connections through {}", proxy.name);
        let before_kib = proxy.resident_kib();
        let connections = endpoints.hold_idle(proxy.ports.idle, count)?;
        let after_kib = proxy.resident_kib();
        all.push(Idle { proxy: proxy.name.clone(), connections: connections.len(), before_kib, after_kib });
    }
    Ok(all)
}
