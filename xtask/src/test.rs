//! `cargo xtask test`: everything that a commit must pass.
//!
//! In: the workspace as it is. Out: a line per step, what went wrong, and the summary.
//!
//! Every step runs, also after one that failed: a person sees all that there is to mend, at once.

use crate::cargo::{cargo, target_dir};
use crate::install::install_missing;
use crate::longest;
use crate::nextest::{Profile, run_tests, take_in_libtest};
use crate::second_nft;
use crate::step::Step;
use crate::summary::Summary;
use crate::vm;
use anyhow::Result;
use std::path::Path;
use std::process::{Command, ExitCode};

/// A step that either goes well or does not.
pub(crate) struct Gate {
    name: &'static str,
    arguments: &'static [&'static str],
    environment: &'static [(&'static str, &'static str)],
    /// What to do when it failed.
    way_out: &'static str,
}

pub(crate) const FORMAT: Gate = Gate {
    name: "format",
    arguments: &["fmt", "--all", "--check"],
    environment: &[],
    way_out: "run `cargo fmt --all`",
};

pub(crate) const CLIPPY: Gate = Gate {
    name: "clippy",
    arguments: &["clippy", "--quiet", "--workspace", "--all-targets", "--", "-D", "warnings"],
    environment: &[],
    way_out: "see its messages above",
};

const DOCS: Gate = Gate {
    name: "docs",
    arguments: &["doc", "--quiet", "--workspace", "--no-deps"],
    environment: &[("RUSTDOCFLAGS", "-D warnings")],
    way_out: "see its messages above",
};

const STEPS: usize = 7;

pub(crate) fn details() -> String {
    "\
Steps: set-up (as root on Debian, installs the packages and cargo tools that are missing, and says so),
format, clippy (warnings are errors), docs (likewise), doc tests, tests, another kernel (some packet tests in a VM).
The last line is `N passed, N failed, N skipped`; what was skipped is listed with its reason."
        .to_owned()
}

pub(crate) fn run(arguments: &[String]) -> Result<ExitCode> {
    if let Some(argument) = arguments.first() {
        return Ok(crate::refuse_argument("test", argument));
    }
    let logs = target_dir()?.join("xtask");
    let mut summary = Summary::default();
    set_up(1, &target_dir()?, &mut summary);
    run_gate(&FORMAT, 2, STEPS, &logs, &mut summary);
    run_gate(&CLIPPY, 3, STEPS, &logs, &mut summary);
    run_gate(&DOCS, 4, STEPS, &logs, &mut summary);
    run_doc_tests(5, &logs, &mut summary);
    run_all_tests(6, STEPS, Profile::Everything, &mut summary);
    vm::smoke::run(7, STEPS, vm::smoke::List::Short, &mut summary);
    println!("\n{}", longest::report(&crate::cargo::root()));
    Ok(summary.print())
}

/// Runs one gate; a gate that cannot even start has failed, and the next ones still run.
pub(crate) fn run_gate(gate: &Gate, number: usize, total: usize, logs: &Path, summary: &mut Summary) {
    let mut command = cargo(gate.arguments);
    command.envs(gate.environment.iter().copied());
    match Step::start(number, total, gate.name).run_quietly(&mut command, logs) {
        Ok(ended) => summary.step(gate.name, ended.succeeded, gate.way_out),
        Err(error) => summary.failed(gate.name, format!("{error:#}")),
    }
}

/// Runs the tests, which print lines of their own.
pub(crate) fn run_all_tests(number: usize, total: usize, profile: Profile, summary: &mut Summary) {
    let step = Step::start(number, total, "tests");
    step.announce();
    run_tests(profile, &[], summary);
    step.finish();
}

fn set_up(number: usize, target: &Path, summary: &mut Summary) {
    let step = Step::start(number, STEPS, "set-up");
    for missing in install_missing() {
        summary.skipped(format!("set-up of {}", missing.name), missing.reason);
    }
    if let Err(why) = second_nft::get(target) {
        summary.skipped("set-up of a second nft".to_owned(), why);
    }
    step.finish();
}

fn run_doc_tests(number: usize, logs: &Path, summary: &mut Summary) {
    let step = Step::start(number, STEPS, "doc tests");
    match step.run_quietly(&mut doc_tests(), logs) {
        Ok(ended) => take_in_libtest(&ended.output, ended.succeeded, summary),
        Err(error) => summary.failed("doc tests", format!("{error:#}")),
    }
}

fn doc_tests() -> Command {
    cargo(&["test", "--workspace", "--doc", "--no-fail-fast", "--", "--show-output"])
}
