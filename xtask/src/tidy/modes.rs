//! The modes of the registry, and that none of them depends on another.
//!
//! In: the files of the repository; `registry.rs` of dataplane lists the modes. Out: problems.
//!
//! Dependencies are followed from module to module of dataplane, so that a mode does not reach another through what they share. What
//! `#[cfg(test)]` leaves out of programs is not looked at. `names.rs` sees to it that nothing outside a mode's folder names it.

use std::collections::{BTreeMap, BTreeSet};

use super::find;
use crate::longest::body_end;
use crate::source::{File, word_positions};

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
    let (modes, graph) = (modes(files), Graph::of(files));
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

/// Which module of dataplane uses which.
struct Graph(BTreeMap<String, BTreeSet<String>>);

/// The root of the crate, as a module.
const ROOT: &str = "lib";

impl Graph {
    fn of(files: &[File]) -> Self {
        let inside =
            |file: &&File| file.is_rust() && file.path.starts_with(DATAPLANE) && !is_test(&file.path);
        let modules: BTreeSet<&str> =
            files.iter().filter(inside).filter_map(|file| module_of(&file.path)).collect();
        let root = find(files, "crates/dataplane/src/lib.rs").map(product_code).unwrap_or_default();
        let exports = exports(&root);
        let mut graph: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for file in files.iter().filter(inside) {
            let Some(module) = module_of(&file.path) else { continue };
            let uses = graph.entry(module.to_owned()).or_default();
            if module == ROOT {
                let own = modules.iter().filter(|name| is_used_in_root(&root, name));
                uses.extend(own.map(|name| (*name).to_owned()));
                continue;
            }
            for name in names_at_root(&product_code(file), depth(&file.path)) {
                let of = if modules.contains(&*name) {
                    name
                } else {
                    exports.get(&name).map_or(ROOT, |of| of).to_owned()
                };
                uses.insert(of);
            }
            uses.remove(module);
        }
        Self(graph)
    }

    /// How one module comes to use another, by the shortest way.
    fn path(&self, from: &str, to: &str) -> Option<Vec<&str>> {
        let (start, _) = self.0.get_key_value(from)?;
        let mut paths = vec![vec![start.as_str()]];
        let mut seen = BTreeSet::from([start.as_str()]);
        let mut next = 0;
        while let Some(path) = paths.get(next).cloned() {
            next += 1;
            let last = path[path.len() - 1];
            if last == to {
                return Some(path);
            }
            for name in self.0.get(last).into_iter().flatten() {
                if seen.insert(name) {
                    paths.push(path.iter().copied().chain([name.as_str()]).collect());
                }
            }
        }
        None
    }
}

/// The module directly below the root that a file belongs to.
fn module_of(path: &str) -> Option<&str> {
    path.strip_prefix(DATAPLANE)?.split(['/', '.']).next()
}

/// How many `super::` lead from a file to the root of the crate.
fn depth(path: &str) -> usize {
    let inside = path.strip_prefix(DATAPLANE).unwrap_or_default();
    let folders = inside.matches('/').count();
    if inside.ends_with("/mod.rs") { folders } else { folders + 1 }
}

pub(super) fn is_test(path: &str) -> bool {
    path.ends_with("/tests.rs") || path.contains("/tests/")
}

/// What stands behind `crate::`, or behind as many `super::` as lead to the root.
fn names_at_root(code: &str, depth: usize) -> BTreeSet<String> {
    let to_root = "super::".repeat(depth);
    let mut names = BTreeSet::new();
    for root in ["crate::", &*to_root] {
        for (at, _) in code.match_indices(root) {
            if root != "crate::" && code[..at].ends_with("super::") {
                continue;
            }
            names.extend(super::listed_names(&code[at + root.len()..]));
        }
    }
    names.remove("super");
    names
}

/// `pub use MODULE::{A, B}` of the root: of which module each name is.
fn exports(root: &str) -> BTreeMap<String, String> {
    let mut exports = BTreeMap::new();
    for statement in root.split("pub use ").skip(1).filter_map(|rest| rest.split(';').next()) {
        let Some((module, names)) = statement.split_once("::") else { continue };
        exports.extend(super::listed_names(names).into_iter().map(|name| (name, module.to_owned())));
    }
    exports
}

/// Whether the root's own code uses a module, beside making it part of the crate and handing on its names.
fn is_used_in_root(root: &str, module: &str) -> bool {
    let is_handed_on = |at: usize| {
        let line = root[..at].rsplit('\n').next().unwrap_or_default().trim_start();
        line.starts_with("pub use") || line.starts_with("mod ") || line.starts_with("pub mod ")
    };
    word_positions(root, module).any(|at| root[at + module.len()..].starts_with("::") && !is_handed_on(at))
}

/// The code that is in programs: without comments, literals and what `#[cfg(test)]` leaves out.
fn product_code(file: &File) -> String {
    product_parts(file).0
}

/// The code that is in programs, and the literals that are: each with blanks where the other is. What is not ASCII is blank.
pub(super) fn product_parts(file: &File) -> (String, String) {
    let ascii =
        |text: String| -> String { text.chars().map(|c| if c.is_ascii() { c } else { ' ' }).collect() };
    let (mut code, mut literals) = (ascii(file.code()), ascii(file.literals()));
    while let Some(at) = code.find("#[cfg(test)]") {
        let rest = &code[at..];
        let end = match (rest.find('{'), rest.find(';')) {
            (Some(brace), Some(semicolon)) if semicolon < brace => semicolon + 1,
            (Some(_), _) => body_end(&rest[12..]).map_or(rest.len(), |end| end + 12),
            (None, semicolon) => semicolon.map_or(rest.len(), |at| at + 1),
        };
        for text in [&mut code, &mut literals] {
            let blank: String =
                text[at..at + end].chars().map(|c| if c == '\n' { '\n' } else { ' ' }).collect();
            text.replace_range(at..at + end, &blank);
        }
    }
    (code, literals)
}
