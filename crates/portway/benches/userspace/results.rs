//! One run of the benchmark, as it is stored.

use serde::Serialize;

use crate::machine::Machine;
use crate::samples::{Quantiles, Spread};

/// One run.
#[derive(Debug, Serialize)]
pub(crate) struct Results {
    pub(crate) machine: Machine,
    /// Each proxy and its version.
    pub(crate) peers: Vec<(String, String)>,
    /// How many files a process may have open here.
    pub(crate) files: u64,
    /// How long each measurement took.
    pub(crate) seconds: f64,
    pub(crate) measured: Vec<Measured>,
    pub(crate) idle: Vec<Idle>,
}

/// A proxy under load for some seconds.
#[derive(Debug, Serialize)]
pub(crate) struct Measured {
    pub(crate) round: usize,
    pub(crate) load: String,
    pub(crate) proxy: String,
    pub(crate) cpu_seconds: f64,
    /// Of clients and endpoints.
    pub(crate) ends_cpu_seconds: f64,
    pub(crate) figures: Figures,
}

/// What clients counted.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Figures {
    /// Bytes, connections, round trips or datagrams.
    pub(crate) units: u64,
    pub(crate) seconds: f64,
    pub(crate) latency: Option<Quantiles>,
    pub(crate) lost: u64,
}

/// A proxy with very many connections that do nothing.
#[derive(Debug, Serialize)]
pub(crate) struct Idle {
    pub(crate) proxy: String,
    pub(crate) connections: usize,
    pub(crate) before_kib: u64,
    pub(crate) after_kib: u64,
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
impl Measured {
    /// Units in a second.
    pub(crate) fn rate(&self) -> f64 {
        self.figures.units as f64 / self.figures.seconds
    }

    /// Microseconds of the proxy's processor time for a unit.
    pub(crate) fn cpu_us(&self) -> f64 {
        self.cpu_seconds * 1e6 / self.figures.units as f64
    }

    /// The same with that of clients and endpoints: what a unit costs the machine.
    pub(crate) fn whole_us(&self) -> f64 {
        (self.cpu_seconds + self.ends_cpu_seconds) * 1e6 / self.figures.units as f64
    }
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
impl Idle {
    pub(crate) fn kib_each(&self) -> f64 {
        self.after_kib.saturating_sub(self.before_kib) as f64 / self.connections as f64
    }
}

impl Results {
    /// All rounds of a proxy under a load.
    pub(crate) fn rounds<'a>(&'a self, load: &'a str, proxy: &'a str) -> impl Iterator<Item = &'a Measured> {
        self.measured.iter().filter(move |measured| measured.load == load && measured.proxy == proxy)
    }

    /// The median and the spread of a figure, if the proxy was under this load.
    pub(crate) fn spread(
        &self,
        load: &str,
        proxy: &str,
        figure: impl Fn(&Measured) -> f64,
    ) -> Option<Spread> {
        self.rounds(load, proxy).next()?;
        Some(Spread::of(self.rounds(load, proxy).map(figure)))
    }
}
