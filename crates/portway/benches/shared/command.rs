//! The command line of a benchmark, and its end: what all of them have in common.
//!
//! In: the words of this process. Out: options with their values, the file of `--json`, an exit code. What an option means is each
//! benchmark's own.

use std::process::ExitCode;

use anyhow::{Context, Result};
use serde::Serialize;

/// Is this word among the arguments?
pub(crate) fn has(name: &str) -> bool {
    std::env::args().any(|word| word == name)
}

/// The word behind this one.
pub(crate) fn argument(name: &str) -> Option<String> {
    let mut arguments = std::env::args();
    arguments.find(|argument| argument == name)?;
    arguments.next()
}

/// Writes to the file that an argument names, if it is there.
pub(crate) fn write(name: &str, content: impl FnOnce() -> Result<String>) -> Result<()> {
    let Some(file) = argument(name) else { return Ok(()) };
    std::fs::write(&file, content()?).with_context(|| format!("cannot write {file}"))
}

/// Writes all figures to the file of `--json`.
pub(crate) fn write_json(results: &impl Serialize) -> Result<()> {
    write("--json", || Ok(format!("{}\n", serde_json::to_string_pretty(results)?)))
}

/// Says what went wrong.
pub(crate) fn end(result: Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}
