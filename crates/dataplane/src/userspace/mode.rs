//! The mode as the rest of the program sees it: opened on this host, rendered, found in a kernel and removed from it.

use kernel::xtables::Variant;
use model::Promises;

use super::{CHECKS, Options, Ports, Userspace, leftovers, render};
use crate::checks::Check;
use crate::leftovers::{CleanedUp, CleanupRequest, Leftovers, Serving, TakenOver, clean_up_chains};
use crate::mode::{
    Behaviour, Deployment, DriftSource, Mode, ModeSettings, ModeSpec, OpenError, OpenRequest, Opened,
    RenderRequest,
};
use crate::programs;
use crate::relay;
use crate::settings::{Commands, Field, Kind, Setting};
use crate::upstream::ChainSet;
use crate::xtables;

/// The mode, as a value.
pub const MODE: Mode = Mode::new(&Spec);

/// userspace.
#[derive(Debug)]
struct Spec;

pub(super) const NAME: &str = "userspace";

const SETTINGS: &[Setting] = &[
    programs::PROGRAM,
    Setting {
        flag: relay::PORTS_FLAG,
        kind: Kind::Text { value_name: "PORTS", parse: relay::parse_ports },
        help: "The ports of our own that the mode userspace uses: `BEGIN-END`, `BEGIN+SIZE` or one; without it, or with 0, the kernel chooses",
        heading: None,
        commands: Commands::RUN_ONLY,
        field: Some(Field {
            path: "portRange",
            why: "mode userspace, which upstream no longer has; in others nothing",
            is_better: true,
            must: Some("must be a valid port range (e.g. 40000-40999)"),
        }),
    },
];

impl ModeSpec for Spec {
    fn name(&self) -> &'static str {
        NAME
    }

    fn about(&self) -> &'static str {
        "The original proxy"
    }

    fn semantics(&self) -> Promises {
        Promises { keeps_source: false, carries_sctp: false, ..xtables::SEMANTICS }
    }

    fn checks(&self) -> &'static [Check] {
        CHECKS
    }

    fn settings(&self) -> &'static [Setting] {
        SETTINGS
    }

    fn render_examples(&self) -> &'static [&'static str] {
        &["--mode userspace --from examples       the chains of the first guides; ports are examples"]
    }

    fn cleanup_about(&self) -> &'static str {
        "its chains, also those that upstream's old userspace mode left"
    }

    fn open(&self, request: &OpenRequest<'_>) -> Result<Opened, OpenError> {
        let (variant, handles) = programs::open(NAME, &request.settings.own, request.known_chains)?;
        let dataplane = Box::new(Userspace::new(handles, request.relay.clone(), options(request.settings)));
        Ok(Opened { dataplane, drift: vec![DriftSource::Poll(programs::POLL)], program: Some(variant) })
    }

    /// Nothing listens here, so the ports are examples.
    fn render(&self, request: &RenderRequest<'_>) -> String {
        let ports = Ports::examples(request.table);
        let rules = render(request.table, request.family, &options(request.settings), ports);
        format!(
            "# The proxy's ports, from 40000 on, are examples: a running portway lets the kernel choose them.\n{rules}"
        )
    }

    fn chains(&self) -> Option<&'static ChainSet> {
        Some(&leftovers::CHAINS)
    }

    fn leftovers(&self) -> Box<dyn Leftovers> {
        Box::new(Chains)
    }

    fn behaviour(&self) -> Behaviour {
        Behaviour { relays_connections: true, drops_all_stray_segments: true, ..Behaviour::default() }
    }

    fn deployments(&self) -> &'static [Deployment] {
        &[Deployment {
            overlay: NAME,
            program: Some(Variant::Nft),
            capabilities: &["NET_ADMIN"],
            packages: &[programs::PACKAGE],
        }]
    }

    #[cfg(feature = "sim")]
    fn simulate(&self, settings: &ModeSettings) -> Vec<Box<dyn crate::sim::SimulatedMode>> {
        super::sim::simulate(settings)
    }

    #[cfg(feature = "sim")]
    fn on_pairs(&self) -> Option<crate::sim::OnPairs> {
        Some(crate::sim::OnPairs::Xtables {
            open: |pairs| Box::new(Userspace::new(pairs, relay::Simulated::default(), Options::default())),
            shared: &super::SHARED,
        })
    }
}

pub(super) fn options(settings: &ModeSettings) -> Options {
    Options { default_node_port_addresses: settings.mode.semantics().default_node_port_addresses }
}

/// Nothing is left but chains: what they lead to has ended with its process.
struct Chains;

impl Leftovers for Chains {
    fn take_over(&mut self, _: &mut Serving<'_>, _: &mut TakenOver) -> Result<(), String> {
        Ok(())
    }

    fn clean_up(&mut self, request: &CleanupRequest) -> Result<CleanedUp, OpenError> {
        clean_up_chains(request.known_chains)
    }
}
