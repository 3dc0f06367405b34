//! What the IPVS mode costs, in a kernel that has IPVS. `cargo xtask bench ipvs` runs it in the VM.
//!
//! In: nothing, or `--quick` for the smallest size alone. Out: progress on standard error, tables (Markdown) on standard output,
//! everything as JSON (`--json FILE`). `--again FILE` prints an earlier run's JSON anew, without measuring. What the VM writes to files is
//! gone with it, so there `--figures` prints the JSON as one line instead of the tables; `--machine` prints what `--host` takes: the
//! machine that the VM runs on.
//!
//! | file | what it is for |
//! |---|---|
//! | `proxy`, `door` | the mode that is measured, and what goes through each of its doors |
//! | `tap` | the netlink datagrams of a namespace, as the kernel counts them |
//! | `node` | network namespaces to measure in |
//! | `cold` | facts in memory → the kernel has all |
//! | `programs` | the yardstick: the same state loaded by `ipset`, `ipvsadm`, `ip` and iptables |
//! | `changes` | one event → in force; all sizes in turn |
//! | `floor` | one address alone: what the kernel takes for it |
//!
//! Everything happens in network namespaces that the benchmark makes and that vanish with it.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a benchmark prints its table and its progress"
)]

mod changes;
mod cold;
#[path = "../shared/command.rs"]
mod command;
mod door;
#[path = "../shared/facts.rs"]
mod facts;
mod floor;
mod goals;
#[path = "../shared/machine.rs"]
mod machine;
mod node;
mod page;
#[path = "../shared/process.rs"]
#[allow(dead_code, reason = "shared with another benchmark, which uses all of it")]
mod process;
mod programs;
mod proxy;
mod results;
#[path = "../shared/samples.rs"]
#[allow(dead_code, reason = "shared with another benchmark, which uses all of it")]
mod samples;
#[path = "../shared/table.rs"]
mod table;
mod tap;

use std::process::{Command, ExitCode};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use command::{argument, end, has, write_json};
use machine::Machine;
use process::fresh;
use results::{Results, Size};

const SIZES: [u32; 2] = [1_000, 10_000];
/// Cold loads of ours, each followed by one of the programs, for which the larger size takes a minute and more.
const COLD_RUNS: [usize; 2] = [5, 3];
/// Of the kernel, without which there is nothing to measure.
const MODULES: [&str; 3] = ["ip_vs", "dummy", "nlmon"];

fn main() -> ExitCode {
    end(run())
}

fn run() -> Result<()> {
    if let Some(part) = argument("--part") {
        let services = argument("--services").context("--part needs --services")?.parse()?;
        println!("{}", measure_part(&part, services)?);
        return Ok(());
    }
    if has("--machine") {
        println!("{}", process::line(&Machine::look())?);
        return Ok(());
    }
    let results: Results = match argument("--again") {
        Some(file) => {
            serde_json::from_slice(&std::fs::read(&file).with_context(|| format!("cannot read {file}"))?)?
        }
        None => measure(if has("--quick") { &SIZES[..1] } else { &SIZES })?,
    };
    if has("--figures") {
        println!("{}", process::line(&results)?);
        return Ok(());
    }
    println!("{}", page::render(&results).trim_end());
    write_json(&results)
}

/// A part, in this process; the result is one line.
fn measure_part(name: &str, services: u32) -> Result<String> {
    match name {
        "cold" => process::line(&cold::measure(services)?),
        "cold-counted" => process::line(&cold::count(services)?),
        "programs" => process::line(&programs::measure(services, false)?),
        "programs-counted" => process::line(&programs::measure(services, true)?),
        "changes" => process::line(&changes::measure(SIZES.into_iter().filter(|size| *size <= services))?),
        other => bail!("no part `{other}`"),
    }
}

fn measure(sizes: &[u32]) -> Result<Results> {
    // Modules are nobody's to load on a machine that is in use.
    ensure!(
        std::env::var_os("PORTWAY_VM").is_some(),
        "this benchmark runs in the VM: `cargo xtask bench ipvs`"
    );
    for module in MODULES {
        let loaded = Command::new("modprobe").arg(module).status().context("`modprobe` cannot be started")?;
        ensure!(loaded.success(), "the kernel has no module `{module}`");
    }
    let machine = match argument("--host") {
        Some(text) => serde_json::from_str(&text).context("`--host` takes what `--machine` prints")?,
        None => Machine::look(),
    };
    let kernel = Machine::look().kernel;
    let measured = sizes.iter().map(|services| measure_size(*services)).collect::<Result<_>>()?;
    eprint!("single changes …");
    let begun = Instant::now();
    let loaded = fresh("changes", *sizes.last().unwrap_or(&SIZES[0]))?;
    eprintln!(" {:.0} s", begun.elapsed().as_secs_f64());
    Ok(Results { machine, kernel, versions: programs::versions(), sizes: measured, loaded })
}

fn measure_size(services: u32) -> Result<Size> {
    let begun = Instant::now();
    eprint!("{} services: counting …", page::number(services.into()));
    let (counted, programs_counted) =
        (fresh("cold-counted", services)?, fresh("programs-counted", services)?);
    eprint!(" cold loads …");
    let (mut cold, mut programs) = (Vec::new(), Vec::new());
    for _ in 0..COLD_RUNS[usize::from(services > SIZES[0])] {
        cold.push(fresh("cold", services)?);
        programs.push(fresh("programs", services)?);
    }
    eprintln!(" {:.0} s", begun.elapsed().as_secs_f64());
    Ok(Size { services, counted, programs_counted, cold, programs })
}
