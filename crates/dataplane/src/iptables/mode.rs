//! The mode as the rest of the program sees it: opened on this host, rendered, found in a kernel and removed from it.

use std::path::Path;

use kernel::sysctl;
use kernel::xtables::Variant;
use model::Promises;

use super::localnet::{self, Localnet};
use super::{CHECKS, Iptables, Options, leftovers, owns, render};
use crate::checks::Check;
use crate::leftovers::{CleanedUp, CleanupRequest, Leftovers, Serving, TakenOver, clean_up_chains};
use crate::mode::{
    Behaviour, Deployment, DriftSource, LocalhostNodePorts, Mode, ModeSettings, ModeSpec, OpenError,
    OpenRequest, Opened, RenderRequest, Sections,
};
use crate::programs;
use crate::served::{Served, ServingSign};
use crate::settings::{Commands, Kind, Setting, Values};
use crate::upstream::ChainSet;
use crate::xtables::{self, SERVICES};

/// The mode, as a value.
pub const MODE: Mode = Mode::new(&Spec);

/// iptables.
#[derive(Debug)]
struct Spec;

pub(super) const NAME: &str = "iptables";

/// Node ports on 127.0.0.0/8 by rules.
const LOCALHOST: &str = "iptables-localhost-nodeports";

const SETTINGS: &[Setting] = &[
    programs::PROGRAM,
    Setting {
        flag: LOCALHOST,
        kind: Kind::Switch,
        help: "Mode iptables: node ports answer on 127.0.0.0/8 too. Sets `route_localnet`, which opens this host's loopback addresses to \
               its neighbours (CVE-2020-8558); the rules then guard against that",
        heading: None,
        commands: Commands::RULES,
        field: None,
    },
];

impl ModeSpec for Spec {
    fn name(&self) -> &'static str {
        NAME
    }

    fn about(&self) -> &'static str {
        "The rules that every guide shows"
    }

    fn semantics(&self) -> Promises {
        xtables::SEMANTICS
    }

    fn checks(&self) -> &'static [Check] {
        CHECKS
    }

    fn sections(&self) -> Sections {
        Sections { pace: NAME, masquerade: NAME, localhost: Some(NAME) }
    }

    fn render_examples(&self) -> &'static [&'static str] {
        &[
            "--mode iptables --from examples | iptables-restore --noflush --test",
            "--mode iptables --family ipv6 --from examples | ip6tables-restore --noflush --test",
        ]
    }

    fn cleanup_about(&self) -> &'static str {
        "the chains of the iptables mode, ours or upstream's, of both programs"
    }

    fn settings(&self) -> &'static [Setting] {
        SETTINGS
    }

    fn serves_localhost_by_rules(&self, own: &Values) -> bool {
        own.is_on(LOCALHOST)
    }

    fn open(&self, request: &OpenRequest<'_>) -> Result<Opened, OpenError> {
        let settings = request.settings;
        let (variant, handles) = programs::open(NAME, &settings.own, request.known_chains)?;
        let mut dataplane = Iptables::beside(handles, options(settings), sysctl::ThisMachine);
        if has_localnet(settings) {
            Localnet::refuse_if_read_only()?;
            dataplane = dataplane.with_localnet(Localnet::new(request.run_dir));
        }
        let drift = vec![DriftSource::Poll(programs::POLL)];
        Ok(Opened { dataplane: Box::new(dataplane), drift, program: Some(variant) })
    }

    fn render(&self, request: &RenderRequest<'_>) -> String {
        let options = Options { drops_invalid: !request.tracker.is_liberal, ..options(request.settings) };
        render(request.table, request.family, &options)
    }

    fn owns(&self, served: Served, program: Option<Variant>) -> bool {
        owns(served, program)
    }

    fn serving_sign(&self) -> Option<ServingSign> {
        Some(ServingSign::Chain(SERVICES))
    }

    fn chains(&self) -> Option<&'static ChainSet> {
        Some(&leftovers::CHAINS)
    }

    fn leftovers(&self) -> Box<dyn Leftovers> {
        Box::new(ChainsAndLocalnet)
    }

    fn upstream_metrics(&self) -> &'static [&'static str] {
        &[
            "iptables_ct_state_invalid_dropped_packets_total",
            "iptables_localhost_nodeports_accepted_packets_total",
            "sync_full_proxy_rules_duration_seconds",
            "sync_partial_proxy_rules_duration_seconds",
            "sync_proxy_rules_iptables_last",
            "sync_proxy_rules_iptables_partial_restore_failures_total",
            "sync_proxy_rules_iptables_restore_failures_total",
            "sync_proxy_rules_iptables_total",
        ]
    }

    fn counts_for_metrics(&self) -> bool {
        true
    }

    fn behaviour(&self) -> Behaviour {
        Behaviour {
            // Lists of `recent` forget whoever came the longest ago.
            affinity_limit: Some("/sys/module/xt_recent/parameters/ip_list_tot"),
            ..Behaviour::default()
        }
    }

    fn deployments(&self) -> &'static [Deployment] {
        &[
            Deployment {
                overlay: NAME,
                program: Some(Variant::Nft),
                capabilities: &["NET_ADMIN"],
                packages: &[programs::PACKAGE],
            },
            Deployment {
                overlay: "iptables-legacy",
                program: Some(Variant::Legacy),
                capabilities: &["NET_ADMIN", "NET_RAW"],
                packages: &[programs::PACKAGE],
            },
        ]
    }

    #[cfg(feature = "sim")]
    fn simulate(&self, settings: &ModeSettings) -> Vec<Box<dyn crate::sim::SimulatedMode>> {
        super::sim::simulate(settings)
    }

    #[cfg(feature = "sim")]
    fn on_pairs(&self) -> Option<crate::sim::OnPairs> {
        Some(crate::sim::OnPairs::Xtables {
            open: |pairs| Box::new(Iptables::new(pairs, Options::default())),
            shared: &super::SHARED,
        })
    }
}

/// Whether node ports on 127.0.0.0/8 are served by rules.
pub(super) fn has_localnet(settings: &ModeSettings) -> bool {
    settings.mode.name() == NAME && settings.localhost_node_ports == LocalhostNodePorts::ByRules
}

pub(super) fn options(settings: &ModeSettings) -> Options {
    Options {
        localhost_node_ports: has_localnet(settings),
        masquerade_mark: settings.masquerade_mark(),
        default_node_port_addresses: settings.mode.semantics().default_node_port_addresses,
        ..Options::default()
    }
}

/// What is left beside chains: a setting of the kernel.
struct ChainsAndLocalnet;

impl Leftovers for ChainsAndLocalnet {
    fn restore_settings(
        &mut self,
        serving: Option<&ModeSettings>,
        run_dir: &Path,
    ) -> Result<Option<&'static str>, OpenError> {
        if serving.is_some_and(has_localnet) { Ok(None) } else { Localnet::new(run_dir).close() }
    }

    fn take_over(&mut self, serving: &mut Serving<'_>, done: &mut TakenOver) -> Result<(), String> {
        done.stays.extend((!has_localnet(serving.settings)).then(localnet::stays).flatten());
        Ok(())
    }

    fn clean_up(&mut self, request: &CleanupRequest) -> Result<CleanedUp, OpenError> {
        clean_up_chains(request.known_chains)
    }
}
