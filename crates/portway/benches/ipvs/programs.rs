//! The yardstick: the same state, loaded by Debian's programs from text.
//!
//! The goal speaks of `ipset restore` and `ipvsadm -R`. Addresses and rules are part of the state too, so `ip -batch` and
//! `iptables-restore` are run and shown beside them. Making the texts is not counted.

use std::fs::File;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use dataplane::ipvs::{DUMMY, Options, render};
use harness::machine::version;
use harness::node::ip;
use harness::proxy::table_of;
use harness::{Cpu, cluster, ms};
use kernel::ipvs::{self, Ipvs as _};
use model::Family;
use serde::{Deserialize, Serialize};

use crate::tap::{self, Traffic};

/// One program, run once.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Run {
    /// With its options.
    pub(crate) program: String,
    pub(crate) lines: usize,
    pub(crate) ms: f64,
    pub(crate) cpu_ms: f64,
    /// Where it was counted.
    pub(crate) traffic: Option<Traffic>,
}

/// A program, its arguments, and how the title of its text ends.
const PROGRAMS: [(&str, &[&str], &str); 5] = [
    ("ipset", &["restore"], ", for ipset restore"),
    ("ipvsadm", &["-R"], ", for ipvsadm -R"),
    ("iptables-nft-restore", &["--noflush"], ", for iptables-restore --noflush"),
    ("ip6tables-nft-restore", &["--noflush"], ", for ip6tables-restore --noflush"),
    ("ip", &["-batch", "-"], ", for ip -batch"),
];
/// Those that the goal speaks of, first in the list above.
pub(crate) const OF_THE_GOAL: usize = 2;

/// Loads everything into a namespace of its own.
pub(crate) fn measure(services: u32, is_counted: bool) -> Result<Vec<Run>> {
    let (_, table) = table_of(cluster::facts(services));
    let text: String = Family::ALL.map(|family| render(&table, family, &Options::default())).concat();
    harness::node::namespace()?.run(|| {
        ip(&["link", "add", DUMMY, "type", "dummy"])?;
        ip(&["link", "set", DUMMY, "up"])?;
        let runs = PROGRAMS.iter().map(|(program, arguments, title)| {
            let text = section(&text, title);
            run(program, arguments, &text, is_counted)
        });
        let runs = runs.collect::<Result<_>>()?;
        let found = ipvs::Netlink::open()?.virtual_servers()?.len();
        ensure!(u32::try_from(found) == Ok(services), "`ipvsadm -R` made {found} virtual servers");
        Ok(runs)
    })?
}

/// The versions of the two programs of the goal.
pub(crate) fn versions() -> String {
    let programs = ["ipset", "ipvsadm"].into_iter();
    let versions =
        programs.filter_map(|program| Some(format!("{program} {}", version(program, "--version")?)));
    versions.collect::<Vec<_>>().join(", ")
}

/// The lines below titles that end so, of both families.
fn section(text: &str, title: &str) -> String {
    let mut is_in = false;
    let mut lines = String::new();
    for line in text.lines() {
        if line.starts_with("# ") {
            is_in = line.ends_with(title);
        } else if is_in {
            lines.push_str(line);
            lines.push('\n');
        }
    }
    lines
}

fn run(program: &str, arguments: &[&str], text: &str, is_counted: bool) -> Result<Run> {
    let path = std::env::temp_dir().join(format!("portway-bench-{}.txt", std::process::id()));
    File::create(&path)?.write_all(text.as_bytes())?;
    let once = || {
        let cpu = Cpu::children()?;
        let start = Instant::now();
        let mut command = Command::new(program);
        command.args(arguments).stdin(File::open(&path)?).stdout(Stdio::null());
        let status = command.status().with_context(|| format!("`{program}` cannot be started"))?;
        let ms = ms(start.elapsed());
        ensure!(status.success(), "`{program}` failed: see above");
        Ok((ms, Cpu::children()?.since(cpu)))
    };
    let ((ms, cpu), traffic) = if is_counted {
        tap::count(once).map(|(result, traffic)| (result, Some(traffic)))?
    } else {
        (once()?, None)
    };
    std::fs::remove_file(&path)?;
    let program = format!("{program} {}", arguments.join(" "));
    Ok(Run { program, lines: text.lines().count(), ms, cpu_ms: cpu.sum_ms(), traffic })
}
