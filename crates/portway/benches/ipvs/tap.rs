//! The netlink datagrams of a network namespace, as the kernel itself counts them: a link of the kind `nlmon` gets a copy of each.
//!
//! It sees what everybody in the namespace sends and hears, so the programs are counted by the same means. Copies cost time: what is
//! timed is done without it.

use anyhow::{Context, Result};
use harness::node::ip;
use serde::{Deserialize, Serialize};

const NAME: &str = "tap";

/// Datagrams, both ways. One may carry many messages.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Traffic {
    pub(crate) datagrams: u64,
    pub(crate) bytes: u64,
}

/// Does some work, with a tap on this thread's namespace; what it returned, and what was said meanwhile.
pub(crate) fn count<T>(work: impl FnOnce() -> Result<T>) -> Result<(T, Traffic)> {
    ip(&["link", "add", NAME, "type", "nlmon"])?;
    ip(&["link", "set", NAME, "up"])?;
    let before = read()?;
    let result = work()?;
    let after = read()?;
    ip(&["link", "delete", NAME])?;
    let traffic =
        Traffic { datagrams: after.datagrams - before.datagrams, bytes: after.bytes - before.bytes };
    Ok((result, traffic))
}

fn read() -> Result<Traffic> {
    let text = std::fs::read_to_string("/proc/thread-self/net/dev")?;
    let line = text.lines().find_map(|line| line.trim_start().strip_prefix(NAME)?.strip_prefix(':'));
    let mut fields = line.context("the tap is not listed")?.split_whitespace().map(str::parse);
    let mut next = || fields.next().context("the tap's line is short")?.context("the tap tells no numbers");
    let bytes = next()?;
    Ok(Traffic { bytes, datagrams: next()? })
}
