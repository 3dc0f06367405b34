//! Cold sync: from facts in memory to a kernel that has them all.

use anyhow::Result;
use model::facts::Fact;
use playground::namespace::Namespace;
use serde::{Deserialize, Serialize};

use crate::facts;
use crate::process::{Cpu, thread_waited_ms};
use crate::proxy::Proxy;

/// One cold sync, in a process and a namespace of its own.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[expect(clippy::struct_field_names, reason = "they all have a unit, and the names go into the JSON file")]
pub(crate) struct Cold {
    /// Facts → table.
    pub(crate) model_ms: f64,
    /// Table → the kernel's last acknowledgement.
    pub(crate) kernel_ms: f64,
    /// CPU in this process.
    pub(crate) user_ms: f64,
    /// CPU in the kernel on its behalf.
    pub(crate) system_ms: f64,
    /// How much of the wall time others had all cores.
    pub(crate) waited_ms: f64,
}

impl Cold {
    /// Facts → the kernel's last acknowledgement.
    pub(crate) fn wall_ms(&self) -> f64 {
        self.model_ms + self.kernel_ms
    }
}

/// Measures one.
pub(crate) fn measure(services: u32) -> Result<Cold> {
    let namespace = Namespace::create()?;
    let facts: Vec<Fact> = facts::cluster(services).collect();
    let (before, waited_before) = (Cpu::own()?, thread_waited_ms()?);
    let (_proxy, model, kernel) = Proxy::start(&namespace, facts.into_iter())?;
    let (cpu, waited_ms) = (Cpu::own()?.since(before), thread_waited_ms()? - waited_before);
    let (model_ms, kernel_ms) = (model.as_secs_f64() * 1e3, kernel.as_secs_f64() * 1e3);
    Ok(Cold { model_ms, kernel_ms, user_ms: cpu.user_ms, system_ms: cpu.system_ms, waited_ms })
}
