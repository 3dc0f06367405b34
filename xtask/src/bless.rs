//! `cargo xtask bless`: takes what the program prints today as what the tests expect from now on.
//!
//! In: the tests, run with `PORTWAY_BLESS=1`: those with expected outputs in files then rewrite the files.
//! Out: changed files. Reviewing the diff is the reviewer's work, as with code.

use crate::nextest::{Profile, run_tests};
use crate::summary::Summary;
use std::process::ExitCode;

pub(crate) fn details() -> String {
    "Runs the tests that need no root with PORTWAY_BLESS=1 in their environment.".to_owned()
}

pub(crate) fn run(arguments: &[String]) -> ExitCode {
    if let Some(argument) = arguments.first() {
        return crate::refuse_argument("bless", argument);
    }
    let mut summary = Summary::default();
    run_tests(Profile::WithoutRoot, &[("PORTWAY_BLESS", "1")], &mut summary);
    println!(
        "\nExpected outputs are rewritten. Review `git diff` as code: each change is one that users see."
    );
    summary.print()
}
