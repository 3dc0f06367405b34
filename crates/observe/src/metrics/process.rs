//! The metrics that every program has, from `/proc`.
//!
//! What cannot be read is not shown: a page without the memory of this process is better than none.

use std::fs;

use super::text::{Kind, Page};

/// Ticks of the kernel's clock in a second, in all that it tells programs.
const TICKS: f64 = 100.0;

/// Writes them.
pub(super) fn write(page: &mut Page) {
    let mut figure = |name: &str, kind: Kind, help: &str, value: Option<f64>| {
        if let Some(value) = value {
            page.family(name, kind, help).sample(&[], value);
        }
    };
    let stat = fs::read_to_string("/proc/self/stat").ok().and_then(|text| Stat::parse(&text));
    let help = "Total user and system CPU time spent in seconds.";
    figure("process_cpu_seconds_total", Kind::Counter, help, stat.as_ref().map(|stat| stat.cpu_seconds));
    let limit = u32::try_from(kernel::limit::files()).ok().map(f64::from);
    figure("process_max_fds", Kind::Gauge, "Maximum number of open file descriptors.", limit);
    let open = fs::read_dir("/proc/self/fd").ok().and_then(|files| u32::try_from(files.count()).ok());
    figure("process_open_fds", Kind::Gauge, "Number of open file descriptors.", open.map(f64::from));
    let help = "Resident memory size in bytes.";
    figure("process_resident_memory_bytes", Kind::Gauge, help, resident_bytes());
    let help = "Start time of the process since unix epoch in seconds.";
    let began = stat.as_ref().and_then(|stat| Some(stat.started_seconds + booted()?));
    figure("process_start_time_seconds", Kind::Gauge, help, began);
    let help = "Virtual memory size in bytes.";
    figure("process_virtual_memory_bytes", Kind::Gauge, help, stat.as_ref().map(|stat| stat.virtual_bytes));
}

/// What `/proc/self/stat` tells.
#[derive(Debug, PartialEq)]
struct Stat {
    cpu_seconds: f64,
    /// Since the machine was started.
    started_seconds: f64,
    virtual_bytes: f64,
}

impl Stat {
    /// The name of the program stands in brackets, and may itself hold spaces and brackets.
    #[expect(clippy::cast_precision_loss, reason = "as Prometheus' own libraries do")]
    fn parse(text: &str) -> Option<Self> {
        let (_, rest) = text.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        // The first field here is the third of the file.
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        Some(Self {
            cpu_seconds: (field(14)? + field(15)?) as f64 / TICKS,
            started_seconds: field(22)? as f64 / TICKS,
            virtual_bytes: field(23)? as f64,
        })
    }
}

/// The other file counts it in pages, whose size is not the same everywhere.
fn resident_bytes() -> Option<f64> {
    let text = fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix(" kB")?.parse::<f64>().ok().map(|kib| kib * 1024.0)
}

/// When the machine was started, in seconds since the epoch.
fn booted() -> Option<f64> {
    let text = fs::read_to_string("/proc/stat").ok()?;
    text.lines().find_map(|line| line.strip_prefix("btime ")?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_does_not_shift_the_fields() {
        let text =
            "7 (a) b) S 1 7 7 0 -1 4194304 100 0 0 0 150 50 0 0 20 0 3 0 1000 8192 2 18446744073709551615";
        let stat = Stat::parse(text);
        let expected = Stat { cpu_seconds: 2.0, started_seconds: 10.0, virtual_bytes: 8192.0 };
        assert_eq!(stat, Some(expected));
        assert_eq!(Stat::parse("nonsense"), None);
    }
}
