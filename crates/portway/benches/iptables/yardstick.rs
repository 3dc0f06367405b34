//! The yardsticks: what a change costs at least, and what it costs with upstream's habit.
//!
//! Upstream rewrites `KUBE-SERVICES` whole at each change, with the chains of the services that changed, in one restore. Here
//! this happens right after our own change and with the same rules, so that the table is as we left it. Upstream writes more
//! than that, the fixed chains of `filter` too, so the comparison is a mild one.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use dataplane::iptables::{Chain, Options, PortRules, Renderer, TO_SERVICES};
use kernel::xtables::{Family, Programs, Xtables as _};
use model::{ForwardingTable, ServiceName};

use crate::programs::Program;

/// A chain of nobody's.
const CHAIN: &str = "PORTWAY-BENCH";

/// A door of its own to the same tables.
pub(crate) struct Yardstick {
    door: Programs,
}

impl Yardstick {
    /// Makes the chain for the bare restores.
    pub(crate) fn new(program: Program) -> Result<Self> {
        let mut found = Programs::find();
        let mut door = found.door(program.variant(), Family::V4).context("the program has gone")?.clone();
        door.restore(&format!("*nat\n:{CHAIN} - [0:0]\nCOMMIT\n"))?;
        Ok(Self { door })
    }

    /// One rule more, in a chain that is nearly empty.
    pub(crate) fn bare(&mut self) -> Result<Duration> {
        self.restore(&format!(
            "*nat\n-A {CHAIN} -d 10.96.0.1/32 -p tcp -m tcp --dport 80 -j RETURN\nCOMMIT\n"
        ))
    }

    /// Restores a text.
    pub(crate) fn restore(&mut self, text: &str) -> Result<Duration> {
        let start = Instant::now();
        self.door.restore(text)?;
        Ok(start.elapsed())
    }
}

/// The chains of a service as they are, or nothing if it is not there.
pub(crate) fn chains(table: &ForwardingTable, service: &ServiceName) -> Vec<Chain> {
    let options = Options::default();
    let renderer = Renderer::new(table, model::Family::V4, &options);
    let ports = table.ports().filter(|port| port.id().service == *service);
    ports.flat_map(|port| renderer.of_port(port).own).collect()
}

/// What upstream would restore when a service's chains go from `before` to what they are now.
pub(crate) fn habit(table: &ForwardingTable, service: &ServiceName, before: &[Chain]) -> String {
    let options = Options::default();
    let renderer = Renderer::new(table, model::Family::V4, &options);
    let now = chains(table, service);
    let services = table.ports().map(|port| renderer.of_port(port)).flat_map(|rules| of_services(&rules));
    let base = renderer.base();
    let services = services.chain(base.last.iter().map(ToString::to_string));
    let kept: BTreeSet<&str> = now.iter().map(|chain| chain.name.as_str()).collect();
    let gone: Vec<&Chain> = before.iter().filter(|chain| !kept.contains(chain.name.as_str())).collect();
    let mut text = String::from("*nat\n:KUBE-SERVICES - [0:0]\n");
    let chains = now.iter().chain(gone.iter().copied());
    let declared = chains.map(|chain| format!(":{} - [0:0]", chain.name));
    let services = services.map(|rule| format!("-A KUBE-SERVICES {rule}"));
    let own =
        now.iter().flat_map(|chain| chain.rules.iter().map(move |rule| format!("-A {} {rule}", chain.name)));
    let deleted = gone.iter().map(|chain| format!("-X {}", chain.name));
    for line in declared.chain(services).chain(own).chain(deleted) {
        text.push_str(&line);
        text.push('\n');
    }
    text.push_str("COMMIT\n");
    text
}

fn of_services(rules: &PortRules) -> Vec<String> {
    rules.shared.get(&TO_SERVICES).into_iter().flatten().map(ToString::to_string).collect()
}
