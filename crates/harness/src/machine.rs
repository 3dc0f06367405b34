//! The machine that was measured on: what a reader must know to judge the figures.

use std::process::Command;

use serde::{Deserialize, Serialize};

/// Facts about the machine; `unknown` where it does not tell.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Machine {
    pub cores: usize,
    pub processor: String,
    pub kernel: String,
    pub nft: String,
    pub portway: String,
    /// The day, in UTC.
    pub date: String,
    /// How many threads wanted to run, on average over the last minute, before anything was measured.
    pub load_before: f64,
}

impl Machine {
    /// This machine, now.
    pub fn look() -> Self {
        Self {
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            processor: processor().unwrap_or_else(unknown),
            kernel: first_line("/proc/sys/kernel/osrelease").unwrap_or_else(unknown),
            nft: version("nft", "--version").unwrap_or_else(unknown),
            portway: env!("CARGO_PKG_VERSION").into(),
            date: jiff::Timestamp::now().strftime("%Y-%m-%d").to_string(),
            load_before: load().unwrap_or_default(),
        }
    }

    /// Whether a core was free for us all the time.
    #[expect(clippy::cast_precision_loss, reason = "a number of cores")]
    pub fn is_calm(&self) -> bool {
        self.load_before < self.cores as f64 / 2.0
    }

    /// A sentence for the page, with the versions of programs.
    pub fn sentence(&self, versions: &str) -> String {
        let Self { date, cores, processor, kernel, load_before, .. } = self;
        let calm =
            if self.is_calm() { "" } else { ": other work shared the cores, so read wall times with care" };
        format!(
            "Measured on {date}: {cores} cores ({processor}), Linux {kernel}{versions}; load average before the run {load_before:.1}{calm}."
        )
    }
}

/// The version that a program tells of itself: the first word that begins with a digit and has a dot.
pub fn version(program: &str, option: &str) -> Option<String> {
    version_of(Command::new(program).arg(option))
}

/// The same of a command.
pub fn version_of(command: &mut Command) -> Option<String> {
    let output = command.output().ok()?;
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    let mut words = text.split(|c: char| c.is_whitespace() || "/-,v".contains(c));
    let is_version = |word: &&str| word.contains('.') && word.starts_with(|c: char| c.is_ascii_digit());
    words.find(is_version).map(str::to_owned)
}

fn unknown() -> String {
    "unknown".into()
}

fn processor() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let name = text.lines().find_map(|line| line.strip_prefix("model name"))?;
    Some(name.trim_start_matches([' ', '\t', ':']).trim().to_owned())
}

fn load() -> Option<f64> {
    first_line("/proc/loadavg")?.split_whitespace().next()?.parse().ok()
}

fn first_line(path: &str) -> Option<String> {
    Some(std::fs::read_to_string(path).ok()?.lines().next()?.trim().to_owned())
}
