//! A bench, and its command line.
//!
//! | option | |
//! |---|---|
//! | `--quick` | measures less |
//! | `--again FILE` | shows an earlier run's JSON, without measuring |
//! | `--json FILE`, `--svg FILE` | writes all figures, and the picture |
//! | `--part NAME --services N` | measures one part in this process and prints it, for [`crate::fresh`] |
//! | `--figures`, `--host JSON`, `--machine` | in a VM: prints the figures as one line; the machine that the VM runs on; prints this machine |

use std::fmt::Display;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use playground::namespace::Namespace;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{Machine, Page};

/// A bench: all figures of a run, how they are measured, and how they are shown.
pub trait Bench: Serialize + DeserializeOwned {
    /// Whether it makes network namespaces, for which it must be root.
    const NEEDS_ROOT: bool = true;

    fn measure(is_quick: bool) -> Result<Self>;

    fn page(&self) -> Page;

    /// An SVG.
    fn picture(&self) -> Option<String> {
        None
    }

    /// Measures one part, in a process of its own.
    fn part(name: &str, _services: u32) -> Result<Value> {
        bail!("no part `{name}`")
    }
}

/// Runs a bench as the command line says.
pub fn run<B: Bench>() -> ExitCode {
    match run_with_options::<B>() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run_with_options<B: Bench>() -> Result<()> {
    if let Some(part) = argument("--part") {
        let services = argument("--services").context("--part needs --services")?.parse()?;
        println!("{}", B::part(&part, services)?);
        return Ok(());
    }
    if has("--machine") {
        println!("{}", serde_json::to_string(&Machine::look())?);
        return Ok(());
    }
    let bench: B = match argument("--again") {
        Some(file) => {
            let json = std::fs::read(&file).with_context(|| format!("cannot read {file}"))?;
            serde_json::from_slice(&json).with_context(|| format!("{file} is no run of this benchmark"))?
        }
        None => measure()?,
    };
    if has("--figures") {
        println!("{}", serde_json::to_string(&bench)?);
        return Ok(());
    }
    println!("{}", bench.page());
    write("--json", || Ok(format!("{}\n", serde_json::to_string_pretty(&bench)?)))?;
    write("--svg", || bench.picture().context("this benchmark has no picture"))
}

fn measure<B: Bench>() -> Result<B> {
    if B::NEEDS_ROOT {
        Namespace::create().context("this benchmark makes network namespaces and needs root for it")?;
    }
    B::measure(has("--quick"))
}

fn has(name: &str) -> bool {
    std::env::args().any(|word| word == name)
}

/// The word behind this one on the command line.
pub fn argument(name: &str) -> Option<String> {
    std::env::args().skip_while(|word| word != name).nth(1)
}

/// The machine that this VM runs on, if it is one; else this machine.
pub fn host() -> Result<Machine> {
    let Some(text) = argument("--host") else { return Ok(Machine::look()) };
    serde_json::from_str(&text).context("`--host` takes what `--machine` prints")
}

/// Writes to the file that an option names, if it is given.
fn write(name: &str, content: impl FnOnce() -> Result<String>) -> Result<()> {
    let Some(file) = argument(name) else { return Ok(()) };
    std::fs::write(&file, content()?).with_context(|| format!("cannot write {file}"))
}

/// Does something that takes a while, and says so on standard error.
pub fn step<T>(what: impl Display, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let start = Instant::now();
    eprint!("{what} …");
    let result = work();
    eprintln!(" {:.1} s", start.elapsed().as_secs_f64());
    result
}

/// Says something on standard error, such as what is skipped.
pub fn say(what: impl Display) {
    eprintln!("{what}");
}
