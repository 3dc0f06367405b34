//! A network namespace that is like a node as far as IPVS asks: its loopback is up. Without it the kernel has no table of its own
//! addresses, and takes every endpoint for a broadcast address.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use playground::namespace::Namespace;

/// Makes one.
pub(crate) fn namespace() -> Result<Namespace> {
    let namespace = Namespace::create()?;
    namespace.run(|| ip(&["link", "set", "lo", "up"]))??;
    Ok(namespace)
}

/// Runs `ip` in this thread's namespace.
pub(crate) fn ip(arguments: &[&str]) -> Result<()> {
    let status = Command::new("ip").args(arguments).status().context("`ip` cannot be started")?;
    ensure!(status.success(), "`ip {}` failed", arguments.join(" "));
    Ok(())
}
