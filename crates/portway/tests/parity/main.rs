//! `docs/parity.md` is made here, from what the program itself says, and from lists of what upstream has.
//!
//! | file | what it holds |
//! |---|---|
//! | `promises` | the points in which modes may differ, as `model::Promises` has them |
//! | `behaviour` | what upstream does, mode by mode: the same, better, or not offered; and what shows it |
//! | `pages` | metrics, Events and pages |
//! | `settings` | flags, fields and feature gates |
//! | `markdown` | tables |
//!
//! A row that claims something names the scenario or test that shows it, and those must exist. `cargo xtask bless` rewrites the page.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed, and says where")]

mod behaviour;
mod markdown;
mod pages;
mod promises;
mod settings;

use std::fs;
use std::path::{Path, PathBuf};

const HEAD: &str = "\
<!-- Made by `cargo xtask bless` from crates/portway/tests/parity: change it there. -->

# Parity with kube-proxy

Compared with kube-proxy 1.37, and for userspace mode with 1.25, the last that had it.
*Same* is as upstream does it; *better* and *not offered* say why.
";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn page() -> String {
    let parts =
        [HEAD.to_owned(), promises::section(), behaviour::section(), settings::section(), pages::section()];
    format!("{}\n", parts.map(|part| part.trim_end().to_owned()).join("\n\n"))
}

#[test]
fn the_page_says_what_the_program_does() {
    let file = root().join("docs/parity.md");
    let page = page();
    if std::env::var_os("PORTWAY_BLESS").is_some() {
        fs::write(&file, &page).unwrap();
    }
    let written = fs::read_to_string(&file).unwrap();
    assert!(
        written == page,
        "docs/parity.md is not what the program says: `cargo xtask bless`, and review the diff"
    );
}

/// All sources in which a test may be, as one text for each folder.
fn sources(folder: &Path, found: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push_str(&fs::read_to_string(&path).unwrap());
        }
    }
}

#[test]
fn whatever_shows_a_claim_exists() {
    let mut code = String::new();
    sources(&root().join("crates"), &mut code);
    let security = fs::read_to_string(root().join("SECURITY.md")).unwrap();
    let mut names: Vec<String> = of_security(&security).map(str::to_owned).collect();
    names.extend(behaviour::shown_by().chain(pages::shown_by()).map(str::to_owned));
    let is_there = |name: &str| {
        root().join("scenarios").join(format!("{name}.txt")).exists() || code.contains(&format!("fn {name}("))
    };
    names.retain(|name| !is_there(name));
    assert_eq!(names, Vec::<String>::new(), "neither a scenario nor a test has this name");
}

/// What the table of attacks in `SECURITY.md` names in its last column.
fn of_security(text: &str) -> impl Iterator<Item = &str> {
    let (_, table) = text.split_once("| shown by |").unwrap();
    let rows = || table.lines().filter(|line| line.starts_with("| "));
    assert!(rows().count() >= 8, "{table}");
    rows().flat_map(|line| {
        let cell = line.trim_end_matches(" |").rsplit_once("| ").map_or("", |(_, cell)| cell);
        cell.split(", ").map(|name| name.trim_matches('`'))
    })
}
