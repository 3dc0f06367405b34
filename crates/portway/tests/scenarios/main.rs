//! Runs every file of `scenarios/`, each as a test of its own, and asks all subjects that there are.
//!
//! The registry has the modes: tests that are about all files at once are made of each mode and each way to try it at run time.
//! `PORTWAY_BLESS=1` rewrites what is expected.

mod bless;
mod facts;
mod localhost;
mod packets;
mod parse;
mod print;
mod proof;
mod real;
mod reference;
mod run;
mod simulated;
mod step;
mod subject;
mod tally;
mod way;

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use dataplane::registry::MODES;
use libtest_mimic::{Arguments, Trial};
use step::Scenario;
use tally::{Tally, Tried};
use way::Way;

fn main() -> io::Result<ExitCode> {
    let tally = Arc::new(Mutex::new(Tally::default()));
    let of_file = |file: PathBuf| {
        let tally = Arc::clone(&tally);
        test(name(&file), move || run_file(&file, &tally))
    };
    let mut tests: Vec<Trial> = scenario_files()?.into_iter().map(of_file).collect();
    tests.extend(MODES.iter().map(|mode| {
        test(format!("{mode}::every-rule-is-needed"), move || proof::report(*mode, &scenarios()))
    }));
    tests.extend(Way::all().flat_map(on_real_kernel));
    let conclusion = libtest_mimic::run(&Arguments::from_args(), tests);
    tally.lock().unwrap_or_else(PoisonError::into_inner).print();
    Ok(conclusion.exit_code())
}

/// A test that returns what failed.
fn test(name: String, run: impl FnOnce() -> Vec<String> + Send + 'static) -> Trial {
    Trial::test(name, || {
        let failures = run();
        if failures.is_empty() { Ok(()) } else { Err(failures.join("\n").into()) }
    })
}

/// By rules where the mode takes handles, and by packets.
fn on_real_kernel(way: Way) -> impl Iterator<Item = Trial> {
    let rules = way
        .mode
        .on_pairs()
        .map(|on_pairs| real_kernel_test(way, "", move |scenarios| real::compare(way, on_pairs, scenarios)));
    let packets = real_kernel_test(way, " packets", move |scenarios| packets::send(way, scenarios));
    rules.into_iter().chain([packets])
}

fn real_kernel_test(
    way: Way,
    what: &str,
    try_all: impl FnOnce(&[Scenario]) -> Result<Tried, String> + Send + 'static,
) -> Trial {
    let (subject, test_in_words) =
        (format!("{way} on the real kernel"), format!("{way}{what} on the real kernel"));
    let name = format!("needs_root::{}", test_in_words.replace(' ', "-"));
    test(name, move || tally::report(&subject, &test_in_words, try_all(&scenarios())))
}

/// The scenarios, and those in `wrong/` beside this file: each of these must fail, so that we know that one can.
fn scenario_files() -> io::Result<Vec<PathBuf>> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    for folder in ["../../scenarios", "tests/scenarios/wrong"] {
        for entry in std::fs::read_dir(here.join(folder).canonicalize()?)? {
            files.push(entry?.path());
        }
    }
    files.retain(|file| file.extension() == Some(OsStr::new("txt")));
    files.sort();
    Ok(files)
}

fn is_wrong(file: &Path) -> bool {
    file.parent().and_then(Path::file_name) == Some(OsStr::new("wrong"))
}

fn name(file: &Path) -> String {
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    if is_wrong(file) { format!("wrong::{stem}") } else { stem.into_owned() }
}

/// What failed. A file that cannot be read is a scenario that failed.
fn run_file(file: &Path, tally: &Mutex<Tally>) -> Vec<String> {
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(e) => return vec![format!("{}: {e}", file.display())],
    };
    let scenario = match parse::scenario(file, &text) {
        Ok(scenario) => scenario,
        Err(problem) if is_wrong(file) => return must_have_failed(file, &text, &[problem]),
        Err(problem) => return vec![problem],
    };
    let outcomes = run::run(&scenario, &mut reference::Reference::default());
    if is_wrong(file) {
        return must_have_failed(file, &text, &outcomes.failures);
    }
    if std::env::var_os("PORTWAY_BLESS").is_some_and(|value| value == "1")
        && let Err(e) = bless::bless(&scenario, &outcomes)
    {
        return vec![format!("{}: {e}", file.display())];
    }
    let others = tally::ask_others(&scenario);
    tally.lock().unwrap_or_else(PoisonError::into_inner).count(outcomes, others)
}

/// A wrong scenario says in its first line how it fails: `# fails: TEXT.`
fn must_have_failed(file: &Path, text: &str, failures: &[String]) -> Vec<String> {
    let first = text.lines().next().unwrap_or_default();
    let expected = first.strip_prefix("# fails: ").unwrap_or("(its first line must say `# fails: TEXT.`)");
    let expected = expected.trim_end_matches('.');
    if failures.iter().any(|failure| failure.contains(expected)) {
        return Vec::new();
    }
    vec![format!("{}: should fail with `{expected}`, but: {failures:?}", file.display())]
}

/// All that can be read; those that cannot fail as tests of their own.
fn scenarios() -> Vec<Scenario> {
    let files = scenario_files().unwrap_or_default();
    let read = |file: &PathBuf| parse::scenario(file, &std::fs::read_to_string(file).ok()?).ok();
    files.iter().filter(|file| !is_wrong(file)).filter_map(read).collect()
}
