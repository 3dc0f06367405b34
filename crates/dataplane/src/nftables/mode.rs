//! The mode as the rest of the program sees it: opened on this host, rendered, found in a kernel and removed from it.

use std::collections::BTreeSet;
use std::time::Duration;

use kernel::nft::{Family, Kernel as _, Monitor, Netlink};
use kernel::sysctl;
use kernel::xtables::Variant;
use model::Promises;

use super::families::Families;
use super::{CHECKS, Listener, Nftables, Options, TABLE, owns, render, take_over};
use crate::Meddled;
use crate::checks::Check;
use crate::leftovers::{CleanedUp, CleanupRequest, Leftovers, Serving, TakenOver};
use crate::mode::{
    Behaviour, Deployment, DriftSource, ForeignWrites, Mode, ModeSettings, ModeSpec, OpenError, OpenRequest,
    Opened, RenderRequest, Sections,
};
use crate::served::{Served, ServingSign};

/// The mode, as a value.
pub const MODE: Mode = Mode::new(&Spec);

/// nftables.
#[derive(Debug)]
struct Spec;

pub(super) const NAME: &str = "nftables";

impl ModeSpec for Spec {
    fn name(&self) -> &'static str {
        NAME
    }

    fn about(&self) -> &'static str {
        "nftables maps, written by netlink: the default"
    }

    fn semantics(&self) -> Promises {
        Promises::default()
    }

    fn checks(&self) -> &'static [Check] {
        CHECKS
    }

    fn sections(&self) -> Sections {
        Sections { pace: NAME, masquerade: NAME, localhost: None }
    }

    fn render_examples(&self) -> &'static [&'static str] {
        &[
            "--mode nftables --from examples",
            "--from examples | nft -c -f -          asks nft whether it understands",
        ]
    }

    fn cleanup_about(&self) -> &'static str {
        "the tables of the nftables mode"
    }

    fn open(&self, request: &OpenRequest<'_>) -> Result<Opened, OpenError> {
        let families = Families::probe()?;
        if let Families::OnlyV4 { because } = &families {
            tracing::warn!("this host has no IPv6, so IPv4 alone is served: {because}");
        }
        let kernel = Netlink::open().map_err(host)?;
        let drift = Monitor::of_others(kernel.port())
            .inspect_err(|error| tracing::warn!(%error, "others who write to our tables will not be heard"))
            .map(|monitor| DriftSource::Events(Box::new(Heard { monitor, listener: Listener::default() })));
        let dataplane = Box::new(Nftables::beside(
            kernel,
            families.served(),
            options(request.settings),
            sysctl::ThisMachine,
        ));
        Ok(Opened { dataplane, drift: drift.into_iter().collect(), program: None })
    }

    fn render(&self, request: &RenderRequest<'_>) -> String {
        let options =
            Options { drops_stray_replies: !request.tracker.is_strict, ..options(request.settings) };
        render(request.table, &options)
    }

    fn owns(&self, served: Served, _: Option<Variant>) -> bool {
        owns(served)
    }

    fn serving_sign(&self) -> Option<ServingSign> {
        Some(ServingSign::Table(TABLE))
    }

    fn leftovers(&self) -> Box<dyn Leftovers> {
        Box::new(Tables)
    }

    fn upstream_metrics(&self) -> &'static [&'static str] {
        &[
            "nftables_localhost_nodeport_listener_creation_failures_total",
            "nftables_localhost_nodeport_listeners",
            "nftables_localhost_nodeport_rejected_packets_total",
            "sync_full_proxy_rules_duration_seconds",
            "sync_partial_proxy_rules_duration_seconds",
            "sync_proxy_rules_nftables_cleanup_failures_total",
            "sync_proxy_rules_nftables_sync_failures_total",
        ]
    }

    fn counts_for_metrics(&self) -> bool {
        true
    }

    fn behaviour(&self) -> Behaviour {
        Behaviour { refuses_by_reset: true, drops_all_stray_segments: true, ..Behaviour::default() }
    }

    fn deployments(&self) -> &'static [Deployment] {
        &[Deployment { overlay: NAME, program: None, capabilities: &["NET_ADMIN"], packages: &[] }]
    }

    #[cfg(feature = "sim")]
    fn simulate(&self, settings: &ModeSettings) -> Vec<Box<dyn crate::sim::SimulatedMode>> {
        super::sim::simulate(settings)
    }

    #[cfg(feature = "sim")]
    fn on_pairs(&self) -> Option<crate::sim::OnPairs> {
        Some(crate::sim::OnPairs::Nft {
            open: |pair| Box::new(Nftables::new(pair, Options::default())),
            list: super::sim::listing,
        })
    }
}

/// Notifications of `nf_tables` about our table.
struct Heard {
    monitor: Monitor,
    listener: Listener,
}

impl ForeignWrites for Heard {
    fn next(&mut self, limit: Duration) -> Result<Option<Meddled>, String> {
        let event = self.monitor.next(limit).map_err(|error| error.to_string())?;
        Ok(event.and_then(|event| self.listener.hear(event)))
    }
}

pub(super) fn options(settings: &ModeSettings) -> Options {
    Options {
        promises: settings.mode.semantics(),
        masquerade_mark: settings.masquerade_mark(),
        ..Options::default()
    }
}

fn host(error: impl std::fmt::Display) -> OpenError {
    OpenError::Host(error.to_string())
}

/// The table of this mode, in each family.
struct Tables;

impl Leftovers for Tables {
    fn take_over(&mut self, serving: &mut Serving<'_>, done: &mut TakenOver) -> Result<(), String> {
        if serving.settings.mode.name() != NAME {
            let gone = Netlink::open().and_then(|mut nft| take_over(&mut nft));
            done.removed.extend(gone.map_err(|error| error.to_string())?);
        }
        Ok(())
    }

    fn clean_up(&mut self, request: &CleanupRequest) -> Result<CleanedUp, OpenError> {
        let families = Families::probe()?;
        let mut kernel = Netlink::open().map_err(host)?;
        let text = if request.of_other_programs {
            let gone = take_over(&mut kernel).map_err(host)?;
            let lines = lines(gone.iter());
            if lines.is_empty() { "No table `kube-proxy` is in this kernel.\n".to_owned() } else { lines }
        } else {
            clean_up(kernel, families.served())?
        };
        Ok(CleanedUp { text, ..CleanedUp::default() })
    }
}

fn clean_up(kernel: Netlink, families: &[model::Family]) -> Result<String, OpenError> {
    let mut dataplane = Nftables::beside(kernel, families, Options::default(), sysctl::ThisMachine);
    let before = tables(dataplane.kernel())?;
    dataplane.cleanup().map_err(|error| OpenError::Host(error.to_string()))?;
    let after = tables(dataplane.kernel())?;
    let lines = lines(before.difference(&after).map(|table| format!("table {table}")));
    Ok(if lines.is_empty() { "No table of portway is in this kernel.\n".to_owned() } else { lines })
}

fn lines(gone: impl Iterator<Item = impl std::fmt::Display>) -> String {
    gone.map(|table| format!("Removed {table}.\n")).collect::<Vec<_>>().concat()
}

/// `ip kube-proxy`, and so on: all tables of this kernel that could be ours.
fn tables(kernel: &mut Netlink) -> Result<BTreeSet<String>, OpenError> {
    let mut found = BTreeSet::new();
    for (family, word) in [(Family::V4, "ip"), (Family::V6, "ip6")] {
        let tables = kernel.tables(family).map_err(host)?;
        found.extend(tables.iter().map(|table| format!("{word} {}", &*table.name)));
    }
    Ok(found)
}
