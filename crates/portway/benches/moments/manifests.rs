//! The Services and EndpointSlices that portway reads, in files.

use std::net::Ipv4Addr;
use std::path::Path;

use anyhow::{Context, Result};
use harness::cluster::{ENDPOINTS, PORT};
use serde_json::{Value, json};

/// Has `portway run` read them.
pub(crate) const ARGUMENTS: [&str; 4] = ["--from", "manifests", "--state-dir", "state"];
/// Services in each file.
const FILE: u32 = 5_000;

/// Writes so many Services into a folder in which portway runs.
pub(crate) fn write(folder: &Path, services: u32) -> Result<()> {
    let folder = folder.join("manifests");
    std::fs::create_dir_all(&folder).context("cannot make a folder")?;
    for first in (0..services).step_by(FILE as usize) {
        let numbers = first..services.min(first + FILE);
        let items: Vec<Value> = numbers.flat_map(|n| [service(n), slice(n)]).collect();
        let list = json!({ "apiVersion": "v1", "kind": "List", "items": items });
        std::fs::write(folder.join(format!("{first}.json")), list.to_string())
            .context("cannot write the Services")?;
    }
    Ok(())
}

/// The cluster IP of a Service.
pub(crate) fn cluster_ip(n: u32) -> Ipv4Addr {
    Ipv4Addr::from(0x0a60_0100 + n)
}

fn service(n: u32) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": { "name": format!("s{n}"), "namespace": "default" },
        "spec": { "clusterIP": cluster_ip(n), "ports": [{ "port": PORT }] },
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
