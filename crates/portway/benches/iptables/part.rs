//! A part of the benchmark, measured in a fresh process: memory that an earlier part has given back is not counted as free.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde::de::DeserializeOwned;

use crate::results::Program;
use crate::{argument, changes, cold, process};

/// What a process measures.
pub(crate) struct Part {
    /// `cold`, `changes` or `at-once`.
    pub(crate) name: String,
    pub(crate) program: Program,
    pub(crate) services: u32,
}

impl Part {
    /// The part that this process is asked for, if it is for one.
    pub(crate) fn of_arguments() -> Result<Option<Self>> {
        let Some(name) = argument("--part") else { return Ok(None) };
        let program = argument("--program").context("--part needs --program")?;
        let program = Program::ALL
            .into_iter()
            .find(|known| known.name() == program)
            .with_context(|| format!("no program `{program}`"))?;
        let services = argument("--services").context("--part needs --services")?.parse()?;
        Ok(Some(Self { name, program, services }))
    }

    /// Measures; the result is one line.
    pub(crate) fn measure(&self) -> Result<String> {
        let Self { name, program, services } = self;
        match name.as_str() {
            "cold" => process::line(&cold::measure(*program, *services)?),
            "at-once" => process::line(&cold::at_once(*program, *services)?),
            "changes" => process::line(&changes::measure(*program, *services)?),
            other => bail!("no part `{other}`: there are cold, at-once and changes"),
        }
    }

    /// Measures in a process of its own.
    pub(crate) fn fresh<T: DeserializeOwned>(&self) -> Result<T> {
        let Self { name, program, services } = self;
        let this = std::env::current_exe().context("this program does not know its path")?;
        let lock = std::env::temp_dir().join(format!("portway-bench-{}.lock", std::process::id()));
        let output = Command::new(this)
            .args(["--part", name, "--program", program.name(), "--services", &services.to_string()])
            .env("XTABLES_LOCKFILE", &lock)
            .stderr(Stdio::inherit())
            .output()
            .context("this program cannot start itself")?;
        // Where the program has made none there is nothing to remove.
        let _ = std::fs::remove_file(lock);
        ensure!(output.status.success(), "measuring `{name}` at {services} services failed: see above");
        serde_json::from_slice(&output.stdout).with_context(|| format!("`{name}` printed no result"))
    }
}
