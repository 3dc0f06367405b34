//! Runs every file of `scenarios/`, each as a test of its own, and asks all subjects that there are.
//!
//! The harness is our own, so that a test is a file: it understands the options that `cargo test` and `cargo nextest` use
//! (`--list`, `--exact`, `--ignored`, `--skip`, names) and forgives the others. `PORTWAY_BLESS=1` rewrites what is expected.

mod bless;
mod facts;
mod iptables;
mod localhost;
mod nftables;
mod parse;
mod print;
mod proof;
mod reference;
mod run;
mod simulated;
mod step;
mod subject;
mod tally;
mod userspace;

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use dataplane::Mode;
use dataplane::registry::MODES;
use kernel::xtables::Variant;
use step::Scenario;
use tally::Tally;

/// The tests that are no file, but are about all of them: see `kernel.rs` and `packets.rs` of each mode. Beside these, each mode has a
/// proof.
const REAL: &str = "needs_root::nftables-on-the-real-kernel";
const PACKETS: &str = "needs_root::nftables-packets-on-the-real-kernel";
const PROGRAMS: [(Variant, &str, &str); 2] = [
    (
        Variant::Nft,
        "needs_root::iptables-nft-on-the-real-kernel",
        "needs_root::iptables-nft-packets-on-the-real-kernel",
    ),
    (
        Variant::Legacy,
        "needs_root::iptables-legacy-on-the-real-kernel",
        "needs_root::iptables-legacy-packets-on-the-real-kernel",
    ),
];
/// The same of userspace.
const USERSPACE_PROGRAMS: [(Variant, &str, &str); 2] = [
    (
        Variant::Nft,
        "needs_root::userspace-by-iptables-nft-on-the-real-kernel",
        "needs_root::userspace-by-iptables-nft-packets-on-the-real-kernel",
    ),
    (
        Variant::Legacy,
        "needs_root::userspace-by-iptables-legacy-on-the-real-kernel",
        "needs_root::userspace-by-iptables-legacy-packets-on-the-real-kernel",
    ),
];

fn main() -> io::Result<ExitCode> {
    let wish = Wish::from(std::env::args().skip(1));
    let files: Vec<PathBuf> =
        scenario_files()?.into_iter().filter(|file| wish.includes(&name(file))).collect();
    let mut out = io::stdout().lock();
    if wish.list {
        let programs = PROGRAMS.into_iter().chain(USERSPACE_PROGRAMS);
        let others =
            [REAL, PACKETS].into_iter().chain(programs.flat_map(|(_, rules, packets)| [rules, packets]));
        let others = MODES.iter().map(|mode| proof_of(*mode)).chain(others.map(str::to_owned));
        let others = others.filter(|test| wish.includes(test));
        for test in files.iter().map(|file| name(file)).chain(others) {
            writeln!(out, "{test}: test")?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let (mut tally, mut failures) = (Tally::default(), String::new());
    let mut tell = |test: &str, found: &[String]| {
        for failure in found {
            let _ = writeln!(failures, "---- {test} ----\n{failure}");
        }
        writeln!(out, "test {test} ... {}", if found.is_empty() { "ok" } else { "FAILED" })
    };
    for file in &files {
        tell(&name(file), &run_file(file, &mut tally))?;
    }
    for mode in MODES {
        if wish.includes(&proof_of(*mode)) {
            tell(&proof_of(*mode), &tally.prove(*mode, &scenarios()))?;
        }
    }
    if wish.includes(REAL) {
        tell(REAL, &tally.ask_real(&scenarios()))?;
    }
    if wish.includes(PACKETS) {
        tell(PACKETS, &tally.send_packets(&scenarios()))?;
    }
    for (variant, rules, packets) in PROGRAMS {
        if wish.includes(rules) {
            tell(rules, &tally.ask_program(variant, &scenarios()))?;
        }
        if wish.includes(packets) {
            tell(packets, &tally.send_packets_by(variant, &scenarios()))?;
        }
    }
    for (variant, rules, packets) in USERSPACE_PROGRAMS {
        if wish.includes(rules) {
            tell(rules, &tally.ask_userspace(variant, &scenarios()))?;
        }
        if wish.includes(packets) {
            tell(packets, &tally.send_userspace(variant, &scenarios()))?;
        }
    }
    write!(out, "\n{failures}")?;
    tally.print(&mut io::stderr())?;
    Ok(if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn proof_of(mode: Mode) -> String {
    format!("{mode}::every-rule-is-needed")
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

/// What failed. A file that cannot be read is a scenario that failed.
fn run_file(file: &Path, tally: &mut Tally) -> Vec<String> {
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
    tally.ask_others(&scenario, outcomes)
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
