//! A namespace, a file of Services, and the portways that run on them.

use std::io::{BufRead as _, BufReader};
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use playground::namespace::Namespace;
use serde_json::{Value, json};

/// Endpoints of each Service.
const ENDPOINTS: u32 = 4;
/// Services in each file.
const FILE: u32 = 5_000;

/// One node with its portways; the last of them is the one that holds it.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) namespace: Namespace,
    services: u32,
    folder: PathBuf,
    portways: Vec<Child>,
}

impl Node {
    /// A node whose file holds so many Services.
    pub(crate) fn new(services: u32) -> Result<Self> {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("portway-moments-{}-{number}", std::process::id()));
        std::fs::create_dir_all(folder.join("manifests")).context("cannot make a folder")?;
        for first in (0..services).step_by(FILE as usize) {
            let numbers = first..services.min(first + FILE);
            let items: Vec<Value> = numbers.flat_map(|n| [service(n), slice(n)]).collect();
            let list = json!({ "apiVersion": "v1", "kind": "List", "items": items });
            let file = folder.join("manifests").join(format!("{first}.json"));
            std::fs::write(file, list.to_string()).context("cannot write the Services")?;
        }
        Ok(Self { namespace: Namespace::create()?, services, folder, portways: Vec::new() })
    }

    /// Starts a portway and returns how long it took until it was in sync. Those that were there before go then.
    pub(crate) fn start(&mut self, arguments: &[&str]) -> Result<Duration> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_portway"));
        command.args(["run", "--from", "manifests", "--run-dir", "run", "--state-dir", "state"]);
        command.args(["--node-name", "a", "--sync-period", "1h"]).args(arguments);
        command.current_dir(&self.folder).env_remove("PORTWAY_FROM").env("RUST_LOG", "error");
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let begun = Instant::now();
        let mut child = self.namespace.spawn(command)?;
        let out = child.stdout.take().context("it has no output")?;
        let mut line = String::new();
        BufReader::new(out).read_line(&mut line)?;
        let took = begun.elapsed();
        self.stop()?;
        self.portways.push(child);
        let count = format!("portway is in sync: {} service ports", self.services);
        ensure!(line.starts_with(&count), "portway did not start: {line}");
        Ok(took)
    }

    /// Kills all, as a crash would.
    pub(crate) fn kill(&mut self) -> Result<()> {
        self.stop()
    }

    /// Ends all. Whoever ends says nothing that we need to wait for.
    pub(crate) fn stop(&mut self) -> Result<()> {
        for mut child in self.portways.drain(..) {
            child.kill()?;
            child.wait()?;
        }
        Ok(())
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // What is left in the folder of temporary files harms nobody.
        let _ = self.stop();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// The cluster IP of a Service.
pub(crate) fn cluster_ip(n: u32) -> Ipv4Addr {
    Ipv4Addr::from(0x0a60_0100 + n)
}

fn service(n: u32) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": { "name": format!("s{n}"), "namespace": "default" },
        "spec": { "clusterIP": cluster_ip(n), "ports": [{ "port": 80 }] },
    })
}

fn slice(n: u32) -> Value {
    let ip = |i| Ipv4Addr::from(0x0a80_0000 + n * ENDPOINTS + i);
    let endpoints: Vec<Value> = (0..ENDPOINTS).map(|i| json!({ "addresses": [ip(i)] })).collect();
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {
            "name": format!("s{n}-1"), "namespace": "default",
            "labels": { "kubernetes.io/service-name": format!("s{n}") },
        },
        "ports": [{ "port": 8080 }], "endpoints": endpoints,
    })
}
