//! Nothing outside a mode's folder names it: not as an identifier or a part of one, not in a match arm, not within a text.
//!
//! In: the files of the repository; the registry lists the modes. Out: problems, each with the word that was found.
//!
//! Tests may name modes: what `#[cfg(test)]` leaves out of programs is not looked at. Those that walk the registry may not.
//! Names of programs and of settings of the kernel are no modes, though they hold the same words.

use super::imports::{is_test, product_parts};
use super::modes::{DATAPLANE, REGISTRY, product_modes};
use crate::source::File;

/// Where modes may be named: files, or folders that end with `/`, and why.
const MAY_NAME_MODES: [(&str, &str); 6] = [
    (REGISTRY, "the list"),
    ("crates/dataplane/src/lib.rs", "`pub mod`"),
    ("crates/dataplane/src/programs.rs", "the iptables programs and their Debian package"),
    ("crates/dataplane/src/upstream/", "upstream's config dialect and its chains"),
    ("crates/config/src/kubeproxy/", "upstream's config dialect"),
    (
        "crates/observe/src/metrics/upstream.rs",
        "upstream's metrics, of which each mode says by name which it has",
    ),
];

/// Tests and commands that ask every mode, which they know from the registry or from a manifest: files, or folders that end with `/`.
const ASK_ALL_MODES: [&str; 9] = [
    "crates/portway/tests/packets/case.rs",
    "crates/portway/tests/packets/main.rs",
    "crates/portway/tests/packets/newcomer.rs",
    "crates/portway/tests/packets/way.rs",
    "crates/portway/tests/packets/cases/mod.rs",
    "crates/agent/tests/run_loop/every_mode.rs",
    "crates/portway/tests/scenarios/",
    "xtask/src/bench.rs",
    "xtask/src/bench/",
];

/// Comments of arguments here are what `--help` says.
const COMMAND_LINE: &str = "crates/portway/src/";

/// Crates whose words are not those of modes: the kernel has a subsystem `ipvs`, and the harness counts what goes to it.
const OTHER_WORDS: [&str; 3] = ["crates/harness/", "crates/kernel/", "crates/kernel-sim/"];

/// How words begin that are programs, settings or chains of the system, a flag that is named after such a program, or metrics of upstream
/// that more than one mode has.
const OF_THE_SYSTEM: [&str; 9] = [
    "KUBE-IPTABLES-HINT",
    "calls_iptables",
    "bridge-nf-call-iptables",
    "iptables-legacy",
    "iptables-nft",
    "iptables-program",
    "iptables-restore",
    "iptables-save",
    "sync_proxy_rules_iptables",
];

pub(super) fn are_at_home(files: &[File]) -> Vec<String> {
    let modes = product_modes(files);
    let mut problems = Vec::new();
    for file in files.iter().filter(|file| knows_no_mode(&file.path)) {
        let home = file.path.strip_prefix(DATAPLANE).and_then(|inside| inside.split(['/', '.']).next());
        let (code, texts) = product_parts(file);
        let texts = if file.path.starts_with(COMMAND_LINE) { with_help(&texts, &file.text) } else { texts };
        for mode in modes.iter().filter(|mode| home != Some(mode)) {
            if let Some((line, word)) = first_name(&code, &texts, mode) {
                problems.push(format!(
                    "{}:{line}: `{word}` names the mode `{mode}`: ask the mode, which is a value of dataplane::registry, and let its folder \
                     answer, also with what is to be said of it",
                    file.path
                ));
            }
        }
    }
    problems
}

/// Whether a file must know modes as values alone.
fn knows_no_mode(path: &str) -> bool {
    let is_rust = std::path::Path::new(path).extension() == Some("rs".as_ref());
    is_rust && (is_product(path) || ASK_ALL_MODES.iter().any(|place| is_at(path, place)))
}

fn is_product(path: &str) -> bool {
    path.starts_with("crates/")
        && path.contains("/src/")
        && !is_test(path)
        && !OTHER_WORDS.iter().any(|crates| path.starts_with(crates))
        && !MAY_NAME_MODES.iter().any(|(place, _)| is_at(path, place))
}

fn is_at(path: &str, place: &str) -> bool {
    path == place || place.ends_with('/') && path.starts_with(place)
}

/// The literals, and the comments of arguments, which the operator reads as help.
fn with_help(literals: &str, text: &str) -> String {
    let all: Vec<&str> = text.lines().collect();
    let is_doc = |line: &str| line.trim_start().starts_with("///");
    let is_shown = |number: usize| {
        let behind = all[number..].iter().find(|line| !is_doc(line)).map_or("", |line| line.trim_start());
        is_doc(all[number]) && (behind.starts_with("#[arg") || behind.starts_with("#[command"))
    };
    let line = |(number, literals)| if is_shown(number) { all[number] } else { literals };
    literals.lines().enumerate().map(line).collect::<Vec<_>>().join("\n")
}

/// The line that first names a mode, and by which word.
fn first_name(code: &str, texts: &str, mode: &str) -> Option<(usize, String)> {
    // The kernel has modules of such names; and what is escaped is no part of a word.
    let code = code.replace(&format!("kernel::{mode}"), "kernel::");
    let texts = texts.replace("\\n", "  ");
    let name = |(code, texts)| {
        let mut all = words(code, &['_']).chain(words(texts, &['_', '-']));
        all.find(|word| is_of(word, mode)).map(str::to_owned)
    };
    let mut lines = code.lines().zip(texts.lines()).enumerate();
    lines.find_map(|(number, line)| Some((number + 1, name(line)?)))
}

/// The words of a line. `joins` do not end one.
fn words<'a>(line: &'a str, joins: &'static [char]) -> impl Iterator<Item = &'a str> {
    line.split(|c: char| !c.is_alphanumeric() && !joins.contains(&c))
}

/// Whether a mode's name is a part of a word: `ipvs_scheduler`, `IpvsStatus`, `--nftables-only`.
fn is_of(word: &str, mode: &str) -> bool {
    let word = word.trim_start_matches('-');
    !OF_THE_SYSTEM.iter().any(|other| word.starts_with(other)) && parts(word).any(|part| part == mode)
}

/// The parts of a word, in lower case.
fn parts(word: &str) -> impl Iterator<Item = String> {
    let mut parts = vec![String::new()];
    let mut before = ' ';
    for c in word.chars() {
        let begins = c.is_uppercase() && !before.is_uppercase();
        if begins || matches!(c, '_' | '-') {
            parts.push(String::new());
        }
        if !matches!(c, '_' | '-') {
            parts.last_mut().expect("there is always one").extend(c.to_lowercase());
        }
        before = c;
    }
    parts.into_iter()
}
