//! `cargo xtask check`: the quick part of `cargo xtask test`, for while one works.
//!
//! Absent on purpose: anything that needs root or changes the machine, and the documentation, which takes long.

use crate::cargo::target_dir;
use crate::nextest::Profile;
use crate::summary::Summary;
use crate::test::{CLIPPY, FORMAT, run_all_tests, run_gate};
use anyhow::Result;
use std::process::ExitCode;

const STEPS: usize = 3;

pub(crate) fn details() -> String {
    "\
Steps: format, clippy, and the tests that need no root.
The last line is `N passed, N failed, N skipped`."
        .to_owned()
}

pub(crate) fn run(arguments: &[String]) -> Result<ExitCode> {
    if let Some(argument) = arguments.first() {
        return Ok(crate::refuse_argument("check", argument));
    }
    let logs = target_dir()?.join("xtask");
    let mut summary = Summary::default();
    run_gate(&FORMAT, 1, STEPS, &logs, &mut summary);
    run_gate(&CLIPPY, 2, STEPS, &logs, &mut summary);
    run_all_tests(3, STEPS, Profile::WithoutRoot, &mut summary);
    Ok(summary.print())
}
