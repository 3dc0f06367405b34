//! The mode as the rest of the program sees it: opened on this host, rendered, found in a kernel and removed from it.

use std::path::Path;
use std::time::Instant;

use kernel::host::{Link, ThisMachine, links};
use kernel::ipset;
use kernel::xtables::{Programs, Variant};
use model::fate::{Loopback, Refusal, Remembered};
use model::{NodePortAddress, Promises};
use serde_json::Value;

use super::chain_set::CHAINS;
use super::leaving::LeavingServers;
use super::status::IpvsStatus;
use super::{Bound, CHECKS, DUMMY, Error, Ipvs, Kernel, names, own_settings, owns, render, scheduler};
use crate::Leaving;
use crate::checks::Check;
use crate::leftovers::Leftovers;
use crate::mode::{
    Behaviour, Deployment, DriftSource, IsOfAService, Mode, ModeSettings, ModeSpec, OpenError, OpenRequest,
    Opened, RenderRequest, Sections, TrafficSource,
};
use crate::programs;
use crate::served::{Served, ServingSign};
use crate::settings::{Setting, Values};
use crate::upstream::{self, ChainSet, KnownChains};

/// The mode, as a value.
pub const MODE: Mode = Mode::new(&Spec);

/// ipvs.
#[derive(Debug)]
struct Spec;

pub(super) const NAME: &str = "ipvs";

impl ModeSpec for Spec {
    fn name(&self) -> &'static str {
        NAME
    }

    fn about(&self) -> &'static str {
        "The kernel's virtual servers"
    }

    fn objection_to_annotation(&self, name: &str, value: &str) -> Option<String> {
        scheduler::objection_to_annotation(name, value)
    }

    fn semantics(&self) -> Promises {
        Promises {
            undefined_port_of_cluster_ip: Refusal::Reject,
            undefined_port_of_external_ip: Refusal::Reject,
            unallocated_service_ip: Refusal::Untouched,
            ping_of_cluster_ip: Refusal::Untouched,
            default_node_port_addresses: NodePortAddress::All,
            loopback_node_ports: Loopback::Localhost,
            link_local_node_ports: false,
            hairpin_of_other_nodes: false,
            keeps_source: true,
            affinity: Remembered::ForFrontend,
            carries_sctp: true,
        }
    }

    fn checks(&self) -> &'static [Check] {
        CHECKS
    }

    fn settings(&self) -> &'static [Setting] {
        own_settings::SETTINGS
    }

    /// As upstream has it, sources are hidden by the section of the mode whose rules hide them.
    fn sections(&self) -> Sections {
        Sections { pace: NAME, masquerade: upstream::DEFAULT_SECTION, localhost: None }
    }

    fn upstream_gate(&self) -> Option<&'static str> {
        Some("KubeProxyIPVS")
    }

    fn objection_to_masquerade_bit(&self, bit: i64) -> Option<&'static str> {
        matches!(bit, 0..=13 | 24)
            .then_some("must be none of 0 to 13 and 24: mode ipvs marks connections with these")
    }

    fn render_examples(&self) -> &'static [&'static str] {
        &["--mode ipvs --from examples            sets, virtual servers, rules and addresses"]
    }

    fn cleanup_about(&self) -> &'static str {
        "virtual servers, sets, addresses and rules, ours or upstream's"
    }

    fn open(&self, request: &OpenRequest<'_>) -> Result<Opened, OpenError> {
        let (dataplane, variant) = of_this_machine(request.settings, request.known_chains)?;
        let drift = vec![DriftSource::Poll(programs::POLL), DriftSource::HostEvents];
        Ok(Opened { dataplane: Box::new(dataplane), drift, program: Some(variant) })
    }

    fn render(&self, request: &RenderRequest<'_>) -> String {
        render(request.table, request.family, &own_settings::options(request.settings))
    }

    fn cannot_compare(&self) -> Option<String> {
        matches!(handles(), Err(Error::Servers(kernel::ipvs::Error::Missing))).then(|| {
            "this kernel has no IPVS, so there is nothing to compare: load the module `ip_vs` (`modprobe ip_vs`); `portway render --mode ipvs` \
             shows what would be written"
                .to_owned()
        })
    }

    fn prepare(&self, settings: &ModeSettings) -> Result<Vec<String>, String> {
        let strict_arp = own_settings::options(settings).strict_arp;
        let mut handles = handles().map_err(|error| error.to_string())?;
        let count = super::make_settings(&mut handles, strict_arp).map_err(|error| error.to_string())?;
        Ok((count > 0).then(|| format!("Made {count} settings of IPVS.\n")).into_iter().collect())
    }

    fn owns(&self, served: Served, program: Option<Variant>) -> bool {
        owns(served, program)
    }

    fn serving_sign(&self) -> Option<ServingSign> {
        Some(ServingSign::Chain(names::SERVICES))
    }

    fn chains(&self) -> Option<&'static ChainSet> {
        Some(&CHAINS)
    }

    fn leftovers(&self) -> Box<dyn Leftovers> {
        Box::new(LeavingServers::default())
    }

    fn has_status(&self) -> bool {
        true
    }

    fn status(&self, settings: &ModeSettings, leaving: Option<Leaving>) -> Option<Value> {
        serde_json::to_value(IpvsStatus::of(&own_settings::options(settings), leaving)).ok()
    }

    fn status_lines(&self, section: &Value) -> Vec<(&'static str, String)> {
        IpvsStatus::read(section).map(|status| status.lines()).unwrap_or_default()
    }

    fn values_of_status(&self, section: &Value) -> Values {
        IpvsStatus::read(section).map(|status| own_settings::values_of(&status)).unwrap_or_default()
    }

    fn upstream_metrics(&self) -> &'static [&'static str] {
        &["sync_proxy_rules_iptables_restore_failures_total"]
    }

    fn traffic_source(&self) -> TrafficSource {
        TrafficSource::Kernel
    }

    fn service_interface(&self) -> Option<&'static str> {
        Some(DUMMY)
    }

    fn service_addresses(&self) -> Option<IsOfAService> {
        let bound = bound()?;
        Some(Box::new(move |address| bound.has(address)))
    }

    fn behaviour(&self) -> Behaviour {
        Behaviour {
            refuses_own_packets_in_two_ways: true,
            affinity_waits_for_connections: true,
            kernel_modules: &["ip_vs"],
            ..Behaviour::default()
        }
    }

    fn deployments(&self) -> &'static [Deployment] {
        &[Deployment {
            overlay: NAME,
            program: Some(Variant::Nft),
            capabilities: &["NET_ADMIN", "NET_RAW"],
            packages: &[programs::PACKAGE],
        }]
    }

    #[cfg(feature = "sim")]
    fn simulate(&self, settings: &ModeSettings) -> Vec<Box<dyn crate::sim::SimulatedMode>> {
        super::sim::simulate(settings)
    }
}

/// The mode, with virtual servers, sets, addresses and settings of this machine; and its program.
fn of_this_machine(
    settings: &ModeSettings,
    known: &KnownChains,
) -> Result<(Ipvs<Programs, Handles>, Variant), OpenError> {
    // First what a kernel may lack: whoever has no IPVS need not install a program before hearing it.
    let kernel = handles().map_err(|error| OpenError::Host(error.to_string()))?;
    let (variant, programs) = programs::open(NAME, &settings.own, known)?;
    let began = Instant::now();
    Ok((Ipvs::new(programs, kernel, own_settings::options(settings), move || began.elapsed()), variant))
}

/// The handles of this mode on this machine.
pub type Handles =
    Kernel<kernel::ipvs::Netlink, kernel::ipset::Netlink, ThisMachine, kernel::sysctl::ThisMachine>;

/// Opens them.
pub fn handles() -> Result<Handles, Error> {
    Ok(Kernel {
        servers: kernel::ipvs::Netlink::open()?,
        sets: kernel::ipset::Netlink::open()?,
        host: ThisMachine,
        settings: kernel::sysctl::ThisMachine,
    })
}

/// What this mode gave this host. Without IPVS it gave nothing, and asking would load modules. `None` when the kernel does not
/// tell; who may not ask sees what it can see.
fn bound() -> Option<Bound> {
    if !is_present() {
        return Some(Bound::default());
    }
    let read = ipset::Netlink::open().and_then(|mut sets| Bound::read(&mut sets));
    match read {
        Ok(bound) => Some(bound),
        Err(ipset::Error::NotPermitted | ipset::Error::Missing) => Some(Bound::default()),
        Err(error) => {
            tracing::debug!(%error, "which addresses of this host are Services' is unknown");
            None
        }
    }
}

/// Whether there is anything of this mode, ours or upstream's. Asking a kernel that has none would load modules.
pub(super) fn has_leftovers() -> bool {
    let is_theirs = |link: &Link| link.name == DUMMY && link.is_dummy;
    let has_interface = links().is_ok_and(|links| links.iter().any(is_theirs));
    has_interface || bound().is_some_and(|bound| bound != Bound::default())
}

/// Is there IPVS in this kernel now? Asking IPVS itself would load its module.
pub(super) fn is_present() -> bool {
    Path::new(HAS_IPVS).exists()
}

/// The kernel lists virtual servers here, wherever there is IPVS; of this thread's network namespace.
const HAS_IPVS: &str = "/proc/thread-self/net/ip_vs";
