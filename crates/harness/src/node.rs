//! The real program in a network namespace of its own, whose loopback works.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use playground::namespace::Namespace;

/// A node with its portway.
#[derive(Debug)]
pub struct Node {
    pub namespace: Namespace,
    /// Where portway runs; it vanishes with the node.
    pub folder: PathBuf,
    program: &'static str,
    services: u32,
    portway: Option<Child>,
}

/// A namespace whose loopback is up. Without it the kernel has no table of its own addresses.
pub fn namespace() -> Result<Namespace> {
    let namespace = Namespace::create()?;
    namespace.run(|| ip(&["link", "set", "lo", "up"]))??;
    Ok(namespace)
}

/// Runs `ip` in this thread's namespace.
pub fn ip(arguments: &[&str]) -> Result<()> {
    let status = Command::new("ip").args(arguments).status().context("`ip` cannot be started")?;
    ensure!(status.success(), "`ip {}` failed", arguments.join(" "));
    Ok(())
}

impl Node {
    /// A node for this program, which will serve so many Services.
    pub fn new(program: &'static str, services: u32) -> Result<Self> {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("portway-bench-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).context("cannot make a folder")?;
        Ok(Self { namespace: namespace()?, folder, program, services, portway: None })
    }

    /// Starts `portway run` and returns how long it took until it was in sync. The one that was there before is killed then.
    pub fn start(&mut self, arguments: &[&str]) -> Result<Duration> {
        let begun = Instant::now();
        let mut child = self.namespace.spawn(command(self.program, &self.folder, arguments))?;
        let out = child.stdout.take().context("it has no output")?;
        let mut line = String::new();
        let read = BufReader::new(out).read_line(&mut line);
        let took = begun.elapsed();
        self.kill()?;
        self.portway = Some(child);
        read?;
        let expected = format!("portway is in sync: {} service ports", self.services);
        ensure!(line.starts_with(&expected), "portway did not start: {line}");
        Ok(took)
    }

    /// Kills portway, as a crash would.
    pub fn kill(&mut self) -> Result<()> {
        let Some(mut child) = self.portway.take() else { return Ok(()) };
        child.kill()?;
        child.wait()?;
        Ok(())
    }

    /// A memory figure of portway, such as `VmRSS` or `VmHWM`, in MiB.
    pub fn memory_mib(&self, field: &str) -> Result<f64> {
        let portway = self.portway.as_ref().context("portway does not run")?;
        crate::memory_mib(&portway.id().to_string(), field)
    }
}

fn command(program: &str, folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(["run", "--run-dir", "run", "--node-name", "a", "--sync-period", "1h"]).args(arguments);
    command.current_dir(folder).env_remove("PORTWAY_FROM").env("RUST_LOG", "error");
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    command
}

impl Drop for Node {
    fn drop(&mut self) {
        // What is left in the folder of temporary files harms nobody.
        let _ = self.kill();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
