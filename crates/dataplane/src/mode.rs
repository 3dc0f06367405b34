//! What everything outside a mode's folder knows of a mode: a value, whose answers the folder gives.
//!
//! In: settings, a forwarding table. Out: an opened dataplane, rules as text, leftovers of earlier processes, and what the mode has to
//! say about itself to the command line, the config file, `status` and `/metrics`.
//!
//! Absent on purpose: any particular mode. `registry.rs` is the list, which nothing here may know: modes use this file.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kernel::host::Address;
use kernel::xtables::{self, Variant};
use model::fate::Loopback;
use model::{Family, ForwardingTable, Promises};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::checks::{COMMON, Check};
use crate::leftovers::Leftovers;
use crate::localhost::{Choice, Localhost};
use crate::relay::Relays;
use crate::served::{Served, ServingSign};
use crate::settings::{Setting, Values};
use crate::upstream::{ChainSet, IPTABLES_SECTION, KnownChains};
use crate::{Dataplane, Leaving, Meddled};

/// The bit of the packet mark that hides sources, as upstream has it.
pub const MASQUERADE_BIT: u8 = 14;

/// A relay that a mode and its node ports on localhost share.
pub type SharedRelay = Arc<Mutex<dyn Relays + Send>>;

/// A mode of the registry.
#[derive(Clone, Copy)]
pub struct Mode(&'static dyn ModeSpec);

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
        Sections { pace: IPTABLES_SECTION, masquerade: IPTABLES_SECTION }
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

    /// Whether [`Dataplane::counted`] has something to say, so that each scrape asks.
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

/// Sections of upstream's config file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sections {
    /// `syncPeriod` and `minSyncPeriod`.
    pub pace: &'static str,
    /// `masqueradeAll` and `masqueradeBit`.
    pub masquerade: &'static str,
}

/// What a mode needs of the image and of the container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deployment {
    /// Its folder in `deploy/overlays`.
    pub overlay: &'static str,
    /// The iptables program that it writes with.
    pub program: Option<Variant>,
    /// Capabilities, without `CAP_`.
    pub capabilities: &'static [&'static str],
    /// Debian packages.
    pub packages: &'static [&'static str],
}

/// What of a mode's work clients notice beyond its semantics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "facts that have nothing to do with each other")]
pub struct Behaviour {
    /// The relay carries connections, which end with the process. Otherwise the kernel does, and they outlive it.
    pub relays_connections: bool,
    /// A TCP connection is refused by a reset. Otherwise by an ICMP error.
    pub refuses_by_reset: bool,
    /// What a host sends itself is refused on its way out where a Service has no endpoints, and on its way in where there is no such port:
    /// the sender hears that it may not send, or of an ICMP error.
    pub refuses_own_packets_in_two_ways: bool,
    /// A segment far ahead of the TCP window resets no connection, also not one that is masqueraded or of this host itself.
    pub drops_all_stray_segments: bool,
    /// A client is not forgotten before the kernel has forgotten its last connection, minutes after its end.
    pub affinity_waits_for_connections: bool,
    /// The file that says how many clients an endpoint's affinity has room for. Without one there is room for all.
    pub affinity_limit: Option<&'static str>,
    /// Modules that not every kernel has.
    pub kernel_modules: &'static [&'static str],
}

/// Who counts what was carried for a service port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrafficSource {
    /// The relay, for what goes through it.
    Relay,
    /// The kernel: [`Dataplane::carried`].
    Kernel,
}

/// What the operator chose for a mode.
#[derive(Clone, Debug)]
pub struct ModeSettings {
    pub mode: Mode,
    /// How node ports answer on this host's loopback addresses.
    pub localhost_node_ports: LocalhostNodePorts,
    /// The bit of the packet mark that says: hide the source of this connection.
    pub masquerade_bit: u8,
    /// The mode's own settings.
    pub own: Values,
}

/// How node ports answer on this host's loopback addresses, where `nodePortAddresses` covers them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum LocalhostNodePorts {
    /// On 127.0.0.1 and `::1`: the relay listens there.
    #[default]
    Listening,
    /// On 127.0.0.0/8 by the mode's own rules, with `route_localnet`, and on `::1` by listening.
    ByRules,
    /// Nowhere.
    Nowhere,
}

impl ModeSettings {
    /// A mode for which nothing was chosen.
    pub fn of(mode: Mode) -> Self {
        Self {
            mode,
            localhost_node_ports: LocalhostNodePorts::default(),
            masquerade_bit: MASQUERADE_BIT,
            own: Values::default(),
        }
    }

    /// What the mode does where Kubernetes leaves the choice.
    pub fn semantics(&self) -> Promises {
        let semantics = self.mode.semantics();
        let loopback_node_ports = match self.localhost_node_ports {
            LocalhostNodePorts::Listening => semantics.loopback_node_ports,
            LocalhostNodePorts::ByRules => Loopback::Both,
            LocalhostNodePorts::Nowhere => Loopback::Never,
        };
        Promises { loopback_node_ports, ..semantics }
    }

    pub fn masquerade_mark(&self) -> u32 {
        1_u32.checked_shl(self.masquerade_bit.into()).unwrap_or(1 << MASQUERADE_BIT)
    }
}

/// What to open.
#[derive(Clone)]
pub struct OpenRequest<'a> {
    pub settings: &'a ModeSettings,
    /// Carries what the mode does not leave to the kernel.
    pub relay: SharedRelay,
    /// The folder in which a running portway keeps what lasts until the machine restarts.
    pub run_dir: &'a Path,
    /// The chains of all modes: [`registry::known_chains`](crate::registry::known_chains).
    pub known_chains: &'a KnownChains,
}

impl fmt::Debug for OpenRequest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenRequest").field("settings", self.settings).finish_non_exhaustive()
    }
}

/// What to render.
#[derive(Clone, Copy, Debug)]
pub struct RenderRequest<'a> {
    pub table: &'a ForwardingTable,
    /// The family, for modes whose text is of one.
    pub family: Family,
    pub settings: &'a ModeSettings,
    pub tracker: ConntrackSettings,
}

/// Settings of the connection tracker that decide rules.
#[derive(Clone, Copy, Debug, Default)]
pub struct ConntrackSettings {
    /// `nf_conntrack_tcp_be_liberal`.
    pub is_liberal: bool,
    /// `nf_conntrack_tcp_loose` is 0.
    pub is_strict: bool,
}

/// A mode that is ready to write.
pub struct Opened {
    pub dataplane: Box<dyn Dataplane>,
    /// How writes of other programs to what is ours are noticed.
    pub drift: Vec<DriftSource>,
    /// The iptables program that it writes with.
    pub program: Option<Variant>,
}

/// How writes of other programs to what is ours are noticed.
pub enum DriftSource {
    /// The kernel notifies of each.
    Events(Box<dyn ForeignWrites>),
    /// [`Dataplane::is_flushed`], as often as this.
    Poll(Duration),
    /// Changes of this host's links and addresses: the mode keeps some.
    HostEvents,
}

/// Hears of writes of other programs to what is ours.
pub trait ForeignWrites: Send {
    /// The next one; `None` after this long, or when what was heard is not about us. The error is a sentence.
    fn next(&mut self, limit: Duration) -> Result<Option<Meddled>, String>;
}

impl fmt::Debug for DriftSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Events(_) => f.write_str("Events"),
            Self::Poll(interval) => f.debug_tuple("Poll").field(interval).finish(),
            Self::HostEvents => f.write_str("HostEvents"),
        }
    }
}

impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opened")
            .field("drift", &self.drift)
            .field("program", &self.program)
            .finish_non_exhaustive()
    }
}

/// Why a mode cannot work on this host. Trying again does not help.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The kernel, a program or a privilege is missing.
    #[error("{0}")]
    Host(String),
    /// A setting of the kernel could not be written.
    #[error("cannot {action}: {source}")]
    System { action: &'static str, source: io::Error },
    /// Rules of another program stand before ours, in tables into which this process may not look.
    #[error(transparent)]
    Hidden(#[from] HiddenRules),
}

/// Rules of Services in legacy tables into which this process may not look.
#[derive(Debug, thiserror::Error)]
#[error(
    "rules of Services, upstream's or ours, are in tables of iptables-legacy, which may be asked \
     before all that {variant} writes, and this process may not touch them: give it CAP_NET_RAW (deploy/overlays/iptables-legacy), and \
     they are taken over; or remove them: {because}"
)]
pub struct HiddenRules {
    /// The program that would be used.
    pub variant: Variant,
    /// What the legacy program said.
    pub because: xtables::Error,
}

impl Mode {
    pub const fn new(spec: &'static dyn ModeSpec) -> Self {
        Self(spec)
    }

    /// The preconditions of this mode.
    pub fn checks(self) -> impl Iterator<Item = &'static Check> {
        self.0.checks().iter().chain(COMMON)
    }

    /// Opens the mode, with node ports on localhost beside it.
    pub fn open(self, request: &OpenRequest<'_>) -> Result<Opened, OpenError> {
        let opened = self.0.open(request)?;
        let families = match request.settings.localhost_node_ports {
            LocalhostNodePorts::Listening => Family::ALL.to_vec(),
            LocalhostNodePorts::ByRules => vec![Family::V6],
            LocalhostNodePorts::Nowhere => Vec::new(),
        };
        let default_node_port_addresses = self.semantics().default_node_port_addresses;
        let choice = Choice { families, default_node_port_addresses };
        let dataplane = Box::new(Localhost::new(opened.dataplane, request.relay.clone(), choice));
        Ok(Opened { dataplane, ..opened })
    }

    /// The setting of this mode that has this flag.
    pub fn setting(self, flag: &str) -> Option<&'static Setting> {
        self.settings().iter().find(|setting| setting.flag == flag)
    }

    /// Whether a setting of this mode has this field of the config file.
    pub fn has_field(self, path: &str) -> bool {
        self.settings().iter().any(|setting| setting.field.is_some_and(|field| field.path == path))
    }

    /// Whether it has this one of upstream's metrics.
    pub fn has_metric(self, name: &str) -> bool {
        self.upstream_metrics().contains(&name)
    }
}

impl std::ops::Deref for Mode {
    type Target = dyn ModeSpec;

    fn deref(&self) -> &Self::Target {
        self.0
    }
}

impl PartialEq for Mode {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for Mode {}

impl fmt::Debug for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
