//! A namespace, and the portway that runs in it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use kernel::nft::{Event, Monitor};
use playground::namespace::Namespace;

use crate::cluster::Cluster;

const METRICS: &str = "127.0.0.1:10249";
/// A change that is not in the kernel by then never will be.
const LIMIT: Duration = Duration::from_secs(10);
/// Between two changes it is quiet for so long: each is a single one.
const QUIET: Duration = Duration::from_millis(50);

/// One node with its portway.
#[derive(Debug)]
pub(crate) struct Node {
    namespace: Namespace,
    folder: PathBuf,
    portway: Option<Child>,
}

impl Node {
    /// A node whose loopback works.
    pub(crate) fn new() -> Result<Self> {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("portway-apiserver-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).context("cannot make a folder")?;
        let namespace = Namespace::create()?;
        let mut command = Command::new("ip");
        command.args(["link", "set", "lo", "up"]);
        ensure!(namespace.spawn(command)?.wait()?.success(), "loopback cannot be set up");
        Ok(Self { namespace, folder, portway: None })
    }

    /// Does something in its network.
    pub(crate) fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T> {
        Ok(self.namespace.run(work)?)
    }

    /// Starts a portway and returns how long it took until it was in sync.
    pub(crate) fn start(&mut self, url: &str, services: u32, arguments: &[&str]) -> Result<Duration> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_portway"));
        command.args(["run", "--master", url, "--run-dir", "run", "--node-name", "a"]);
        command.args([
            "--sync-period",
            "1h",
            "--healthz-bind-address",
            "",
            "--metrics-bind-address",
            METRICS,
        ]);
        // These are settings of the whole machine.
        command.args(["--conntrack-max-per-core", "0", "--conntrack-tcp-timeout-established", "0s"]);
        command.args(["--conntrack-tcp-timeout-close-wait", "0s"]).args(arguments);
        command.current_dir(&self.folder).env_remove("PORTWAY_FROM").env("RUST_LOG", "error");
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let begun = Instant::now();
        let mut child = self.namespace.spawn(command)?;
        let out = child.stdout.take().context("it has no output")?;
        self.portway = Some(child);
        let mut line = String::new();
        BufReader::new(out).read_line(&mut line)?;
        let took = begun.elapsed();
        let count = format!("portway is in sync: {services} service ports");
        ensure!(line.starts_with(&count), "portway did not start: {line}");
        Ok(took)
    }

    /// From the moment before the server gets a change until the kernel tells of the transaction.
    pub(crate) fn time_change(&self, cluster: &Cluster, turn: u32) -> Result<Duration> {
        self.inside(|| {
            let mut monitor = Monitor::open()?;
            while monitor.next(QUIET)?.is_some() {}
            let begun = Instant::now();
            cluster.change(turn);
            while let Some(event) = monitor.next(LIMIT)? {
                if matches!(event, Event::Generation { .. } | Event::Lost) {
                    return Ok(begun.elapsed());
                }
            }
            anyhow::bail!("a change was not written within {} s", LIMIT.as_secs())
        })?
    }

    /// A figure of its metrics.
    pub(crate) fn metric(&self, name: &str) -> Result<f64> {
        let page = self.inside(|| -> std::io::Result<String> {
            let mut stream = TcpStream::connect(METRICS)?;
            stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")?;
            let mut page = String::new();
            stream.read_to_string(&mut page)?;
            Ok(page)
        })??;
        let value = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.and_then(|value| value.parse().ok()).with_context(|| format!("no metric {name}"))
    }

    /// A memory figure of the portway, such as `VmRSS` or `VmHWM`, in MiB.
    pub(crate) fn memory_mib(&self, field: &str) -> Option<f64> {
        let process = self.portway.as_ref()?.id();
        let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
        Some(line.trim().trim_end_matches(" kB").parse::<f64>().ok()? / 1024.0)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(mut child) = self.portway.take() {
            // One that has ended already needs no end.
            let _ = child.kill().and_then(|()| child.wait());
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
