//! The machine that was measured on: what a reader must know to judge the figures.

use std::process::Command;

use serde::{Deserialize, Serialize};

/// Facts about the machine; `unknown` where it does not tell.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Machine {
    pub(crate) cores: usize,
    pub(crate) processor: String,
    pub(crate) kernel: String,
    pub(crate) nft: String,
    pub(crate) portway: String,
    /// The day, in UTC.
    pub(crate) date: String,
    /// How many threads wanted to run, on average over the last minute, before anything was measured.
    pub(crate) load_before: f64,
}

impl Machine {
    /// This machine, now.
    pub(crate) fn look() -> Self {
        Self {
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            processor: processor().unwrap_or_else(unknown),
            kernel: first_line("/proc/sys/kernel/osrelease").unwrap_or_else(unknown),
            nft: nft().unwrap_or_else(unknown),
            portway: env!("CARGO_PKG_VERSION").into(),
            date: jiff::Timestamp::now().strftime("%Y-%m-%d").to_string(),
            load_before: load().unwrap_or_default(),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a number of cores")]
impl Machine {
    /// Whether a core was free for us all the time.
    pub(crate) fn is_calm(&self) -> bool {
        self.load_before < self.cores as f64 / 2.0
    }
}

fn unknown() -> String {
    "unknown".into()
}

fn processor() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let name = text.lines().find_map(|line| line.strip_prefix("model name"))?;
    Some(name.trim_start_matches([' ', '\t', ':']).trim().to_owned())
}

fn nft() -> Option<String> {
    let output = Command::new("nft").arg("--version").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.split_whitespace().nth(1).map(|version| version.trim_start_matches('v').to_owned())
}

fn load() -> Option<f64> {
    first_line("/proc/loadavg")?.split_whitespace().next()?.parse().ok()
}

fn first_line(path: &str) -> Option<String> {
    Some(std::fs::read_to_string(path).ok()?.lines().next()?.trim().to_owned())
}
