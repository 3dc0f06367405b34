//! The part of the demo that needs no root: portway's commands on `examples/`.
//!
//! In: the scenes below. Out: each command with what it prints, and a sentence on what to look at.
//!
//! The commands write nothing, and are kept from the addresses that a portway of this machine has given.

use crate::cargo::root;
use anyhow::{Context, Result, bail};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// One command of the demo.
struct Scene {
    title: &'static str,
    look_at: &'static str,
    /// What follows `portway`. `{cluster-ip}` stands for the cluster IP of `mysql-service`.
    arguments: &'static str,
}

/// What every command has. The examples have two Nodes, and are seen from the first one.
const SHARED: [&str; 4] = ["--from", "examples", "--node-name", "a"];

/// A state folder that no machine has: nothing is remembered.
const NO_STATE: &str = "/nonexistent/portway";

const SCENES: &[Scene] = &[
    Scene {
        title: "The Services",
        look_at: "No file gives mysql-service a cluster IP: this is the one that `portway run` would give it.",
        arguments: "get services -A -o wide",
    },
    Scene {
        title: "Where their connections may land",
        look_at: "The endpoints come from the Pods that each selector matches.",
        arguments: "get endpoints -A",
    },
    Scene {
        title: "The Pods",
        look_at: "IP and NODE, as kubectl shows them.",
        arguments: "get pods -A -o wide",
    },
    Scene {
        title: "One Service, closely",
        look_at: "The node port is open on every node; the endpoints are the two pods.",
        arguments: "describe service mysql-service",
    },
    Scene {
        title: "A pod dials the cluster IP",
        look_at: "Each pod gets an equal share; the reason names the object and the field.",
        arguments: "explain 10.244.1.5 {cluster-ip}:3306",
    },
    Scene {
        title: "A client outside dials the node port",
        look_at: "The same pods; masqueraded, so that the answer finds its way back through this node.",
        arguments: "explain outside 10.0.0.5:30964",
    },
    Scene {
        title: "Are the files in order?",
        look_at: "Every report, by object and field.",
        arguments: "check",
    },
];

/// Plays all scenes; an error when one of the commands failed.
pub(super) fn play(portway: PathBuf) -> Result<()> {
    let stage = Stage { portway };
    println!("`--node-name a` makes this machine the first of the two Nodes in examples/nodes.yaml.");
    println!(
        "Each command below also has `--state-dir {NO_STATE}`, so that no address of this machine is shown."
    );
    let cluster_ip = stage.cluster_ip()?;
    let mut failed = 0;
    for scene in SCENES {
        failed += usize::from(!stage.play(scene, &cluster_ip)?);
    }
    if failed > 0 {
        bail!("{failed} of {} commands failed: see above", SCENES.len());
    }
    println!("\nThat was portway without a cluster: change a file in examples/ and run it again.");
    Ok(())
}

/// What the scenes are played with.
struct Stage {
    portway: PathBuf,
}

impl Stage {
    /// Shows one scene; false when its command failed.
    fn play(&self, scene: &Scene, cluster_ip: &str) -> Result<bool> {
        let arguments = scene.arguments.replace("{cluster-ip}", cluster_ip);
        println!("\n== {} ==\n{}\n$ portway {arguments} {}", scene.title, scene.look_at, SHARED.join(" "));
        let status = self.portway(&arguments).status().context("cannot start portway")?;
        if !status.success() {
            println!("This was not meant to happen: {status}.");
        }
        Ok(status.success())
    }

    /// The address that portway would give to `mysql-service`.
    fn cluster_ip(&self) -> Result<String> {
        let output = self
            .portway("get services mysql-service -o json")
            .stderr(Stdio::inherit())
            .output()
            .context("cannot start portway")?;
        let json = String::from_utf8_lossy(&output.stdout);
        cluster_ip_in(&json).with_context(|| {
            format!("`portway get services mysql-service -o json` has no cluster IP:\n{json}")
        })
    }

    fn portway(&self, arguments: &str) -> Command {
        let mut command = Command::new(&self.portway);
        command.args(arguments.split_whitespace()).args(SHARED).args(["--state-dir", NO_STATE]);
        command.current_dir(root()).stdin(Stdio::null());
        command
    }
}

/// The first `"clusterIP": "…"` of a JSON text.
fn cluster_ip_in(json: &str) -> Option<String> {
    let (_, after) = json.split_once("\"clusterIP\"")?;
    let value = after.trim_start().strip_prefix(':')?.trim_start().strip_prefix('"')?;
    value.split_once('"').map(|(address, _)| address.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cluster_ip_is_read_from_json() {
        assert_eq!(cluster_ip_in("{\"spec\": {\"clusterIP\": \"10.96.0.7\"}}").as_deref(), Some("10.96.0.7"));
        assert_eq!(cluster_ip_in("{\"clusterIP\":\"10.96.0.7\"}").as_deref(), Some("10.96.0.7"));
        assert_eq!(cluster_ip_in("{\"clusterIPs\":[\"10.96.0.7\"]}"), None);
    }
}
