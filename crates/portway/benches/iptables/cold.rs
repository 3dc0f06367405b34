//! Cold sync: from facts in memory to a kernel that has them all; ours, and upstream's habit of one restore for all.

use std::time::Instant;

use anyhow::{Context, Result};
use dataplane::iptables::{Options, render};
use kernel::xtables::{Error, Family, Programs, Xtables as _};
use model::facts::Fact;
use model::{Cluster, Event, ForwardingTable};
use playground::namespace::Namespace;
use serde::{Deserialize, Serialize};

use crate::children::weigh;
use crate::facts;
use crate::process::memory_mib;
use crate::proxy::Proxy;
use crate::results::Program;

/// One cold sync, in a process and a namespace of its own.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Cold {
    /// Facts → in force.
    pub(crate) whole_ms: f64,
    /// Of it, while a program ran.
    pub(crate) program_ms: f64,
    /// Resident memory of ours afterwards, without the facts.
    pub(crate) rss_mib: f64,
    /// The most until then.
    pub(crate) rss_peak_mib: f64,
    /// The most that a program weighed.
    pub(crate) program_peak_mib: f64,
}

/// The same rules in one restore.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct AtOnce {
    /// `None` where the program was stopped by its time limit.
    pub(crate) took_ms: Option<f64>,
    pub(crate) lines: usize,
    pub(crate) program_peak_mib: f64,
}

/// Measures one of ours.
pub(crate) fn measure(program: Program, services: u32) -> Result<Cold> {
    let namespace = Namespace::create()?;
    let (started, program_peak_mib) =
        weigh(|| namespace.run(|| Proxy::start(program, facts::cluster(services))));
    let (_proxy, times) = started??;
    let memory = |field| memory_mib("self", field).context("the kernel tells no memory figures");
    Ok(Cold {
        whole_ms: times.whole.as_secs_f64() * 1e3,
        program_ms: times.program.as_secs_f64() * 1e3,
        rss_mib: memory("VmRSS")?,
        rss_peak_mib: memory("VmHWM")?,
        program_peak_mib,
    })
}

/// Measures the habit. Making the text is not counted.
pub(crate) fn at_once(program: Program, services: u32) -> Result<AtOnce> {
    let mut cluster = Cluster::new(facts::config());
    facts::cluster(services).for_each(|fact: Fact| drop(cluster.apply(Event::Apply(fact))));
    let text = render(&ForwardingTable::of(&cluster), model::Family::V4, &Options::default());
    let mut found = Programs::find();
    let door = found.door(program.variant(), Family::V4).context("the program has gone")?;
    let namespace = Namespace::create()?;
    let start = Instant::now();
    let (restored, program_peak_mib) = weigh(|| namespace.run(|| door.restore(&text)));
    let took_ms = start.elapsed().as_secs_f64() * 1e3;
    let took_ms = match restored? {
        Ok(()) => Some(took_ms),
        Err(Error::Hung { .. }) => None,
        Err(error) => return Err(error.into()),
    };
    Ok(AtOnce { took_ms, lines: text.lines().count(), program_peak_mib })
}
