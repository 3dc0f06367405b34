//! What this process costs, and fresh processes to measure in.
//!
//! Memory that an earlier, smaller cluster has given back would be counted as free, and a warm allocator is a fast one:
//! so each size is measured in a process of its own, which is this program again with `--part`.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// `/proc/…/stat` counts in hundredths of a second on every Linux.
const TICK_MS: f64 = 10.0;

/// Runs a part of this benchmark in a fresh process; its last line is the result.
pub(crate) fn fresh<T: DeserializeOwned>(part: &str, services: u32) -> Result<T> {
    let program = std::env::current_exe().context("this program does not know its path")?;
    let output = Command::new(program)
        .args(["--part", part, "--services", &services.to_string()])
        .stderr(Stdio::inherit())
        .output()
        .context("this program cannot start itself")?;
    ensure!(output.status.success(), "measuring `{part}` at {services} services failed: see above");
    serde_json::from_slice(&output.stdout).with_context(|| format!("`{part}` printed no result"))
}

/// What a part prints.
pub(crate) fn line(result: &impl Serialize) -> Result<String> {
    Ok(serde_json::to_string(result)?)
}

/// CPU time, in milliseconds.
#[derive(Clone, Copy)]
pub(crate) struct Cpu {
    /// In programs.
    pub(crate) user_ms: f64,
    /// In the kernel on their behalf.
    pub(crate) system_ms: f64,
}

impl Cpu {
    /// Of this process, all threads.
    pub(crate) fn own() -> Result<Self> {
        Self::at(13)
    }

    /// Of programs that this process has started and waited for.
    pub(crate) fn children() -> Result<Self> {
        Self::at(15)
    }

    /// What has been spent since `earlier`.
    pub(crate) fn since(self, earlier: Self) -> Self {
        Self { user_ms: self.user_ms - earlier.user_ms, system_ms: self.system_ms - earlier.system_ms }
    }

    /// Reads a pair of fields, counted from 0 as in proc(5) from 1.
    fn at(first: usize) -> Result<Self> {
        let text = std::fs::read_to_string("/proc/self/stat")?;
        // The second field is the program's name in parentheses, which may hold blanks.
        let (_, rest) = text.rsplit_once(')').context("/proc/self/stat names no program")?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let read = |at: usize| -> Result<f64> {
            let field = fields.get(at - 2).context("/proc/self/stat is short")?;
            Ok(field.parse::<f64>()? * TICK_MS)
        };
        Ok(Self { user_ms: read(first)?, system_ms: read(first + 1)? })
    }
}

/// CPU time of this thread, in microseconds, exactly.
pub(crate) fn thread_cpu_us() -> Result<f64> {
    // The kernel brings the figure up to date when a thread offers to step aside.
    std::thread::yield_now();
    Ok(schedule(0)? / 1e3)
}

/// How long this thread could have run, but others had all cores, in milliseconds.
pub(crate) fn thread_waited_ms() -> Result<f64> {
    Ok(schedule(1)? / 1e6)
}

/// A field of this thread's `schedstat`, in nanoseconds.
fn schedule(field: usize) -> Result<f64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    Ok(text.split_whitespace().nth(field).context("schedstat is short")?.parse()?)
}

/// A memory figure of a process, such as `VmRSS` or `VmHWM`, in MiB.
pub(crate) fn memory_mib(process: &str, field: &str) -> Option<f64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
    let kib: f64 = line.trim().trim_end_matches(" kB").parse().ok()?;
    Some(kib / 1024.0)
}
