//! Reads what `cargo test` prints: the outcome of each test, and the lines that the tests printed.
//!
//! In: the screen output of `cargo test -- --show-output`. Out: one `TestRun` per test.
//!
//! Used for doc tests, which nextest cannot run, and for all tests where nextest is missing.

use crate::summary::TestRun;
use std::collections::BTreeMap;

/// The tests that ran, in order, with their output. Ignored ones come with a `skipped: ` line.
pub(crate) fn read(output: &str) -> Vec<TestRun> {
    // Names repeat from one test program to the next, so each program is read on its own.
    output.split("\ntest result: ").flat_map(read_program).collect()
}

fn read_program(output: &str) -> Vec<TestRun> {
    let printed = sections(output);
    let runs: Vec<TestRun> = output.lines().filter_map(|line| outcome(line.trim())).collect();
    // A harness that does not capture what tests print has no sections; where it ran one test, all is that test's.
    if let ([run], true) = (&runs[..], printed.is_empty()) {
        let TestRun { name, passed, output: own } = run;
        return vec![TestRun { name: name.clone(), passed: *passed, output: format!("{own}{output}") }];
    }
    runs.into_iter()
        .map(|run| match printed.get(run.name.as_str()) {
            Some(text) => TestRun { output: run.output + text, ..run },
            None => run,
        })
        .collect()
}

/// The test behind a line such as `test fate::is_known ... ok`.
fn outcome(line: &str) -> Option<TestRun> {
    // Some harnesses fill names up to the longest.
    let (name, outcome) = line.strip_prefix("test ")?.rsplit_once(" ... ")?;
    let name = name.trim_end();
    let run = |passed, output: &str| {
        // Doc tests say `(line 12) - compile fail` and such; it belongs to the name.
        Some(TestRun { name: name.to_owned(), passed, output: output.to_owned() })
    };
    match outcome.split(',').next()? {
        "ok" => run(true, ""),
        "FAILED" => run(false, ""),
        "ignored" => run(true, "skipped: marked as ignored\n"),
        _ => None,
    }
}

/// What each test printed, from the parts headed `---- NAME stdout ----`.
fn sections(output: &str) -> BTreeMap<&str, String> {
    let mut sections: BTreeMap<&str, String> = BTreeMap::new();
    let mut current = None;
    for line in output.lines() {
        match line.strip_prefix("---- ").and_then(|line| line.strip_suffix(" stdout ----")) {
            Some(name) => current = Some(name),
            None => {
                if let Some(name) = current {
                    let text = sections.entry(name).or_default();
                    text.push_str(line);
                    text.push('\n');
                }
            }
        }
    }
    sections
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "
running 4 tests
test a::passes ... ok
test a::skips    ... ok
test a::breaks ... FAILED
test a::waits ... ignored, slow

successes:

---- a::skips stdout ----
skipped: needs root

failures:

---- a::breaks stdout ----
assertion failed

test result: FAILED. 2 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s

   Doc-tests model

running 1 test
test crates/model/src/lib.rs - fate (line 12) ... ok

test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s
";

    #[test]
    fn each_test_has_its_name_and_outcome() {
        let runs = read(OUTPUT);
        let seen: Vec<(&str, bool)> = runs.iter().map(|run| (run.name.as_str(), run.passed)).collect();
        let expected = [
            ("a::passes", true),
            ("a::skips", true),
            ("a::breaks", false),
            ("a::waits", true),
            ("crates/model/src/lib.rs - fate (line 12)", true),
        ];
        assert_eq!(seen, expected);
    }

    #[test]
    fn what_a_lone_test_prints_is_its_own_without_a_section() {
        let output = "\nrunning 1 test\ncounted: 3 connections\nskipped: no program\ntest m::one ... ok\n\ntest result: ok. 1 passed;";
        let runs = read(output);
        assert_eq!(runs.len(), 1);
        assert!(runs[0].output.contains("\nskipped: no program\n"), "{}", runs[0].output);
    }

    #[test]
    fn skipped_and_ignored_tests_say_so() {
        let runs = read(OUTPUT);
        assert!(runs[1].output.starts_with("skipped: needs root\n"));
        assert_eq!(runs[3].output, "skipped: marked as ignored\n");
        assert_eq!(runs[0].output, "");
    }
}
