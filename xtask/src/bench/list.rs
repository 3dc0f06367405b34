//! The list of benchmarks: each is described in the manifest of its package, in `[[package.metadata.benchmark]]`.
//!
//! | field | |
//! |---|---|
//! | `name` | of the bench target, and of the section in the page |
//! | `about` | for `--help` |
//! | `files` | endings of files to write; the option has the same name. Without it: `["json"]` |
//! | `options` | which of `--quick` and `--again FILE` it takes |
//! | `prints` | `"text"`: columns. Without it: Markdown |
//! | `programs-in-vm` | it measures in the VM, and needs these programs there |

use anyhow::{Context, Result};
use serde_json::Value;

use super::page::Look;
use crate::cargo;

/// Packages that have benchmarks, in the order in which they are shown.
const PACKAGES: [&str; 2] = ["portway", "model"];

/// A description.
#[derive(Debug)]
#[cfg_attr(test, derive(Default))]
pub(crate) struct Bench {
    pub(super) package: String,
    pub(super) name: String,
    pub(super) about: String,
    pub(super) files: Vec<String>,
    pub(super) options: Vec<String>,
    pub(super) look: Look,
    pub(super) programs_in_vm: Option<Vec<String>>,
}

pub(super) fn all() -> Result<Vec<Bench>> {
    let metadata = cargo::metadata()?;
    let found = PACKAGES.iter().flat_map(|name| of_package(&metadata, name));
    found.collect::<Option<_>>().context("a `[[package.metadata.benchmark]]` has no `name` or no `about`")
}

/// The descriptions in the manifest of a package; `None` for one that lacks something.
fn of_package(metadata: &Value, package: &str) -> Vec<Option<Bench>> {
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let all = packages.filter(|found| found["name"] == package);
    let rows = all.filter_map(|found| found["metadata"]["benchmark"].as_array()).flatten();
    rows.map(|row| bench(package, row)).collect()
}

fn bench(package: &str, row: &Value) -> Option<Bench> {
    Some(Bench {
        package: package.to_owned(),
        name: row["name"].as_str()?.to_owned(),
        about: row["about"].as_str()?.to_owned(),
        files: words(&row["files"]).unwrap_or_else(|| vec!["json".to_owned()]),
        options: words(&row["options"]).unwrap_or_default(),
        look: if row["prints"] == "text" { Look::Plain } else { Look::Markdown },
        programs_in_vm: words(&row["programs-in-vm"]),
    })
}

fn words(value: &Value) -> Option<Vec<String>> {
    Some(value.as_array()?.iter().filter_map(Value::as_str).map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_bench_target_of_the_workspace_is_described() {
        let metadata = cargo::metadata().expect("cargo describes the workspace");
        let packages = metadata["packages"].as_array().expect("it has packages");
        let targets = packages.iter().flat_map(|package| package["targets"].as_array().into_iter().flatten());
        let benches = targets.filter(|target| target["kind"][0] == "bench");
        let targets: BTreeSet<_> = benches.filter_map(|target| target["name"].as_str()).collect();
        let described = all().expect("each is whole");
        assert_eq!(described.iter().map(|bench| &*bench.name).collect::<BTreeSet<_>>(), targets);
    }
}
