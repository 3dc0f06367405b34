//! The Debian package: the program, a systemd unit for machines without a cluster, and what a user reads first.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use super::binary::Binary;
use super::tree::{self, Tree};
use super::{VERSION, output};
use crate::cargo::root;

/// Builds it and says where it lies.
pub(super) fn build(binary: &Binary, folder: &Path, epoch: u64) -> Result<PathBuf> {
    let architecture = output(Command::new("dpkg").arg("--print-architecture"))?.trim().to_owned();
    let stage = folder.with_file_name("dist-deb");
    let tree = Tree::new(&stage)?;
    tree.copy(&binary.path, "/usr/bin/portway", 0o755)?;
    tree.copy(&root().join("deploy/systemd/portway.service"), "/lib/systemd/system/portway.service", 0o644)?;
    tree.folder("/etc/portway/services")?;
    let docs = [("README.md", "README.md"), ("CHANGELOG.md", "CHANGELOG.md"), ("LICENSE", "copyright")];
    for (file, name) in docs {
        tree.copy(&root().join(file), &format!("/usr/share/doc/portway/{name}"), 0o644)?;
    }
    let completions = output(Command::new(&binary.path).args(["completions", "bash"]))?;
    tree.write(completions.as_bytes(), "/usr/share/bash-completion/completions/portway", 0o644)?;
    let kib =
        tree::files(&stage)?.iter().filter_map(|file| Some(fs::metadata(file).ok()?.len())).sum::<u64>()
            / 1024;
    tree.write(control(binary, &architecture, kib)?.as_bytes(), "/DEBIAN/control", 0o644)?;
    let package = folder.join(format!("portway_{VERSION}_{architecture}.deb"));
    let mut command = Command::new("dpkg-deb");
    command.args(["--root-owner-group", "--build"]).arg(&stage).arg(&package);
    output(command.env("SOURCE_DATE_EPOCH", epoch.to_string()))?;
    fs::remove_dir_all(stage)?;
    Ok(package)
}

fn control(binary: &Binary, architecture: &str, kib: u64) -> Result<String> {
    let libraries = if binary.is_static { String::new() } else { format!("Depends: {}\n", c_library()?) };
    Ok(format!(
        "Package: portway\nVersion: {VERSION}\nArchitecture: {architecture}\nMaintainer: The Portway authors <security@portway.io>\n\
         Installed-Size: {kib}\n{libraries}Suggests: iptables\nSection: net\nPriority: optional\n\
         Description: a complete kube-proxy, with or without a cluster\n \
         Serves Kubernetes Services by the kernel: nftables, iptables, IPVS or userspace.\n \
         `systemctl enable --now portway` serves the manifests in /etc/portway/services.\n"
    ))
}

/// No older than that of the machine on which it was built.
fn c_library() -> Result<String> {
    let version = output(Command::new("dpkg-query").args(["-W", "-f", "${Version}", "libc6"]))?;
    let upstream = version.split('-').next().unwrap_or_default();
    Ok(format!("libc6 (>= {upstream}), libgcc-s1"))
}
