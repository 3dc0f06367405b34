//! The list of benchmarks: each is described in the manifest of their package, in `[[package.metadata.benchmark]]`.
//!
//! | field | |
//! |---|---|
//! | `name` | of the bench target, and of the section in the page |
//! | `about` | for `--help` |
//! | `files` | endings of files to write; the option has the same name. Without it: `["json"]` |
//! | `programs-in-vm` | it measures in the VM, and needs these programs there |

use anyhow::{Context, Result};
use serde_json::Value;

use crate::cargo;

/// The package that has the benchmarks.
pub(super) const PACKAGE: &str = "portway";

/// A description.
#[derive(Debug, Default)]
pub(crate) struct Bench {
    pub(super) name: String,
    pub(super) about: String,
    pub(super) files: Vec<String>,
    pub(super) programs_in_vm: Option<Vec<String>>,
}

pub(super) fn all() -> Result<Vec<Bench>> {
    let metadata = cargo::metadata()?;
    let mut packages = metadata["packages"].as_array().into_iter().flatten();
    let package = packages.find(|package| package["name"] == PACKAGE);
    let rows = package.and_then(|package| package["metadata"]["benchmark"].as_array());
    let all = rows.into_iter().flatten().map(bench).collect::<Option<_>>();
    all.context("a `[[package.metadata.benchmark]]` has no `name` or no `about`")
}

fn bench(row: &Value) -> Option<Bench> {
    Some(Bench {
        name: row["name"].as_str()?.to_owned(),
        about: row["about"].as_str()?.to_owned(),
        files: words(&row["files"]).unwrap_or_else(|| vec!["json".to_owned()]),
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
