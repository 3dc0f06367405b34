//! `cargo xtask bench [NAME]`: figures as a table.
//!
//! In: the name of a benchmark and arguments for it. Out: what the benchmark prints.
//!
//! A benchmark is a bench target with `harness = false`: it prints its own table and takes `--json FILE`.
//! A new one is a row in `BENCHES`.

use crate::cargo::cargo;
use crate::suggest;
use anyhow::{Context, Result};
use std::path::Path;
use std::process::ExitCode;

pub(crate) const ARGUMENTS: &str = "[NAME] [OPTIONS]";
pub(crate) const ABOUT: &str = "Prints figures as a table; without a name, those of every benchmark.";

struct Bench {
    name: &'static str,
    package: &'static str,
    target: &'static str,
    about: &'static str,
}

const BENCHES: &[Bench] = &[Bench {
    name: "model",
    package: "model",
    target: "model",
    about: "heap and time per change of the forwarding table, at 1,000 to 45,000 services",
}];

pub(crate) fn run(arguments: &[String]) -> Result<ExitCode> {
    let (wanted, options) = match arguments.split_first() {
        Some((name, options)) if !name.starts_with('-') => {
            match BENCHES.iter().find(|bench| bench.name == name) {
                Some(bench) => (std::slice::from_ref(bench), options),
                None => return Ok(refuse_name(name)),
            }
        }
        _ => (BENCHES, arguments),
    };
    let options =
        absolute_json_path(options, &std::env::current_dir().context("cannot tell the current folder")?);
    let mut all_succeeded = true;
    for bench in wanted {
        all_succeeded &= run_bench(bench, &options)?;
    }
    Ok(if all_succeeded { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

pub(crate) fn details() -> String {
    let rows = BENCHES.iter().map(|Bench { name, about, .. }| format!("  {name:<10} {about}\n"));
    format!(
        "Benchmarks:\n{}\nOptions go to the benchmark: `--json FILE` also writes the figures there.\n",
        rows.collect::<String>()
    )
}

fn run_bench(bench: &Bench, options: &[String]) -> Result<bool> {
    let Bench { package, target, .. } = bench;
    let status = cargo(&["bench", "--package", package, "--bench", target, "--"])
        .args(options)
        .status()
        .context("cannot start `cargo bench`")?;
    Ok(status.success())
}

/// Cargo runs a benchmark in its package's folder, so a relative path would not lead where the user means.
fn absolute_json_path(options: &[String], folder: &Path) -> Vec<String> {
    let absolute = |path: &str| folder.join(path).to_string_lossy().into_owned();
    let mut is_path = false;
    let mut result = Vec::new();
    for option in options {
        result.push(match option.strip_prefix("--json=") {
            Some(path) => format!("--json={}", absolute(path)),
            None if is_path => absolute(option),
            None => option.clone(),
        });
        is_path = option == "--json";
    }
    result
}

fn refuse_name(name: &str) -> ExitCode {
    let way_out = match suggest::nearest(name, BENCHES.iter().map(|bench| bench.name)) {
        Some(nearest) => format!("did you mean `{nearest}`?"),
        None => "`cargo xtask bench --help` lists them.".to_owned(),
    };
    eprintln!("unknown benchmark `{name}`: {way_out}");
    ExitCode::from(crate::USAGE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_json_path_is_meant_from_where_the_user_stands() {
        for (given, expected) in [
            (vec!["--json", "a.json", "--quick"], vec!["--json", "/here/a.json", "--quick"]),
            (vec!["--json=a.json"], vec!["--json=/here/a.json"]),
            (vec!["--json", "/tmp/a.json"], vec!["--json", "/tmp/a.json"]),
            (vec!["--json"], vec!["--json"]),
            (vec![], vec![]),
        ] {
            let given: Vec<String> = given.into_iter().map(str::to_owned).collect();
            assert_eq!(absolute_json_path(&given, Path::new("/here")), expected);
        }
    }
}
