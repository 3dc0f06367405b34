//! A mode is one folder and one line: no mode depends on another, and nothing outside a mode's folder names it.
//!
//! In: the files of the repository; `registry.rs` of dataplane lists the modes. Out: problems.
//!
//! Dependencies are followed from module to module of dataplane, so that a mode does not reach another through what they share.
//! Tests may name modes: what `#[cfg(test)]` leaves out of programs is not looked at. Those that walk the registry may not.

use super::find;
use super::imports::{Graph, is_test, product_code};
use crate::source::{File, word_positions};

const REGISTRY: &str = "crates/dataplane/src/registry.rs";
const DATAPLANE: &str = "crates/dataplane/src/";

/// Where modes may be named: files, or folders that end with `/`, and why.
const MAY_NAME_MODES: [(&str, &str); 5] = [
    (REGISTRY, "the list"),
    ("crates/dataplane/src/lib.rs", "`pub mod`"),
    ("crates/dataplane/src/programs.rs", "the iptables programs and their Debian package"),
    ("crates/dataplane/src/upstream/", "upstream's config dialect and its chains"),
    ("crates/config/src/kubeproxy/", "upstream's config dialect"),
];

/// Tests and commands that ask every mode, which they know from the registry or from a manifest: files, or folders that end with `/`.
const ASK_ALL_MODES: [&str; 5] = [
    "crates/portway/tests/packets/main.rs",
    "crates/portway/tests/packets/way.rs",
    "crates/portway/tests/scenarios/",
    "xtask/src/bench.rs",
    "xtask/src/bench/",
];

/// Crates whose words are not those of modes: the kernel has a subsystem `ipvs`.
const OTHER_WORDS: [&str; 2] = ["crates/kernel/", "crates/kernel-sim/"];

/// The names of the modes, as the registry lists them.
fn modes(files: &[File]) -> Vec<String> {
    listed(files).into_iter().map(|(name, _)| name).collect()
}

/// Those that programs have. The name of another may be any word: code that names a mode for tests does not compile in a program.
fn product_modes(files: &[File]) -> Vec<String> {
    listed(files).into_iter().filter(|(_, is_product)| *is_product).map(|(name, _)| name).collect()
}

fn listed(files: &[File]) -> Vec<(String, bool)> {
    let Some(registry) = find(files, REGISTRY) else { return Vec::new() };
    let code = registry.code();
    let mut found = Vec::new();
    for (at, _) in code.match_indices("::MODE").filter(|(at, _)| !code[at + 6..].starts_with(['S', '_'])) {
        let name = code[..at].rsplit("::").next().unwrap_or_default();
        let before = code[..at].strip_suffix(name).and_then(|before| before.strip_suffix("crate::"));
        let is_product = !before.is_some_and(|before| before.trim_end().ends_with(")]"));
        found.push((name.to_owned(), is_product));
    }
    found.retain(|(name, _)| !name.is_empty());
    found
}

/// No mode depends on another, directly or through what they share.
pub(super) fn are_apart(files: &[File]) -> Vec<String> {
    let (modes, graph) = (modes(files), Graph::of(files, DATAPLANE));
    let mut problems = Vec::new();
    for mode in &modes {
        for other in modes.iter().filter(|other| *other != mode) {
            if let Some(path) = graph.path(mode, other) {
                problems.push(format!(
                    "crates/dataplane: {}: a mode that depends on another: give shared code what it needs as a value, as `ChainSet` is given",
                    path.join(" → ")
                ));
            }
        }
    }
    problems
}

/// Nothing outside a mode's folder names it, as an identifier or as a text.
pub(super) fn are_named_at_home(files: &[File]) -> Vec<String> {
    let modes = product_modes(files);
    let mut problems = Vec::new();
    for file in files.iter().filter(|file| knows_no_mode(&file.path)) {
        let home = file.path.strip_prefix(DATAPLANE).and_then(|inside| inside.split(['/', '.']).next());
        let code = product_code(file);
        for mode in modes.iter().filter(|mode| home != Some(mode)) {
            if let Some(line) = first_name(&code, &file.text, mode) {
                problems.push(format!(
                    "{}:{line}: names the mode `{mode}`: ask the mode, which is a value of dataplane::registry, and let its folder answer",
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

/// The line on which code first names a mode: as a word that is not the kernel's, as a type, or as a whole text.
fn first_name(code: &str, text: &str, mode: &str) -> Option<usize> {
    let (first, rest) = mode.split_at(1);
    let type_name = first.to_uppercase() + rest;
    let quoted = format!("\"{mode}\"");
    let lines = code.lines().zip(text.lines());
    let names = |(code, text): (&str, &str)| {
        let is_word = word_positions(code, mode).any(|at| !code[..at].ends_with("kernel::"));
        // A literal is blank in code; a line that is blank as a whole is a comment, or a test's.
        let is_quoted =
            text.split("//").next().is_some_and(|text| text.contains(&quoted)) && !code.trim().is_empty();
        is_word || is_quoted || word_positions(code, &type_name).next().is_some()
    };
    lines.enumerate().find(|(_, line)| names(*line)).map(|(number, _)| number + 1)
}
