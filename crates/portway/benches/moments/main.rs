//! How long the moments take that people fear: a start, a restart, a hand-over, and the repair of what others broke.
//! `cargo xtask bench moments` runs it, as root.
//!
//! In: nothing, or `--quick` for the smallest size alone. Out: progress on standard error, a table (Markdown) on standard
//! output, everything as JSON (`--json FILE`).
//!
//! The real program runs in a network namespace that vanishes with the benchmark. A repair is timed from the moment in which
//! the damage is in force until the program's last transaction, of which the kernel tells.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a benchmark prints its table and its progress"
)]

#[path = "../shared/command.rs"]
mod command;
mod damage;
mod node;
mod page;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use command::{end, has, write_json};
use damage::Damage;
use node::Node;
use serde::Serialize;

const SIZES: [u32; 3] = [1_000, 10_000, 45_000];
/// Of starts, restarts and hand-overs.
const ROUNDS: usize = 5;
/// Of each damage at the smallest size; a tenth of it where comparing takes seconds.
const DAMAGES: usize = 100;

/// All figures of one size, in milliseconds.
#[derive(Debug, Serialize)]
struct Size {
    services: u32,
    start: Vec<f64>,
    restart: Vec<f64>,
    hand_over: Vec<f64>,
    repairs: Vec<Repairs>,
}

#[derive(Debug, Serialize)]
struct Repairs {
    damage: &'static str,
    took: Vec<f64>,
}

fn main() -> ExitCode {
    end(run())
}

fn run() -> Result<()> {
    if let Err(error) = playground::namespace::Namespace::create() {
        bail!("this benchmark makes network namespaces and needs root for it: {error}");
    }
    let sizes = if has("--quick") { &SIZES[..1] } else { &SIZES[..] };
    let results = sizes.iter().map(|services| measure(*services)).collect::<Result<Vec<_>>>()?;
    println!("{}", page::render(&results).trim_end());
    write_json(&results)
}

fn measure(services: u32) -> Result<Size> {
    let begun = Instant::now();
    eprint!("{services} services: starts …");
    let mut start = Vec::new();
    for _ in 0..ROUNDS {
        let mut node = Node::new(services)?;
        start.push(milliseconds(node.start(&[])?));
        node.stop()?;
    }
    let mut node = Node::new(services)?;
    node.start(&[])?;
    eprint!(" restarts …");
    let mut restart = Vec::new();
    for _ in 0..ROUNDS {
        node.kill()?;
        restart.push(milliseconds(node.start(&[])?));
    }
    eprint!(" hand-overs …");
    let mut hand_over = Vec::new();
    for _ in 0..ROUNDS {
        hand_over.push(milliseconds(node.start(&["--take-over"])?));
    }
    eprint!(" repairs …");
    let count = if services == SIZES[0] { DAMAGES } else { DAMAGES / 10 };
    let mut repairs = Vec::new();
    for damage in Damage::ALL {
        let took = (0..count).map(|turn| damage.time(&node, turn).map(milliseconds));
        repairs.push(Repairs { damage: damage.name(), took: took.collect::<Result<_>>()? });
    }
    node.stop()?;
    eprintln!(" {:.0} s", begun.elapsed().as_secs_f64());
    Ok(Size { services, start, restart, hand_over, repairs })
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
