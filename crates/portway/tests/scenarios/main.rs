//! Runs every file of `scenarios/`, each as a test of its own, and asks all subjects that there are.
//!
//! The harness is our own, so that a test is a file: it understands the options that `cargo test` and `cargo nextest` use
//! (`--list`, `--exact`, `--ignored`, `--skip`, names) and forgives the others. `PORTWAY_BLESS=1` rewrites what is expected.

mod bless;
mod facts;
mod parse;
mod print;
mod reference;
mod run;
mod step;
mod subject;

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use run::Outcomes;

fn main() -> io::Result<ExitCode> {
    let wish = Wish::from(std::env::args().skip(1));
    let files: Vec<PathBuf> =
        scenario_files()?.into_iter().filter(|file| wish.includes(&name(file))).collect();
    let mut out = io::stdout().lock();
    if wish.list {
        for file in &files {
            writeln!(out, "{}: test", name(file))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let (mut counts, mut failures) = (Outcomes::default(), String::new());
    for file in &files {
        let outcomes = run_file(file);
        counts.packets += outcomes.packets;
        counts.skipped += outcomes.skipped;
        let word = if outcomes.failures.is_empty() { "ok" } else { "FAILED" };
        writeln!(out, "test {} ... {word}", name(file))?;
        for failure in &outcomes.failures {
            let _ = writeln!(failures, "---- {} ----\n{failure}", name(file));
        }
    }
    write!(out, "\n{failures}")?;
    let Outcomes { packets, skipped, .. } = counts;
    let scenarios = files.iter().filter(|file| !is_wrong(file)).count();
    writeln!(io::stderr(), "counted: {scenarios} scenarios, {packets} packets, {skipped} skipped")?;
    Ok(if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Which scenarios are wanted.
#[derive(Default)]
struct Wish {
    list: bool,
    exact: bool,
    ignored: bool,
    names: Vec<String>,
    skipped: Vec<String>,
}

impl Wish {
    fn from(arguments: impl Iterator<Item = String>) -> Self {
        let mut wish = Self::default();
        let mut arguments = arguments;
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--list" => wish.list = true,
                "--exact" => wish.exact = true,
                "--ignored" => wish.ignored = true,
                "--skip" => wish.skipped.extend(arguments.next()),
                "--format" | "--color" | "--test-threads" | "--logfile" | "-Z" => drop(arguments.next()),
                option if option.starts_with('-') => {}
                name => wish.names.push(name.into()),
            }
        }
        wish
    }

    /// No scenario is ever ignored.
    fn includes(&self, name: &str) -> bool {
        let fits = |wanted: &String| if self.exact { name == wanted } else { name.contains(wanted.as_str()) };
        !self.ignored
            && (self.names.is_empty() || self.names.iter().any(fits))
            && !self.skipped.iter().any(fits)
    }
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

/// A file that cannot be read is a scenario that failed.
fn run_file(file: &Path) -> Outcomes {
    let failed = |problem: String| Outcomes { failures: vec![problem], ..Outcomes::default() };
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(e) => return failed(format!("{}: {e}", file.display())),
    };
    let scenario = match parse::scenario(file, &text) {
        Ok(scenario) => scenario,
        Err(problem) if is_wrong(file) => return must_have_failed(file, &text, failed(problem)),
        Err(problem) => return failed(problem),
    };
    let outcomes = run::run(&scenario, &mut reference::Reference::default());
    if is_wrong(file) {
        return must_have_failed(file, &text, outcomes);
    }
    if std::env::var_os("PORTWAY_BLESS").is_some_and(|value| value == "1")
        && let Err(e) = bless::bless(&scenario, &outcomes)
    {
        return failed(format!("{}: {e}", file.display()));
    }
    outcomes
}

/// A wrong scenario says in its first line how it fails: `# fails: TEXT.`
fn must_have_failed(file: &Path, text: &str, outcomes: Outcomes) -> Outcomes {
    let first = text.lines().next().unwrap_or_default();
    let expected = first.strip_prefix("# fails: ").unwrap_or("(its first line must say `# fails: TEXT.`)");
    let expected = expected.trim_end_matches('.');
    let failures = match outcomes.failures.iter().find(|failure| failure.contains(expected)) {
        Some(_) => Vec::new(),
        None => {
            vec![format!("{}: should fail with `{expected}`, but: {:?}", file.display(), outcomes.failures)]
        }
    };
    Outcomes { failures, packets: 0, ..outcomes }
}
