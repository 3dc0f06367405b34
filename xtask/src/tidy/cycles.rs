//! No top modules of a crate import each other in a cycle: there is an order in which the crate can be read.

use std::collections::BTreeSet;

use super::imports::Graph;
use crate::source::File;

/// Problems: the cycles, by the names of their modules.
pub(super) fn none(files: &[File]) -> Vec<String> {
    let root_of = |file: &File| file.path.strip_suffix("src/lib.rs").map(|folder| format!("{folder}src/"));
    let crates: BTreeSet<String> = files.iter().filter_map(root_of).collect();
    let cycles = |folder: &String| -> Vec<String> {
        let graph = Graph::of(files, folder);
        let told = |cycle: Vec<&str>| {
            format!(
                "{folder}: {}: modules that import each other in a cycle: move what both need into a module of its own",
                cycle.join(" → ")
            )
        };
        graph.cycles().into_iter().map(told).collect()
    };
    crates.iter().flat_map(cycles).collect()
}
