//! Tests that run on the VM's kernel too: another version, and with sockets and modules that a build machine may lack.
//!
//! In: the test programs of the workspace. Out: each test's outcome, into the summary; where there is no VM, one line that says why.
//!
//! A test is for the VM because it is in a module `needs_vm`. A module in it that has a mode's name holds all packet tests of a mode
//! that runs nowhere else, which take about a quarter of an hour: those run when somebody asks. All others run in `cargo xtask test`;
//! in the packet tests those are the cases that are marked with `smoke`.
//!
//! All run in one boot, one after another, each in a process of its own with a limit of its own. The VM is slow, so the
//! list is short, and the tests get more patience. One that fails is asked again, as on this machine (see `again`).

use super::machine::{self, Ended, Order};
use super::script::quoted;
use super::set_up::{self, Kernel};
use crate::again::TIMES;
use crate::cargo::{TestProgram, build_tests, root, target_dir};
use crate::step::Step;
use crate::summary::{Summary, TestRun};
use crate::{libtest, registry};
use anyhow::{Context, Result, ensure};
use std::cmp::Reverse;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// The module that holds tests for the VM.
const MODULE: &str = "needs_vm";

/// One test of the list.
#[derive(Debug)]
struct Test {
    program: TestProgram,
    name: String,
}

/// Which tests to run there.
#[derive(Clone, Copy, Debug)]
pub(crate) enum List {
    /// Those of `cargo xtask test`.
    Short,
    /// All packet tests of a mode that runs nowhere else.
    Mode(&'static str),
}

/// The VM takes ten times as long as the machine for these; `PORTWAY_PATIENCE` is for when the machine is busy, too.
const VARIABLES: [(&str, &str); 2] = [("PORTWAY_CONNECTIONS", "500"), ("PORTWAY_PATIENCE", "3")];
/// A VM whose kernel broke takes the tests that had no outcome with it into another boot, once.
const BOOTS: usize = 2;
/// One test that hangs does not take the others with it.
const TEST_LIMIT_S: u64 = 240;
const LIMIT: Duration = Duration::from_secs(2400);

/// Runs a list, and adds each test to the summary.
pub(crate) fn run(number: usize, total: usize, list: List, summary: &mut Summary) {
    let step = Step::start(number, total, "another kernel");
    step.announce();
    let ran = target_dir().map_err(|e| format!("{e:#}")).and_then(|target| boot(&target, list, summary));
    if let Err(why) = ran {
        println!("  skipped: {why}");
        summary.skipped("another kernel", why);
    }
    step.finish();
}

/// The error says why there is no VM.
fn boot(target: &Path, list: List, summary: &mut Summary) -> Result<(), String> {
    let kernel = set_up::get(target)?;
    let Some(tests) = tests(list, summary) else { return Ok(()) };
    println!("  {}: {} tests in a VM, in one boot", kernel.release, tests.len());
    let (mut output, mut left) = (String::new(), tests.iter().collect::<Vec<_>>());
    for boot in 1..=BOOTS {
        let (ended, said) = run_there(target, &kernel, &left)?;
        output.push_str(&said);
        let Ended::Broke(console) = ended else { break };
        let first = console.lines().next().unwrap_or_default().trim();
        summary.broke(format!("vm {}: boot {boot}", kernel.version()), format!("it broke: {first}"));
        let runs = libtest::read(&said);
        left.retain(|test| runs.iter().all(|run| run.name != test.name));
    }
    take_in(&output, &tests, &kernel, summary);
    Ok(())
}

/// Runs these tests in one boot: how it ended, and all that they said.
fn run_there(target: &Path, kernel: &Kernel, tests: &[&Test]) -> Result<(Ended, String), String> {
    let path = target.join("xtask/another-kernel.log");
    let log = File::create(&path).map_err(|e| format!("{} cannot be made: {e}", path.display()))?;
    let order = Order {
        folder: root(),
        command: ["sh", "-c", &script(tests)].map(str::to_owned).to_vec(),
        variables: VARIABLES.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
        limit: LIMIT,
    };
    let ended = machine::run(kernel, &order, log.into())?;
    if let Ended::NoVm(why) = ended {
        return Err(why);
    }
    let bytes = fs::read(&path).map_err(|e| format!("{} cannot be read: {e}", path.display()))?;
    let said = String::from_utf8_lossy(&bytes).into_owned();
    if ended != Ended::Code(0) {
        println!("{}", said.trim_end());
        ended.problem(LIMIT).into_iter().for_each(|problem| println!("{problem}"));
    }
    Ok((ended, said))
}

/// Builds the test programs and asks each for its tests.
fn tests(list: List, summary: &mut Summary) -> Option<Vec<Test>> {
    let found = build_tests().and_then(|mut programs| {
        let modes: Vec<&str> = registry::modes().collect();
        // What takes the longest comes first, whatever cargo built first.
        programs.sort_by_key(|program| (Reverse(program.folder.clone()), program.name.clone()));
        let mut tests = Vec::new();
        for program in programs {
            let listed = listed(&program.built)?;
            let test = |name: &str| Test { program: program.clone(), name: name.to_owned() };
            tests.extend(list.chosen(&listed, &modes).map(test));
        }
        ensure!(!tests.is_empty(), "no test is in such a module: {list:?}");
        Ok(tests)
    });
    found.map_err(|error| summary.failed("another kernel", format!("{error:#}"))).ok()
}

/// What a test program says that it holds.
fn listed(built: &Path) -> Result<String> {
    let output = Command::new(built).args(["--list", "--format", "terse"]).output();
    let output = output.with_context(|| format!("{} cannot be started", built.display()))?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

impl List {
    /// The tests of a program that are on the list, by name.
    fn chosen<'a>(self, listed: &'a str, modes: &[&str]) -> impl Iterator<Item = &'a str> {
        let names = listed.lines().filter_map(|line| line.strip_suffix(": test"));
        names.filter(move |name| match (in_module(name), self) {
            (None, _) => false,
            (Some(next), Self::Short) => !modes.contains(&next),
            (Some(next), Self::Mode(mode)) => mode == next,
        })
    }
}

/// What follows the module for the VM in the name of a test, if the test is in it.
fn in_module(name: &str) -> Option<&str> {
    let mut parts = name.split("::").skip_while(|part| *part != MODULE).skip(1);
    parts.next()
}

/// What the VM's shell does: each test in a process of its own.
fn script(tests: &[&Test]) -> String {
    let mut text = format!(
        "code=0\n\
         once() {{ timeout -k 5 {TEST_LIMIT_S} \"$1\" --exact \"$2\" --show-output --format pretty --color never; }}\n\
         again() {{ for turn in $(seq {TIMES}); do once \"$@\" || return 1; done; }}\n\
         try() {{ once \"$@\" || {{ code=1; again \"$@\"; }}; }}\n"
    );
    for Test { program: TestProgram { folder, built, .. }, name } in tests {
        let _ = writeln!(text, "cd {} || exit 125", quoted(&folder.to_string_lossy()));
        let _ = writeln!(text, "try {} {}", quoted(&built.to_string_lossy()), quoted(name));
    }
    text.push_str("exit $code\n");
    text
}

/// Every test of the list has an outcome: one that says nothing has failed.
fn take_in(output: &str, tests: &[Test], kernel: &Kernel, summary: &mut Summary) {
    let runs = libtest::read(output);
    for Test { program, name, .. } in tests {
        let shown = format!("vm {}: {} {name}", kernel.version(), program.name);
        let runs: Vec<&TestRun> = runs.iter().filter(|run| run.name == *name).collect();
        match runs.as_slice() {
            [first, rest @ ..] if is_shaky(first, rest) => summary.shaky(&shown),
            [first, ..] => summary.test(&on(kernel, shown, first)),
            [] => summary.failed(shown, "it has no outcome: it hung; see above"),
        }
    }
}

/// Did it fail, and then stand as often as it must?
fn is_shaky(first: &TestRun, rest: &[&TestRun]) -> bool {
    !first.passed && rest.len() == TIMES && rest.iter().all(|run| run.passed)
}

/// A test under its name here; what it counted is counted apart from the same on this machine's kernel.
fn on(kernel: &Kernel, name: String, run: &TestRun) -> TestRun {
    let counted = format!("counted: {} ", kernel.version());
    TestRun { name, passed: run.passed, output: run.output.replace("counted: ", &counted) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel() -> Kernel {
        Kernel { folder: "/k".into(), image: "/k/i".into(), release: "6.12.9+deb13".to_owned() }
    }

    fn test(name: &str) -> Test {
        let program = TestProgram { name: "packets".to_owned(), folder: "/p".into(), built: "/t".into() };
        Test { program, name: name.to_owned() }
    }

    #[test]
    fn a_test_without_an_outcome_has_failed() {
        let mut summary = Summary::default();
        let tests = [test("m::one"), test("m::two")];
        take_in("\ntest m::one ... ok\n\ntest result: ok.", &tests, &kernel(), &mut summary);
        let text = summary.to_string();
        assert!(text.ends_with("1 passed, 1 failed, 0 skipped"), "{text}");
        assert!(text.contains("vm 6.12: packets m::two: it has no outcome"), "{text}");
    }

    #[test]
    fn a_test_that_failed_and_then_stood_every_time_is_shaky() {
        let outcome = |times: usize| {
            let stood = "\ntest m::one ... ok\n\ntest result: ok.".repeat(times);
            let mut summary = Summary::default();
            let output = format!("\ntest m::one ... FAILED\n\ntest result: FAILED.{stood}");
            take_in(&output, &[test("m::one")], &kernel(), &mut summary);
            summary.to_string()
        };
        assert!(outcome(TIMES).ends_with("1 passed, 0 failed, 0 skipped"), "{}", outcome(TIMES));
        assert!(outcome(TIMES - 1).ends_with("0 passed, 1 failed, 0 skipped"), "{}", outcome(TIMES - 1));
    }

    #[test]
    fn a_test_is_chosen_by_its_modules() {
        let listed = "needs_root::m::a: test\nneeds_vm::m::b: test\nneeds_vm::smoke::m::c: test\nneeds_vm::d: test\nneeds_vm_too::e: test\n";
        let modes = ["m"];
        let chosen = |list: List| list.chosen(listed, &modes).map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(chosen(List::Short), ["needs_vm::smoke::m::c", "needs_vm::d"]);
        assert_eq!(chosen(List::Mode("m")), ["needs_vm::m::b"]);
        assert!(chosen(List::Mode("other")).is_empty());
    }

    #[test]
    fn what_the_vm_counts_is_counted_apart() {
        let run = TestRun {
            name: "t".to_owned(),
            passed: true,
            output: "counted: nftables ipv4 tcp 3 connections\n".to_owned(),
        };
        let mut summary = Summary::default();
        summary.test(&on(&kernel(), "vm".to_owned(), &run));
        assert!(summary.to_string().contains("6.12 nftables ipv4 tcp: 3"), "{summary}");
    }
}
