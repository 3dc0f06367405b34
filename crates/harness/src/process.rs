//! Fresh processes to measure in, and what a process costs.
//!
//! Memory that an earlier, smaller cluster has given back would be counted as free, and a warm allocator is a fast one:
//! so each size is measured in a process of its own, which is this program again with `--part`.

use std::io::Read as _;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde::de::DeserializeOwned;

use crate::{number, step};

/// `/proc/…/stat` counts in hundredths of a second on every Linux.
const TICK_MS: f64 = 10.0;
/// A part that takes longer is stuck.
const LIMIT: Duration = Duration::from_secs(1_800);
const POLL: Duration = Duration::from_millis(20);

/// Runs a part of this benchmark in a fresh process, and says so.
pub fn fresh<T: DeserializeOwned>(part: &str, services: u32) -> Result<T> {
    let program = std::env::current_exe().context("this program does not know its path")?;
    // The legacy iptables program's lock is otherwise that of the whole machine.
    let lock = std::env::temp_dir().join(format!("portway-bench-{}.lock", std::process::id()));
    let mut command = Command::new(program);
    command.args(["--part", part, "--services", &services.to_string()]).env("XTABLES_LOCKFILE", &lock);
    let what = format!("{part} at {} services", number(services));
    let output = step(&what, || output(command)).with_context(|| format!("measuring {what} failed"));
    // Where no program has made a lock there is nothing to remove.
    let _ = std::fs::remove_file(lock);
    serde_json::from_slice(&output?).with_context(|| format!("`{part}` printed no result"))
}

/// What a program prints, which it must do within the limit.
fn output(mut command: Command) -> Result<Vec<u8>> {
    let mut child = command.stdout(Stdio::piped()).spawn()?;
    let mut out = child.stdout.take().context("it has no output")?;
    let reader = thread::spawn(move || {
        let mut bytes = Vec::new();
        out.read_to_end(&mut bytes).map(|_| bytes)
    });
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if start.elapsed() > LIMIT {
            child.kill()?;
            child.wait()?;
            bail!("it took longer than {} s", LIMIT.as_secs());
        }
        thread::sleep(POLL);
    };
    ensure!(status.success(), "{status}: see above");
    Ok(reader.join().expect("the reader does not panic")?)
}

pub fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// CPU time, in milliseconds.
#[derive(Clone, Copy, Debug)]
pub struct Cpu {
    /// In programs.
    pub user_ms: f64,
    /// In the kernel on their behalf.
    pub system_ms: f64,
}

impl Cpu {
    /// Of this process, all threads.
    pub fn own() -> Result<Self> {
        Self::of("self").context("the kernel tells no CPU time")
    }

    /// Of another process.
    pub fn of(process: &str) -> Option<Self> {
        Self::at(process, 11)
    }

    /// Of programs that this process has started and waited for.
    pub fn children() -> Result<Self> {
        Self::at("self", 13).context("the kernel tells no CPU time")
    }

    /// What has been spent since `earlier`.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self { user_ms: self.user_ms - earlier.user_ms, system_ms: self.system_ms - earlier.system_ms }
    }

    pub fn sum_ms(self) -> f64 {
        self.user_ms + self.system_ms
    }

    /// Reads a pair of fields, counted from behind the program's name, which is in parentheses and may hold blanks.
    fn at(process: &str, first: usize) -> Option<Self> {
        let text = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        let mut fields = text.rsplit_once(')')?.1.split_whitespace().skip(first);
        let mut next = || Some(fields.next()?.parse::<f64>().ok()? * TICK_MS);
        Some(Self { user_ms: next()?, system_ms: next()? })
    }
}

/// Does some work; also returns the CPU time of this thread for it, in microseconds, exactly.
pub fn thread_cpu_us<T>(work: impl FnOnce() -> Result<T>) -> Result<(T, f64)> {
    // The kernel brings the figure up to date when a thread offers to step aside.
    let spent = || {
        thread::yield_now();
        schedule(0)
    };
    let before = spent()?;
    let result = work()?;
    Ok((result, (spent()? - before) / 1e3))
}

/// How long this thread could have run, but others had all cores, in milliseconds.
pub fn thread_waited_ms() -> Result<f64> {
    Ok(schedule(1)? / 1e6)
}

/// A field of this thread's `schedstat`, in nanoseconds.
fn schedule(field: usize) -> Result<f64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    Ok(text.split_whitespace().nth(field).context("schedstat is short")?.parse()?)
}

/// A memory figure of a process, such as `VmRSS` or `VmHWM`, in KiB.
pub fn memory_kib(process: &str, field: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
    line.trim().trim_end_matches(" kB").parse().ok()
}

/// The same in MiB.
#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
pub fn memory_mib(process: &str, field: &str) -> Result<f64> {
    let kib = memory_kib(process, field).with_context(|| format!("the kernel tells no {field}"))?;
    Ok(kib as f64 / 1024.0)
}
