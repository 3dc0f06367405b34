//! Figures for programs: what `/metrics` shows.
//!
//! ```text
//!   events, outcomes ──► Recorder ──┐
//!   the loop ──► Gauges ────────────┴─► Metrics ──┐
//!   probes, the relay, /proc ─────────────────────┴──► Scrape ──► text
//! ```
//!
//! Upstream's metrics have upstream's names, types, labels, buckets and help, so that dashboards and alerts keep working; ours begin
//! with `portway_`. An observation is a few additions; everything else is done for who asks. docs/decisions/0019 says why the text
//! is written here and not by a crate.
//!
//! | file | what it is for |
//! |---|---|
//! | `text` | the text format: families, samples, escapes, and an end to its length |
//! | `histogram` | counts by size |
//! | `recorder` | what is counted while the loop runs |
//! | `upstream` | the metrics of kube-proxy |
//! | `own` | ours |
//! | `process` | those that every program has |
//! | `slis` | the page of checks |
//!
//! Absent on purpose: decisions. The loop counts, and tells of it in its status; nothing that it does depends on a count.

mod histogram;
mod own;
mod process;
mod recorder;
mod slis;
mod text;
mod upstream;

use std::collections::BTreeMap;

use dataplane::Counted;
use dataplane::checks::Severity;
use model::Family;

pub use recorder::{Metrics, Pass, Probe, Probes, Recorder};
pub use slis::slis;

use dataplane::Mode;

use crate::traffic::Traffic;
use text::Page;

/// What the loop knows at the moment, as figures.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gauges {
    /// Something waits to be written.
    pub is_pending: bool,
    /// Service ports in the table.
    pub service_ports: usize,
    /// Those of them with a policy `Local` and no endpoint here, by policy and family.
    pub without_local: WithoutLocal,
    /// Service ports that the kernel refused.
    pub refused: usize,
    /// Service ports that are in force though something is wrong with them.
    pub warned: usize,
    /// Files and fields of objects that have something wrong.
    pub problems: usize,
    /// The worst finding of each check of this host.
    pub findings: BTreeMap<&'static str, Severity>,
    /// Listeners that cannot be opened.
    pub not_listening: usize,
    /// Programs that come back again and again.
    pub fighting: usize,
    /// When the picture last changed, counted from the start of the process.
    pub changed_at: Option<std::time::Duration>,
    /// When the API server last said something about the part of the picture of which it has said nothing for longest, counted so.
    pub heard_at: Option<std::time::Duration>,
}

/// How many service ports have a policy `Local` and no endpoint here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WithoutLocal {
    /// By `internalTrafficPolicy`.
    pub internal: model::ByFamily<usize>,
    /// By `externalTrafficPolicy`.
    pub external: model::ByFamily<usize>,
}

/// Everything that a page is made of.
#[derive(Debug)]
pub struct Scrape<'a> {
    /// The mode.
    pub mode: Mode,
    /// The families that are served.
    pub families: &'a [Family],
    /// What was counted, and what the loop knows.
    pub metrics: &'a Metrics,
    /// Who asked for health.
    pub probes: &'a Probes,
    /// Whether `/healthz` would say so.
    pub is_healthy: bool,
    /// How long the process runs.
    pub uptime: std::time::Duration,
    /// What the relay has carried.
    pub traffic: &'a [Traffic],
    /// What the mode has counted.
    pub counted: &'a Counted,
}

/// The content type of a page.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A page, as Prometheus reads it.
pub fn page(scrape: &Scrape<'_>) -> String {
    let mut page = Page::default();
    upstream::write(&mut page, scrape);
    own::write(&mut page, scrape);
    process::write(&mut page);
    page.finish()
}
