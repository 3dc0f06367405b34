//! Runs one step of a longer command, with one line of progress: `[2/6] clippy …  41 s`.
//!
//! In: a place in the order, a name, and a process to run.
//! Out: whether it went well, and what it printed.
//!
//! What the process prints is kept in a file and shown only when the step fails: a good run is a short list.
//! On a terminal the seconds count while one waits.

use anyhow::{Context, Result};
use std::fs::File;
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// A numbered step that is under way.
pub(crate) struct Step<'a> {
    label: String,
    name: &'a str,
    started: Instant,
}

/// How a process ended.
pub(crate) struct Ended {
    pub(crate) succeeded: bool,
    pub(crate) output: String,
}

impl<'a> Step<'a> {
    pub(crate) fn start(number: usize, total: usize, name: &'a str) -> Self {
        Self { label: format!("[{number}/{total}] {name} …"), name, started: Instant::now() }
    }

    /// Says that the step is under way and will print lines of its own.
    pub(crate) fn announce(&self) {
        println!("{}", self.label);
    }

    /// Says that the step is over, and how long it took.
    pub(crate) fn finish(&self) {
        println!("{}", self.line());
    }

    /// Runs a process with its output kept aside in `folder`; shows the output when the process fails.
    pub(crate) fn run_quietly(&self, command: &mut Command, folder: &Path) -> Result<Ended> {
        let ended = self.wait_for(command, folder)?;
        if !ended.succeeded {
            println!("{}", ended.output.trim_end());
        }
        Ok(ended)
    }

    fn wait_for(&self, command: &mut Command, folder: &Path) -> Result<Ended> {
        std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
        let path = folder.join(format!("{}.log", self.name.replace(' ', "-")));
        let file = File::create(&path).with_context(|| format!("cannot create {}", path.display()))?;
        let child = command
            .env("CARGO_TERM_COLOR", if std::io::stdout().is_terminal() { "always" } else { "never" })
            .stdin(Stdio::null())
            .stdout(file.try_clone().context("cannot share the log file")?)
            .stderr(file)
            .spawn()
            .with_context(|| format!("cannot start {command:?}"))?;
        let status = self.show_seconds_until_end(child)?;
        let output = std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        Ok(Ended { succeeded: status.success(), output: String::from_utf8_lossy(&output).into_owned() })
    }

    fn show_seconds_until_end(&self, mut child: Child) -> Result<ExitStatus> {
        if std::io::stdout().is_terminal() {
            loop {
                print!("\r{}", self.line());
                std::io::stdout().flush().context("cannot write to the terminal")?;
                if let Some(status) = child.try_wait().context("cannot wait for a step")? {
                    println!("\r{}", self.line());
                    return Ok(status);
                }
                std::thread::sleep(Duration::from_millis(200));
            }
        }
        let status = child.wait().context("cannot wait for a step")?;
        self.finish();
        Ok(status)
    }

    fn line(&self) -> String {
        format!("{:<24} {:>4} s", self.label, self.started.elapsed().as_secs())
    }
}
