//! Runs all tests of the workspace, each in a process of its own, and brings home what each one said.
//!
//! In: which profile of `nextest.toml`, and environment variables. Out: the tests, into the summary.
//!
//! Without cargo-nextest the same tests run with `cargo test`, more slowly.

use crate::cargo::{cargo, has_subcommand, root, target_dir};
use crate::summary::{Summary, TestRun};
use crate::{again, junit, libtest};
use anyhow::{Context, Result};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

/// Which tests to run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Profile {
    /// All of them.
    Everything,
    /// Those that need no root.
    WithoutRoot,
}

/// Runs the tests and adds each to the summary.
pub(crate) fn run_tests(profile: Profile, environment: &[(&str, &str)], summary: &mut Summary) {
    let ran = if has_subcommand("nextest") {
        run_with_nextest(profile, environment, summary)
    } else {
        run_with_cargo_test(profile, environment, summary)
    };
    if let Err(error) = ran {
        summary.failed("tests", format!("{error:#}"));
    }
}

impl Profile {
    /// The name in `nextest.toml`.
    fn name(self) -> &'static str {
        match self {
            Self::Everything => "default",
            Self::WithoutRoot => "check",
        }
    }
}

fn run_with_nextest(profile: Profile, environment: &[(&str, &str)], summary: &mut Summary) -> Result<()> {
    let target = target_dir()?;
    let config = write_config(&target)?;
    let report = target.join("nextest").join(profile.name()).join("junit.xml");
    // A report of an earlier run must not be taken for this one's.
    if report.exists() {
        std::fs::remove_file(&report).with_context(|| format!("cannot remove {}", report.display()))?;
    }
    let status = nextest(profile, &config)
        .envs(environment.iter().copied())
        .status()
        .context("cannot start nextest")?;
    let xml =
        std::fs::read_to_string(&report).ok().context("the tests did not build: see the messages above")?;
    let runs = junit::read(&xml);
    let again = || {
        let mut command = nextest(profile, &config);
        command.envs(environment.iter().copied());
        command
    };
    let shaky = again::stand_alone(&runs, again);
    take_in_report(&runs, &shaky, status, summary);
    Ok(())
}

/// Nextest keeps its reports in the workspace, wherever cargo builds to, unless its config says otherwise.
fn write_config(target: &Path) -> Result<PathBuf> {
    let common = root().join("xtask/nextest.toml");
    let text =
        std::fs::read_to_string(&common).with_context(|| format!("cannot read {}", common.display()))?;
    let folder = target.join("xtask");
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let config = folder.join("nextest.toml");
    let store = format!("[store]\ndir = '{}'\n\n", target.join("nextest").display());
    std::fs::write(&config, store + &text).with_context(|| format!("cannot write {}", config.display()))?;
    Ok(config)
}

fn nextest(profile: Profile, config: &Path) -> Command {
    let mut command = cargo(&["nextest", "run", "--workspace", "--no-fail-fast"]);
    // A person who waits sees cargo's progress; a log stays short.
    if !std::io::stdout().is_terminal() {
        command.arg("--cargo-quiet");
    }
    command.arg("--config-file").arg(config).args(["--profile", profile.name()]).stdin(Stdio::null());
    command
}

fn take_in_report(runs: &[TestRun], shaky: &[&str], status: ExitStatus, summary: &mut Summary) {
    let failed_before = summary.failures();
    for run in runs {
        if shaky.contains(&run.name.as_str()) { summary.shaky(&run.name) } else { summary.test(run) }
    }
    if !status.success() && summary.failures() == failed_before && shaky.is_empty() {
        summary.failed("tests", format!("nextest ended with {status}, though no test failed"));
    }
}

fn run_with_cargo_test(profile: Profile, environment: &[(&str, &str)], summary: &mut Summary) -> Result<()> {
    println!("  without cargo-nextest: `cargo test` runs the tests");
    let mut command = cargo(&["test", "--workspace", "--lib", "--bins", "--tests", "--no-fail-fast"]);
    command.args([
        "--",
        "--show-output",
        "--format",
        "pretty",
        "--skip",
        "needs_vm::",
        "--skip",
        "needs_time::",
    ]);
    if profile == Profile::WithoutRoot {
        command.args(["--skip", "needs_root::"]);
    }
    let output = command
        .envs(environment.iter().copied())
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start `cargo test`")?;
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        println!("{}", text.trim_end());
    }
    take_in_libtest(&text, output.status.success(), summary);
    Ok(())
}

/// Adds the tests in the output of `cargo test`.
pub(crate) fn take_in_libtest(output: &str, succeeded: bool, summary: &mut Summary) {
    let failed_before = summary.failures();
    for run in libtest::read(output) {
        summary.test(&run);
    }
    if !succeeded && summary.failures() == failed_before {
        summary.failed("cargo test", "it ended with an error, though no test failed: see above");
    }
}
