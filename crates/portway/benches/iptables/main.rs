//! What the iptables mode costs, in a real kernel, with both iptables programs. `cargo xtask bench iptables` runs it, as root.
//!
//! In: nothing, or `--quick` for the smallest size alone. Out: progress on standard error, tables (Markdown) on standard
//! output, everything as JSON (`--json FILE`). `--again FILE` prints an earlier run's JSON anew, without measuring.
//!
//! | file | what it is for |
//! |---|---|
//! | `proxy`, `door` | the mode that is measured, and how much of its time the programs take |
//! | `cold` | facts in memory → the kernel has all; ours, and all in one restore |
//! | `changes` | one event → in force; in turn with it a bare restore of one rule, and upstream's habit |
//! | `habit` | upstream's habit as text |
//! | `children` | what the programs weigh |
//!
//! Everything happens in network namespaces that the benchmark makes and that vanish with it, and with a lock of its own: the
//! legacy program's is otherwise shared by all namespaces of a machine.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a benchmark prints its table and its progress"
)]

mod changes;
mod children;
mod cold;
#[path = "../shared/command.rs"]
mod command;
mod door;
#[path = "../shared/facts.rs"]
mod facts;
mod goals;
mod habit;
#[path = "../shared/machine.rs"]
mod machine;
mod page;
mod part;
#[path = "../shared/process.rs"]
#[allow(dead_code, reason = "shared with another benchmark, which uses all of it")]
mod process;
mod proxy;
mod results;
#[path = "../shared/samples.rs"]
#[allow(dead_code, reason = "shared with another benchmark, which uses all of it")]
mod samples;
#[path = "../shared/table.rs"]
mod table;

use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use command::{argument, end, has, write_json};
use machine::Machine;
use part::Part;
use results::{Program, Results, Size};

const SIZES: [u32; 2] = [1_000, 10_000];
/// Cold syncs of ours.
const COLD_RUNS: usize = 3;

fn main() -> ExitCode {
    end(run())
}

fn run() -> Result<()> {
    if let Some(part) = Part::of_arguments()? {
        println!("{}", part.measure()?);
        return Ok(());
    }
    let results = match argument("--again") {
        Some(file) => {
            serde_json::from_slice(&std::fs::read(&file).with_context(|| format!("cannot read {file}"))?)?
        }
        None => measure(if has("--quick") { &SIZES[..1] } else { &SIZES })?,
    };
    println!("{}", page::render(&results).trim_end());
    write_json(&results)
}

fn measure(sizes: &[u32]) -> Result<Results> {
    if let Err(error) = playground::namespace::Namespace::create() {
        bail!("this benchmark makes network namespaces and needs root for it: {error}");
    }
    let machine = Machine::look();
    let mut measured = Vec::new();
    for program in Program::ALL {
        let Some(version) = program.version() else {
            eprintln!("skipped: {} is not installed", program.name());
            continue;
        };
        for services in sizes {
            measured.push(measure_size(program, &version, *services)?);
        }
    }
    Ok(Results { machine, sizes: measured })
}

fn measure_size(program: Program, version: &str, services: u32) -> Result<Size> {
    let part = |name: &str| Part { name: name.into(), program, services };
    let begun = Instant::now();
    eprint!("{}, {} services: cold syncs …", program.name(), page::number(services));
    let cold = (0..COLD_RUNS).map(|_| part("cold").fresh()).collect::<Result<_>>()?;
    eprint!(" changes …");
    let loaded = part("changes").fresh()?;
    // Last, because the kernel is busy for a while with taking these rules away.
    eprint!(" all in one restore …");
    let at_once = part("at-once").fresh()?;
    eprintln!(" {:.0} s", begun.elapsed().as_secs_f64());
    Ok(Size { program, version: version.into(), services, cold, at_once, loaded })
}
