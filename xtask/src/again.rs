//! Asks a test that failed again, alone: did its own claim fail, or the machine that it shared with others?
//!
//! In: the tests that failed in a whole run. Out: those that stand when nothing else runs, each as often as below.
//!
//! Some tests send real packets and wait for real kernels; beside a hundred others one of them may lose its time. Once more is
//! no proof, so it must stand every time; and the summary names it, for a test that is shaky is to be mended. Where many fail,
//! the machine is not the reason, and nobody is asked again.

use crate::summary::TestRun;
use anyhow::{Context, Result};
use std::process::{Command, ExitStatus, Stdio};

/// So often it must stand.
pub(crate) const TIMES: usize = 5;
/// More failures than these have another reason.
const MOST: usize = 3;

/// The tests among those that failed which stand when they are alone. `nextest` is the command of the whole run.
pub(crate) fn stand_alone(runs: &[TestRun], nextest: impl Fn() -> Command) -> Vec<&str> {
    let failed: Vec<&str> = runs.iter().filter(|run| !run.passed).map(|run| run.name.as_str()).collect();
    if failed.len() > MOST {
        return Vec::new();
    }
    let stands = |name: &&str| {
        println!("  again, alone, {TIMES} times: {name}");
        stands(name, &nextest).unwrap_or_else(|error| {
            println!("  {error:#}");
            false
        })
    };
    failed.into_iter().filter(stands).collect()
}

fn stands(name: &str, nextest: impl Fn() -> Command) -> Result<bool> {
    let filter = filter(name).with_context(|| format!("`{name}` names no test"))?;
    let run = || -> Result<ExitStatus> {
        let mut command = nextest();
        command.args(["--no-tests", "fail", "--filterset", &filter]);
        command.stdout(Stdio::null()).stderr(Stdio::null()).status().context("cannot start nextest")
    };
    for _ in 0..TIMES {
        if !run()?.success() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// What chooses one test: a run is named by its program and its test.
fn filter(name: &str) -> Option<String> {
    let (program, test) = name.split_once(' ')?;
    Some(format!("binary_id(={program}) & test(={test})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(name: &str) -> TestRun {
        TestRun { name: name.to_owned(), passed: false, output: String::new() }
    }

    /// A command that takes what nextest would be told, and ends well every time but the last.
    fn command(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script, "nextest"]);
        command
    }

    #[test]
    fn a_test_that_stands_every_time_stands() {
        let wanted = r#"test "$*" = "--no-tests fail --filterset binary_id(=p::packets) & test(=m::t)""#;
        assert_eq!(stand_alone(&[failed("p::packets m::t")], || command(wanted)), ["p::packets m::t"]);
    }

    #[test]
    fn a_test_that_fails_once_more_has_failed() {
        let counter = std::cell::Cell::new(0);
        let last_fails = || {
            counter.set(counter.get() + 1);
            command(if counter.get() == TIMES { "false" } else { "true" })
        };
        assert!(stand_alone(&[failed("p m::t")], last_fails).is_empty());
    }

    #[test]
    fn where_many_fail_nobody_is_asked_again() {
        let many: Vec<TestRun> = (0..=MOST).map(|n| failed(&format!("p t{n}"))).collect();
        assert!(stand_alone(&many, || command("true")).is_empty());
    }
}
