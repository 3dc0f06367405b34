//! A benchmark that needs the VM's kernel: measured there in one boot, shown here.
//!
//! In: which one, and the options that say how much is measured. Out: a file with its figures, which the same benchmark shows with
//! `--again FILE`.
//!
//! What a program writes to files in the VM is gone with it, and both of its outputs come as one: `--figures` makes it print its figures as
//! one line of JSON at the end. All other lines are progress.

use super::list::PACKAGE;
use crate::cargo::{build_bench, target_dir};
use crate::install::install_program;
use crate::vm::{self, machine::Ended};
use anyhow::{Context, Result, bail, ensure};
use std::io::{BufRead as _, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(3600);

/// Measures, with these programs, which are installed here if they are missing.
pub(crate) fn measure(bench: &str, programs: &[String], options: &[String]) -> Result<PathBuf> {
    for program in programs {
        if let Some(missing) = install_program(program) {
            bail!("{}", missing.reason);
        }
    }
    let program = build_bench(PACKAGE, bench)?;
    let word = program.to_string_lossy().into_owned();
    let mut command = vec![word, "--figures".to_owned(), "--host".to_owned(), machine(&program)?];
    command.extend_from_slice(options);
    let figures = boot(command)?;
    let file = target_dir()?.join(format!("xtask/{bench}-figures.json"));
    std::fs::write(&file, figures).with_context(|| format!("cannot write {}", file.display()))?;
    Ok(file)
}

/// This machine, in the benchmark's words.
fn machine(program: &Path) -> Result<String> {
    let output = Command::new(program).arg("--machine").output();
    let output = output.with_context(|| format!("cannot start {}", program.display()))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The line of figures that the VM's command prints.
fn boot(command: Vec<String>) -> Result<String> {
    let (reader, writer) = std::io::pipe().context("cannot make a pipe")?;
    // The VM ends with the thread that started it, so another one listens.
    let listener = std::thread::spawn(move || listen(reader, std::io::stderr()));
    let ended = vm::carry_out(command, LIMIT, writer.into())?;
    let figures = listener.join().expect("the listener does not panic")?;
    if let Some(problem) = ended.problem(LIMIT) {
        bail!("{problem}");
    }
    ensure!(ended == Ended::Code(0), "the benchmark failed in the VM: see above");
    figures.context("the benchmark printed no figures in the VM")
}

/// Hands progress on as it comes; returns the line of figures.
fn listen(reader: impl Read, mut progress: impl Write) -> Result<Option<String>> {
    let (mut reader, mut figures) = (BufReader::new(reader), None);
    loop {
        let bytes = reader.fill_buf()?;
        match bytes.first() {
            None => return Ok(figures),
            Some(b'{') => {
                let mut line = String::new();
                reader.read_line(&mut line)?;
                figures = Some(line);
            }
            Some(_) => {
                // A line of progress is not at its end yet when it should be seen.
                let end = bytes.iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |at| at + 1);
                progress.write_all(&bytes[..end])?;
                reader.consume(end);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_handed_on_and_the_line_of_figures_is_kept() {
        let mut progress = Vec::new();
        let printed = "counting … cold loads … 3 s\n{\"sizes\":[]}\n";
        let figures = listen(printed.as_bytes(), &mut progress).expect("reading from memory does not fail");
        assert_eq!(figures.as_deref(), Some("{\"sizes\":[]}\n"));
        assert_eq!(String::from_utf8_lossy(&progress), "counting … cold loads … 3 s\n");
        let none =
            listen("it failed\n".as_bytes(), &mut progress).expect("reading from memory does not fail");
        assert_eq!(none, None);
    }
}
