//! Which top module of a crate uses which.
//!
//! In: the files of the repository. Out: a graph of the modules directly below the root of one crate.
//!
//! What `#[cfg(test)]` leaves out of programs is not looked at.

use std::collections::{BTreeMap, BTreeSet};

use super::find;
use crate::longest::body_end;
use crate::source::{File, word_positions};

/// Which module directly below the root of a crate uses which.
pub(super) struct Graph(BTreeMap<String, BTreeSet<String>>);

/// What no program has, beside tests.
const SIM: &str = "#[cfg(feature = \"sim\")]";

/// The root of the crate, as a module.
const ROOT: &str = "lib";

impl Graph {
    /// Of the crate whose sources are in this folder, which ends with `/`.
    pub(super) fn of(files: &[File], folder: &str) -> Self {
        let inside = |file: &&File| {
            file.is_rust()
                && file.path.starts_with(folder)
                && !is_test(&file.path)
                && !is_simulated(&file.path)
        };
        let modules: BTreeSet<&str> =
            files.iter().filter(inside).filter_map(|file| module_of(folder, &file.path)).collect();
        let root = find(files, &format!("{folder}lib.rs")).map(product_code).unwrap_or_default();
        let exports = exports(&root);
        let mut graph: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for file in files.iter().filter(inside) {
            let Some(module) = module_of(folder, &file.path) else { continue };
            let uses = graph.entry(module.to_owned()).or_default();
            if module == ROOT {
                let own = modules.iter().filter(|name| is_used_in_root(&root, name));
                uses.extend(own.map(|name| (*name).to_owned()));
                continue;
            }
            for name in names_at_root(&product_code(file), depth(folder, &file.path)) {
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
    pub(super) fn path(&self, from: &str, to: &str) -> Option<Vec<&str>> {
        self.search(from, to, |_| true)
    }

    fn search(&self, from: &str, to: &str, may_pass: impl Fn(&str) -> bool) -> Option<Vec<&str>> {
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
            for name in self.0.get(last).into_iter().flatten().filter(|name| may_pass(name)) {
                if seen.insert(name) {
                    paths.push(path.iter().copied().chain([name.as_str()]).collect());
                }
            }
        }
        None
    }

    /// Modules that come to use themselves: for each knot of such modules its shortest cycle.
    pub(super) fn cycles(&self) -> Vec<Vec<&str>> {
        let (mut cycles, mut told) = (Vec::new(), BTreeSet::new());
        for module in self.0.keys().filter(|module| *module != ROOT) {
            if told.contains(module.as_str()) {
                continue;
            }
            let knot: BTreeSet<&str> = self
                .0
                .keys()
                .filter(|other| self.reaches(module, other) && self.reaches(other, module))
                .map(String::as_str)
                .collect();
            let shortest = knot.iter().filter_map(|one| self.cycle_of(one)).min_by_key(Vec::len);
            cycles.extend(shortest);
            told.extend(knot);
        }
        cycles
    }

    fn cycle_of(&self, module: &str) -> Option<Vec<&str>> {
        let next = self.0.get(module)?.iter().filter(|next| *next != ROOT);
        let back = next.filter_map(|next| self.path_beside_root(next, module)).min_by_key(Vec::len)?;
        let (start, _) = self.0.get_key_value(module)?;
        Some([start.as_str()].into_iter().chain(back).collect())
    }

    fn reaches(&self, from: &str, to: &str) -> bool {
        self.path_beside_root(from, to).is_some_and(|path| path.len() > 1)
    }

    /// As [`Graph::path`], and not through the root, which uses all.
    fn path_beside_root(&self, from: &str, to: &str) -> Option<Vec<&str>> {
        self.search(from, to, |name| name != ROOT)
    }
}

/// The module directly below the root that a file belongs to.
fn module_of<'a>(folder: &str, path: &'a str) -> Option<&'a str> {
    path.strip_prefix(folder)?.split(['/', '.']).next()
}

/// How many `super::` lead from a file to the root of the crate.
fn depth(folder: &str, path: &str) -> usize {
    let inside = path.strip_prefix(folder).unwrap_or_default();
    let folders = inside.matches('/').count();
    if inside.ends_with("/mod.rs") { folders } else { folders + 1 }
}

/// Whether a file is behind the feature `sim`.
pub(super) fn is_simulated(path: &str) -> bool {
    path.ends_with("/sim.rs") || path.contains("/sim/")
}

/// Whether a file is a test's alone.
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

/// The code that is in programs: without comments, literals and what `#[cfg(test)]` and the feature `sim` leave out.
pub(super) fn product_code(file: &File) -> String {
    product_parts(file).0
}

/// The code that is in programs, and the literals that are: each with blanks where the other is. What is not ASCII is blank.
pub(super) fn product_parts(file: &File) -> (String, String) {
    let ascii =
        |text: String| -> String { text.chars().map(|c| if c.is_ascii() { c } else { ' ' }).collect() };
    let file = File { path: String::new(), text: file.text.replace(SIM, "#[cfg(test)]") };
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
