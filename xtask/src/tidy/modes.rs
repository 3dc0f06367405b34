//! The modes of the registry, and that none of them depends on another.
//!
//! In: the files of the repository; `registry.rs` of dataplane lists the modes. Out: problems.
//!
//! Dependencies are followed from module to module of dataplane, so that a mode does not reach another through what they share. What
//! `#[cfg(test)]` leaves out of programs is not looked at. `names.rs` sees to it that nothing outside a mode's folder names it.

use super::find;
use super::imports::Graph;
use crate::source::File;

pub(super) const REGISTRY: &str = "crates/dataplane/src/registry.rs";
pub(super) const DATAPLANE: &str = "crates/dataplane/src/";

/// The names of the modes, as the registry lists them.
fn modes(files: &[File]) -> Vec<String> {
    listed(files).into_iter().map(|(name, _)| name).collect()
}

/// Those that programs have. The name of another may be any word: code that names a mode for tests does not compile in a program.
pub(super) fn product_modes(files: &[File]) -> Vec<String> {
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
