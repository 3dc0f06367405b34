//! The program that is handed out.

use std::path::PathBuf;

use anyhow::{Result, ensure};

use super::output;
use crate::cargo::{cargo, target_dir};

/// Needs no C library of the machine it runs on.
const STATIC: &str = "x86_64-unknown-linux-musl";

pub(super) struct Binary {
    pub(super) path: PathBuf,
    /// Such as `x86_64-unknown-linux-gnu`.
    pub(super) target: String,
    pub(super) is_static: bool,
}

/// Builds it, static where that target is installed.
pub(super) fn build() -> Result<Binary> {
    let is_static = has_target(STATIC);
    let mut command =
        cargo(&["build", "--quiet", "--profile", "dist", "--package", "portway", "--bin", "portway"]);
    let mut folder = target_dir()?;
    if is_static {
        command.args(["--target", STATIC]);
        folder.push(STATIC);
    }
    ensure!(command.status()?.success(), "portway could not be built");
    let target = if is_static { STATIC.to_owned() } else { own_target()? };
    Ok(Binary { path: folder.join("dist/portway"), target, is_static })
}

fn has_target(target: &str) -> bool {
    let listed = std::process::Command::new("rustup").args(["target", "list", "--installed"]).output();
    listed.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).lines().any(|line| line == target))
}

fn own_target() -> Result<String> {
    let text = output(std::process::Command::new("rustc").arg("-vV"))?;
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.unwrap_or("linux").to_owned())
}
