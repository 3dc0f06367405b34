//! Carries out errands: what is to be done in this kernel beside the rules.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Instant;

use config::Settings;
use dataplane::leftovers::{AllLeftovers, Serving, TakenOver};
use dataplane::registry::serving_signs;
use dataplane::served::{Served, is_served, serving_here};
use dataplane::{ModeSettings, SyncError, flows, registry, resets};
use kernel::conntrack::Netlink;
use kernel::nft;
use kernel::sock_diag;
use kernel::xtables::{Programs, Variant};
use model::flows::{StaleFlows, VanishedFlows};
use model::{Config, Family};
use observe::metrics::Pass;

use crate::reconciler::{Done, Errand};

/// The handles that errands need, opened when they are.
pub(super) struct Beside {
    settings: ModeSettings,
    program: Option<Variant>,
    other_rules: OtherRules,
    run_dir: PathBuf,
    leftovers: AllLeftovers,
    conntrack: Conntrack,
    /// It was said that this kernel cannot end sockets of other programs.
    has_said_no_sockets: bool,
}

/// The connection tracker, opened when it is needed.
#[derive(Debug, Default)]
struct Conntrack(Option<Netlink>);

/// What becomes of the rules of other modes and proxies, once ours are in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OtherRules {
    /// They are removed: ours do their work.
    Remove,
    /// They stay: another proxy of this node serves the Services without our `service-proxy-name`.
    Leave,
}

impl OtherRules {
    fn of(config: &Config) -> Self {
        if config.service_proxy_name.is_some() { Self::Leave } else { Self::Remove }
    }
}

impl Beside {
    pub(super) fn new(settings: &Settings, program: Option<Variant>) -> Self {
        Self {
            settings: settings.mode.clone(),
            program,
            other_rules: OtherRules::of(&settings.config),
            run_dir: settings.run_dir.clone(),
            leftovers: AllLeftovers::of(registry::MODES),
            conntrack: Conntrack::default(),
            has_said_no_sockets: false,
        }
    }

    /// Are Services served, by rules of whichever mode?
    pub(super) fn is_served() -> Result<bool, SyncError> {
        let served = nft::Netlink::open()
            .and_then(|mut nft| is_served(serving_signs(), &mut nft, &Programs::find_in(&[]).legacy));
        Ok(served?)
    }

    /// `own` are the addresses of this host.
    pub(super) fn run(&mut self, errand: &Errand, own: &BTreeSet<IpAddr>) -> Result<Done, String> {
        match errand {
            Errand::Forget(stale) => self.conntrack.forget(stale),
            Errand::End(vanished) => self.end(vanished, own),
            Errand::TakeOver if self.other_rules == OtherRules::Leave => self.leave_to_neighbour(),
            Errand::TakeOver => Ok(self.take_over()),
        }
    }

    /// Sockets of this host go first: their resets still find the way to whoever may be there.
    fn end(&mut self, vanished: &BTreeSet<VanishedFlows>, own: &BTreeSet<IpAddr>) -> Result<Done, String> {
        let mut conntrack = self.conntrack.take()?;
        let found = flows::Found::read(&mut conntrack, vanished).map_err(|error| error.to_string())?;
        let sockets = sock_diag::ThisMachine::open()
            .and_then(|mut sockets| found.end_sockets(&mut sockets, |ip| own.contains(&ip)));
        match sockets {
            Ok(count) if count > 0 => tracing::debug!(count, "ended sockets of this host"),
            Ok(_) => {}
            Err(error) if std::mem::replace(&mut self.has_said_no_sockets, true) => tracing::debug!(%error),
            Err(error) => {
                tracing::info!("{error}: programs on this host notice a vanished Pod when they send next");
            }
        }
        reset_next_packets(&found);
        let ended = found.delete(&mut conntrack).map_err(|error| error.to_string())?;
        self.conntrack.0 = Some(conntrack);
        Ok(Done { ended, ..Done::default() })
    }

    /// With a `service-proxy-name`, rules that we did not write may be those of the proxy that serves all other Services.
    fn leave_to_neighbour(&self) -> Result<Done, String> {
        let signs = serving_signs();
        let is_ours = |served| self.settings.mode.owns(served, self.program);
        let found = serving_here(signs, &Programs::find_in(&[]).legacy, is_ours)
            .map_err(|error| error.to_string())?;
        let stays = |served: Served| {
            format!(
                "{}: with --service-proxy-name another proxy serves the other Services, so its rules are not removed; if none \
                 runs, `portway cleanup` removes them",
                served.describe(signs)
            )
        };
        Ok(Done { stays: found.into_iter().map(stays).collect(), ..Done::default() })
    }

    /// Removes the rules of other modes and programs, whose work ours do now.
    fn take_over(&mut self) -> Done {
        let mut flows = Done::default();
        let conntrack = &mut self.conntrack;
        let mut forget = |stale: &BTreeSet<StaleFlows>| {
            flows = conntrack.forget(stale)?;
            Ok(())
        };
        let (settings, program, run_dir) = (&self.settings, self.program, &*self.run_dir);
        let mut serving = Serving { settings, program, run_dir, forget: &mut forget };
        let TakenOver { removed, stays, again, come_back } = self.leftovers.take_over(&mut serving);
        Done { removed, stays, again, come_back, ..flows }
    }
}

impl Conntrack {
    /// A connection that failed is opened anew the next time.
    fn take(&mut self) -> Result<Netlink, String> {
        self.0.take().map_or_else(|| Netlink::open().map_err(|error| error.to_string()), Ok)
    }

    fn forget(&mut self, stale: &BTreeSet<StaleFlows>) -> Result<Done, String> {
        let mut conntrack = self.take()?;
        let mut done = Done::default();
        for family in Family::ALL {
            let of_family = |flows: &&StaleFlows| Family::of(flows.destination.0) == family;
            let stale: BTreeSet<_> = stale.iter().filter(of_family).cloned().collect();
            if stale.is_empty() {
                continue;
            }
            let begun = Instant::now();
            let forgotten = flows::forget(&mut conntrack, &stale).map_err(|error| error.to_string())?;
            done.flows += forgotten.forgotten;
            done.passes.push(Pass { family, flows: forgotten.forgotten, took: begun.elapsed() });
        }
        self.0 = Some(conntrack);
        Ok(done)
    }
}

/// Without `nf_tables` a living endpoint resets them, where there is one.
fn reset_next_packets(found: &flows::Found<'_>) {
    let connections: Vec<_> = found.entries().map(|(_, entry)| entry.original).collect();
    let added = nft::Netlink::open().and_then(|mut nft| resets::add(&mut nft, &connections));
    if let Err(error) = added {
        tracing::debug!(%error, "connections of a vanished Pod are left to a living endpoint to reset");
    }
}

impl fmt::Debug for Beside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Beside").field("mode", &self.settings.mode).finish_non_exhaustive()
    }
}
