//! `cargo xtask demo`: portway at work on `examples/`, on real packets.
//!
//! In: `--once`, or nothing. Out: what the stage prints, and its exit code.
//!
//! The stage is a program of its own, `crates/playground/examples/demo`, so that this one stays quick to build.
//! Where namespaces cannot be made, the commands that need no root are shown instead.

mod commands;

use crate::cargo::{build_demo, root};
use crate::install::{install_program, is_root};
use anyhow::{Context, Result, bail};
use std::convert::Infallible;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

pub(crate) fn details() -> String {
    "\
Builds portway, runs it on two nodes made of network namespaces, and sends traffic through the Services in examples/:
who answers how often, beside what `portway explain` says. Nothing of the machine's own network is touched, and nothing
stays. It goes on until Ctrl-C, with hints what to try; with --once it ends by itself, with exit code 1 if anything was
not as explained. Without root it shows get, describe, explain and check on the same files."
        .to_owned()
}

pub(crate) fn run(arguments: &[String]) -> Result<ExitCode> {
    if let Some(argument) = arguments.iter().find(|argument| *argument != "--once") {
        return Ok(crate::refuse_argument("demo", argument));
    }
    println!("Building portway …");
    let (portway, stage) = build_demo()?;
    if !is_root() {
        println!(
            "Only root can make network namespaces, so the live part is left out: `sudo cargo xtask demo` has it."
        );
        return commands::play(portway).map(|()| ExitCode::SUCCESS);
    }
    if let Some(missing) = install_program("ip") {
        bail!("the demo needs {}: {}", missing.name, missing.reason);
    }
    become_stage(&stage, &portway, arguments).map(|never| match never {})
}

/// Turns this process into the stage, so that Ctrl-C and the exit code are its own.
fn become_stage(stage: &Path, portway: &Path, arguments: &[String]) -> Result<Infallible> {
    let error = Command::new(stage).arg(portway).arg(root().join("examples")).args(arguments).exec();
    Err(error).with_context(|| format!("cannot start {}", stage.display()))
}
