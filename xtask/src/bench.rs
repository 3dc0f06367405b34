//! `cargo xtask bench [NAME]`: figures as a table, and as a section of `docs/benchmarks.md`.
//!
//! In: the name of a benchmark and arguments for it. Out: what the benchmark prints; the same in the page, with the files
//! that belong to it in `docs/benchmarks/`.
//!
//! A benchmark is a bench target with `harness = false`: it prints its page on standard output, progress on standard
//! error, and takes the options that `crates/harness` gives to all. Its package's manifest describes it: see `list`.

mod in_vm;
mod list;
mod page;

use crate::cargo::{build_bench, root};
use crate::suggest;
use anyhow::{Context, Result};
use list::{Bench, PACKAGE};
use std::process::{Command, ExitCode, Stdio};

pub(crate) const ARGUMENTS: &str = "[NAME] [OPTIONS]";
pub(crate) const ABOUT: &str = "Prints figures as a table; without a name, those of every benchmark.";

/// A run that is not whole belongs on the screen, not in the page.
const NOT_FOR_THE_PAGE: &str = "--quick";
/// Shows an earlier run.
const AGAIN: &str = "--again";

pub(crate) fn run(arguments: &[String]) -> Result<ExitCode> {
    let all = list::all()?;
    let (wanted, options) = match arguments.split_first() {
        Some((name, options)) if !name.starts_with('-') => {
            match all.iter().find(|bench| bench.name == *name) {
                Some(bench) => (std::slice::from_ref(bench), options),
                None => return Ok(refuse_name(name, &all)),
            }
        }
        _ => (&all[..], arguments),
    };
    let mut all_succeeded = true;
    for bench in wanted {
        all_succeeded &= run_bench(bench, options)?;
    }
    Ok(if all_succeeded { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

pub(crate) fn details() -> String {
    list::all().map_or_else(|error| format!("{error:#}"), |all| describe(&all))
}

fn describe(all: &[Bench]) -> String {
    let rows = all.iter().map(|Bench { name, about, .. }| format!("  {name:<10} {about}\n"));
    format!(
        "Benchmarks:\n{}\n\
         The figures go into docs/benchmarks.md too, and as files into docs/benchmarks/.\n\
         Options go to the benchmark: `--json FILE` writes the figures there instead; `{NOT_FOR_THE_PAGE}` measures less and leaves the page as it\n\
         is; `{AGAIN} FILE` shows an earlier run's JSON.\n",
        rows.collect::<String>(),
    )
}

fn run_bench(bench: &Bench, options: &[String]) -> Result<bool> {
    let name = &bench.name;
    let is_for_the_page = !options.iter().any(|option| option == NOT_FOR_THE_PAGE);
    let files = if is_for_the_page { own_files(bench, options) } else { Vec::new() };
    let figures = figures_of_the_vm(bench, options)?;
    // Not by `cargo bench`, which would start it in the package's folder, where a relative path does not lead where the user means.
    let output = Command::new(build_bench(PACKAGE, name)?)
        .args(options)
        .args(figures)
        .args(files)
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot start the benchmark `{name}`"))?;
    let printed = String::from_utf8_lossy(&output.stdout);
    print!("{printed}");
    if output.status.success() && is_for_the_page {
        page::put(name, &printed)?;
    }
    Ok(output.status.success())
}

/// The option that shows what was measured in the VM; nothing where nothing is measured there.
fn figures_of_the_vm(bench: &Bench, options: &[String]) -> Result<Vec<String>> {
    match &bench.programs_in_vm {
        Some(programs) if !options.iter().any(|option| option == AGAIN) => {
            let quick = options.iter().filter(|option| *option == NOT_FOR_THE_PAGE).cloned();
            let file = in_vm::measure(&bench.name, programs, &quick.collect::<Vec<_>>())?;
            Ok(vec![AGAIN.to_owned(), file.to_string_lossy().into_owned()])
        }
        _ => Ok(Vec::new()),
    }
}

/// The files of a benchmark in `docs/benchmarks/`, except those for which the user has named another.
fn own_files(bench: &Bench, options: &[String]) -> Vec<String> {
    let own = bench.files.iter().map(|ending| (format!("--{ending}"), ending));
    own.filter(|(option, _)| !options.contains(option))
        .flat_map(|(option, ending)| {
            let file = root().join("docs/benchmarks").join(format!("{}.{ending}", bench.name));
            [option, file.to_string_lossy().into_owned()]
        })
        .collect()
}

fn refuse_name(name: &str, all: &[Bench]) -> ExitCode {
    let way_out = match suggest::nearest(name, all.iter().map(|bench| &*bench.name)) {
        Some(nearest) => format!("did you mean `{nearest}`?"),
        None => "`cargo xtask bench --help` lists them.".to_owned(),
    };
    eprintln!("unknown benchmark `{name}`: {way_out}");
    ExitCode::from(crate::USAGE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().copied().map(str::to_owned).collect()
    }

    #[test]
    fn a_file_that_the_user_names_takes_the_place_of_ours() {
        let files = words(&["json", "svg"]);
        let bench = &Bench { files, ..Bench::default() };
        let options = |options: &[&str]| {
            let own = own_files(bench, &words(options));
            own.into_iter().filter(|word| word.starts_with("--")).collect::<Vec<_>>()
        };
        assert_eq!(options(&[]), ["--json", "--svg"]);
        assert_eq!(options(&["--json", "/tmp/a.json"]), ["--svg"]);
        assert_eq!(options(&["--svg", "/tmp/a.svg"]), ["--json"]);
    }
}
