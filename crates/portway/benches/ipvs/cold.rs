//! Cold load: from facts in memory to a kernel that has them all.

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::process::{Cpu, memory_mib};
use crate::proxy::{Proxy, Work};
use crate::tap::{self, Traffic};
use crate::{facts, node};

/// One cold load, in a process and a namespace of its own.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Cold {
    pub(crate) work: Work,
    /// CPU of this process.
    pub(crate) user_ms: f64,
    pub(crate) system_ms: f64,
    /// CPU of the iptables programs.
    pub(crate) programs_ms: f64,
    /// Resident memory afterwards: facts, table and what is known of the kernel.
    pub(crate) rss_mib: f64,
    /// The most until then.
    pub(crate) rss_peak_mib: f64,
}

/// What went over netlink, the iptables programs' part included.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Counted {
    pub(crate) work: Work,
    pub(crate) traffic: Traffic,
}

/// Measures one.
pub(crate) fn measure(services: u32) -> Result<Cold> {
    let namespace = node::namespace()?;
    let (own, children) = (Cpu::own()?, Cpu::children()?);
    let (_proxy, work) = namespace.run(|| Proxy::start(facts::cluster(services)))??;
    let (own, children) = (Cpu::own()?.since(own), Cpu::children()?.since(children));
    let memory = |field| memory_mib("self", field).context("the kernel tells no memory figures");
    Ok(Cold {
        work,
        user_ms: own.user_ms,
        system_ms: own.system_ms,
        programs_ms: children.user_ms + children.system_ms,
        rss_mib: memory("VmRSS")?,
        rss_peak_mib: memory("VmHWM")?,
    })
}

/// Counts what one says to the kernel and hears from it.
pub(crate) fn count(services: u32) -> Result<Counted> {
    let counted = node::namespace()?.run(|| tap::count(|| Proxy::start(facts::cluster(services))))?;
    let ((_proxy, work), traffic) = counted?;
    Ok(Counted { work, traffic })
}
