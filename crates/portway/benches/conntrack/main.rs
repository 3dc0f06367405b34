//! What it costs to forget stale flows in a real kernel. `cargo xtask bench conntrack` runs it, as root.
//!
//! In: nothing, or `--quick` for a tenth of the flows. Out: progress on standard error, a table (Markdown) on standard
//! output, everything as JSON (`--json FILE`).
//!
//! The connection tracker is that of a network namespace that the benchmark makes and that vanishes with it. The hash table
//! is shared by all namespaces of the machine, and each listing walks through all of it.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a benchmark prints its table and its progress"
)]

#[path = "../shared/command.rs"]
mod command;
#[path = "../shared/machine.rs"]
mod machine;
mod page;
mod pass;
#[path = "../shared/samples.rs"]
#[allow(dead_code, reason = "shared with another benchmark, which uses all of it")]
mod samples;
#[path = "../shared/table.rs"]
mod table;
mod tracker;

use std::process::ExitCode;

use anyhow::{Context, Result};
use command::{end, has, write_json};
use machine::Machine;
use pass::Row;
use playground::namespace::Namespace;
use serde::Serialize;
use tracker::Tracker;

/// One run of the benchmark.
#[derive(Debug, Serialize)]
struct Results {
    machine: Machine,
    tracker: Tracker,
    rows: Vec<Row>,
}

fn main() -> ExitCode {
    end(run())
}

fn run() -> Result<()> {
    let machine = Machine::look();
    let foreign = if has("--quick") { 10_000 } else { 100_000 };
    let namespace = Namespace::create().context("a network namespace of its own needs root")?;
    let (tracker, rows) = namespace.run(|| measure(foreign)).context("cannot enter the namespace")??;
    let results = Results { machine, tracker, rows };
    println!("{}", page::render(&results).trim_end());
    write_json(&results)
}

fn measure(foreign: u32) -> Result<(Tracker, Vec<Row>)> {
    eprint!("filling the table …");
    let tracker = tracker::fill(foreign)?;
    eprintln!(" {} flows of others", tracker.foreign);
    Ok((tracker, pass::all(tracker)?))
}
