//! The program under show: one runs on each node, and others ask it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use playground::{Node, Process};

use crate::explained::Explained;
use crate::folder::{MANIFESTS, SPARE_FILE};

/// What this cluster is like: its pods' networks, and what Services are given.
const CLUSTER: &str = "--cluster-cidr 10.244.0.0/16,192.168.125.0/24,172.17.0.0/16,fd00:10:244::/48 \
                       --service-cidr 10.96.0.0/12,fd00:10:96::/112 --load-balancer-cidr 198.51.100.0/28";
/// A portway that is not in sync by then never will be.
const START_LIMIT: Duration = Duration::from_secs(20);

/// A built portway, and the folder that holds its files.
pub(crate) struct Portway {
    program: PathBuf,
    folder: PathBuf,
}

impl Portway {
    pub(crate) fn new(program: PathBuf, folder: &Path) -> Self {
        Self { program, folder: folder.to_owned() }
    }

    pub(crate) fn program(&self) -> &Path {
        &self.program
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The folder of the portway that runs on this node.
    pub(crate) fn run_dir(&self, node: &str) -> PathBuf {
        self.folder.join(format!("run-{node}"))
    }

    /// Runs it on a node; the kernel there serves all Services when this returns.
    pub(crate) fn run_on(&self, node: &Node) -> Result<Process> {
        let name = node.place().name();
        let mut command = self.command("run");
        command.args(CLUSTER.split_whitespace()).args(["--node-name", name]);
        command.arg("--from").arg(self.folder.join(MANIFESTS)).arg("--run-dir").arg(self.run_dir(name));
        let process = node.spawn(command)?;
        if process.wait_for_line("portway is in sync", START_LIMIT).is_none() {
            bail!("portway on node {name} does not get in sync; it said:\n{}", process.output().join("\n"));
        }
        Ok(process)
    }

    /// The fate of a packet, in the words of the portway that runs on this node.
    pub(crate) fn explain(&self, node: &str, question: &str) -> Result<Explained> {
        Explained::read(&self.ask(node, &format!("explain {question} -o json"))?)
    }

    /// What the portway that runs on this node answers.
    pub(crate) fn ask(&self, node: &str, arguments: &str) -> Result<String> {
        let mut command = Command::new(&self.program);
        command.args(arguments.split_whitespace()).arg("--run-dir").arg(self.run_dir(node));
        output(command, arguments)
    }

    /// What the manifests say, the spare pod among them.
    pub(crate) fn read_manifests(&self, arguments: &str) -> Result<String> {
        let mut command = self.command(arguments);
        command
            .arg("--from")
            .arg(self.folder.join(MANIFESTS))
            .arg("--from")
            .arg(self.folder.join(SPARE_FILE));
        output(command, arguments)
    }

    /// Both nodes share one memory of given addresses, as the nodes of a cluster share its API server.
    fn command(&self, arguments: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.args(arguments.split_whitespace()).arg("--state-dir").arg(self.folder.join("state"));
        command
    }
}

fn output(mut command: Command, arguments: &str) -> Result<String> {
    let output = command.stdin(Stdio::null()).output().context("cannot start portway")?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("`portway {arguments}` failed ({}): {}", output.status, said.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
