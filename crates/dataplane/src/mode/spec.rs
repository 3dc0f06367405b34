//! What a mode's folder says about the mode: the one trait that each implements.
//!
//! In: settings, a forwarding table. Out: an opened dataplane, rules as text, leftovers, and what the mode has to say about itself to the
//! command line, the config file, `status` and `/metrics`.
//!
//! Absent on purpose: any particular mode.

use kernel::host::Address;
use kernel::xtables::Variant;
use model::Promises;
use serde_json::Value;

use super::{
    Behaviour, Deployment, ModeSettings, OpenError, OpenRequest, Opened, RenderRequest, Sections,
    TrafficSource,
};
use crate::Leaving;
use crate::checks::Check;
use crate::leftovers::Leftovers;
use crate::served::{Served, ServingSign};
use crate::settings::{Setting, Values};
use crate::upstream::{ChainSet, DEFAULT_SECTION};

/// Whether an address of this host is a Service's, and not the host's own.
pub type IsOfAService = Box<dyn Fn(&Address) -> bool>;

/// What a mode's folder says about the mode.
pub trait ModeSpec: Sync {
    /// Its name on the command line and in the config file.
    fn name(&self) -> &'static str;

    fn aliases(&self) -> &'static [&'static str] {
        &[]
    }

    /// What it is, for `--help`.
    fn about(&self) -> &'static str;

    /// What it does where Kubernetes leaves the choice. docs/parity.md has a row for each.
    fn semantics(&self) -> Promises;

    /// The preconditions of this mode alone.
    fn checks(&self) -> &'static [Check] {
        &[]
    }

    fn settings(&self) -> &'static [Setting] {
        &[]
    }

    /// What is wrong with an annotation of a Service that this mode reads; nothing, where it reads it not.
    fn objection_to_annotation(&self, _name: &str, _value: &str) -> Option<String> {
        None
    }

    /// Which sections of upstream's config file say the pace, and whose source is hidden. For modes that upstream does not have it is the
    /// section of its default mode.
    fn sections(&self) -> Sections {
        Sections { pace: DEFAULT_SECTION, masquerade: DEFAULT_SECTION, localhost: None }
    }

    /// The feature gate of upstream's that must be on for this mode.
    fn upstream_gate(&self) -> Option<&'static str> {
        None
    }

    /// What is wrong with this bit for the mark of packets whose source is hidden.
    fn objection_to_masquerade_bit(&self, _bit: i64) -> Option<&'static str> {
        None
    }

    /// Command lines of `portway render` for `--help`, without these two words.
    fn render_examples(&self) -> &'static [&'static str] {
        &[]
    }

    /// What `portway cleanup` removes, for `--help`.
    fn cleanup_about(&self) -> &'static str {
        "all that the mode has ever written"
    }

    /// Whether these settings have rules of the mode serve node ports on 127.0.0.0/8.
    fn serves_localhost_by_rules(&self, _own: &Values) -> bool {
        false
    }

    /// Opens the mode on this host's kernel. Nothing is written.
    fn open(&self, request: &OpenRequest<'_>) -> Result<Opened, OpenError>;

    /// What a first sync would write, as text.
    fn render(&self, request: &RenderRequest<'_>) -> String;

    /// Why this kernel cannot be compared with a table, where that is so.
    fn cannot_compare(&self) -> Option<String> {
        None
    }

    /// Makes the settings of the kernel that need more privileges than a run has. Returns what was done, a line each.
    fn prepare(&self, _settings: &ModeSettings) -> Result<Vec<String>, String> {
        Ok(Vec::new())
    }

    /// Are these rules of this mode, which writes with this program? Without a program, with any.
    fn owns(&self, _served: Served, _program: Option<Variant>) -> bool {
        false
    }

    /// What in a kernel shows that it serves, in whichever process.
    fn serving_sign(&self) -> Option<ServingSign> {
        None
    }

    /// The chains of iptables that it writes, where it writes some.
    fn chains(&self) -> Option<&'static ChainSet> {
        None
    }

    /// What the mode leaves in a kernel, found and removed.
    fn leftovers(&self) -> Box<dyn Leftovers>;

    /// Whether it has a section of the status.
    fn has_status(&self) -> bool {
        false
    }

    /// Its section of the status, which has the mode's name.
    fn status(&self, _settings: &ModeSettings, _draining: Option<Leaving>) -> Option<Value> {
        None
    }

    /// The section of the status for people: names and values.
    fn status_lines(&self, _section: &Value) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    /// What was chosen for the process that told this section of the status.
    fn values_of_status(&self, _section: &Value) -> Values {
        Values::default()
    }

    /// Upstream's metrics that not every mode has, by name.
    fn upstream_metrics(&self) -> &'static [&'static str] {
        &[]
    }

    /// Whether [`Dataplane::counted`](crate::Dataplane::counted) has something to say, so that each scrape asks.
    fn counts_for_metrics(&self) -> bool {
        false
    }

    /// Who counts what was carried.
    fn traffic_source(&self) -> TrafficSource {
        TrafficSource::Relay
    }

    /// The interface whose addresses are all Services', where the mode makes one.
    fn service_interface(&self) -> Option<&'static str> {
        None
    }

    /// Addresses that the mode, in whichever process, gave this host for Services. `None` when the kernel does not tell.
    fn service_addresses(&self) -> Option<IsOfAService> {
        Some(Box::new(|_| false))
    }

    /// What of its work clients notice beyond [`Self::semantics`].
    fn behaviour(&self) -> Behaviour {
        Behaviour::default()
    }

    /// How it is deployed, the usual way first: each is an overlay in `deploy/`, and a way through the packet tests.
    fn deployments(&self) -> &'static [Deployment];

    /// The mode on simulated nodes to which nothing was written yet: one for each program that it may write with, and the one that
    /// scenarios ask first.
    #[cfg(feature = "sim")]
    fn simulate(&self, _settings: &ModeSettings) -> Vec<Box<dyn crate::sim::SimulatedMode>> {
        Vec::new()
    }

    /// The mode on handles of a real kernel and a simulated one, where it takes such. It serves no node ports on localhost then.
    #[cfg(feature = "sim")]
    fn on_pairs(&self) -> Option<crate::sim::OnPairs> {
        None
    }

    /// In no program that is handed out.
    fn is_test_only(&self) -> bool {
        false
    }
}
