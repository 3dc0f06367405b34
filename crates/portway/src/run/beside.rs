//! Carries out errands: what is to be done in this kernel beside the rules.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use dataplane::served::{is_served, serving_here};
use dataplane::{SyncError, flows, ipvs, nftables, resets, upstream};
use kernel::conntrack::Netlink;
use kernel::host::{Link, links};
use kernel::sock_diag;
use kernel::xtables::{Programs, Variant};
use kernel::{ipset, nft};
use model::flows::{StaleFlows, VanishedFlows};
use model::{Config, Family};

use super::errands::{Done, Errand, Pass};
use super::localnet;
use super::open::ipvs_doors;
use crate::host;
use crate::modes::Mode;

/// The doors that errands need, opened when they are.
#[derive(Debug)]
pub(super) struct Beside {
    mode: Mode,
    program: Option<Variant>,
    /// Whether node ports on 127.0.0.0/8 are served by rules.
    has_localnet: bool,
    other_rules: OtherRules,
    conntrack: Option<Netlink>,
    /// It was said that this kernel cannot end sockets of other programs.
    has_said_no_sockets: bool,
    /// Since when what the IPVS mode left waits for its connections.
    waits_since: Option<Instant>,
    /// Its sets were in use when they were last looked at.
    has_waited_for_rules: bool,
}

/// What becomes of the rules of other modes and proxies, once ours are in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OtherRules {
    /// They are removed: ours do their work.
    Remove,
    /// They stay: another proxy of this node serves the Services without our `service-proxy-name`.
    Leave,
}

impl OtherRules {
    pub(super) fn of(config: &Config) -> Self {
        if config.service_proxy_name.is_some() { Self::Leave } else { Self::Remove }
    }
}

/// How often to look whether connections of the IPVS mode have ended.
const LOOK_AGAIN: Duration = Duration::from_secs(30);
/// When to look first whether deleted rules have let go of sets.
const SOON: Duration = Duration::from_secs(1);

impl Beside {
    pub(super) fn new(
        mode: Mode,
        program: Option<Variant>,
        has_localnet: bool,
        other_rules: OtherRules,
    ) -> Self {
        Self {
            mode,
            program,
            has_localnet,
            other_rules,
            conntrack: None,
            has_said_no_sockets: false,
            waits_since: None,
            has_waited_for_rules: false,
        }
    }

    /// Are Services served, by rules of whichever mode?
    pub(super) fn is_served() -> Result<bool, SyncError> {
        let served =
            nft::Netlink::open().and_then(|mut nft| is_served(&mut nft, &Programs::find_in(&[]).legacy));
        Ok(served?)
    }

    /// `own` are the addresses of this host.
    pub(super) fn run(&mut self, errand: &Errand, own: &BTreeSet<IpAddr>) -> Result<Done, String> {
        match errand {
            Errand::Forget(stale) => self.forget(stale),
            Errand::End(vanished) => self.end(vanished, own),
            Errand::TakeOver if self.other_rules == OtherRules::Leave => self.leave_to_neighbour(),
            Errand::TakeOver => self.take_over(),
        }
    }

    /// A connection that failed is opened anew the next time.
    fn conntrack(&mut self) -> Result<Netlink, String> {
        self.conntrack.take().map_or_else(|| Netlink::open().map_err(|error| error.to_string()), Ok)
    }

    /// Sockets of this host go first: their resets still find the way to whoever may be there.
    fn end(&mut self, vanished: &BTreeSet<VanishedFlows>, own: &BTreeSet<IpAddr>) -> Result<Done, String> {
        let mut conntrack = self.conntrack()?;
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
        self.conntrack = Some(conntrack);
        Ok(Done { ended, ..Done::default() })
    }

    fn forget(&mut self, stale: &BTreeSet<StaleFlows>) -> Result<Done, String> {
        let mut conntrack = self.conntrack()?;
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
        self.conntrack = Some(conntrack);
        Ok(done)
    }

    /// With a `service-proxy-name`, rules that we did not write may be those of the proxy that serves all other Services.
    fn leave_to_neighbour(&self) -> Result<Done, String> {
        let is_ours = |served| self.mode.owns(served, self.program);
        let found =
            serving_here(&Programs::find_in(&[]).legacy, is_ours).map_err(|error| error.to_string())?;
        let stays = |served| {
            format!(
                "{served}: with --service-proxy-name another proxy serves the other Services, so its rules are not removed; if none \
                 runs, `portway cleanup` removes them"
            )
        };
        Ok(Done { stays: found.into_iter().map(stays).collect(), ..Done::default() })
    }

    /// Removes the rules of other modes and programs, whose work ours do now. One that fails does not hide the others.
    fn take_over(&mut self) -> Result<Done, String> {
        let mut nft = nft::Netlink::open().map_err(|error| error.to_string())?;
        let mut done = Done::default();
        if self.mode != Mode::Nftables {
            let gone = nftables::take_over(&mut nft).map_err(|error| error.to_string())?;
            done.removed.extend(gone);
        }
        let rules = match self.mode {
            Mode::Userspace => upstream::Rules::Userspace,
            Mode::Ipvs => upstream::Rules::Ipvs,
            Mode::Nftables | Mode::Iptables => upstream::Rules::Iptables,
        };
        let ours = self.program.map(|variant| upstream::Ours { variant, rules });
        let taken = upstream::take_over(&mut Programs::find(), &mut nft, ours);
        let (again, stays): (Vec<_>, Vec<_>) =
            taken.problems.iter().partition(|problem| problem.retry_helps());
        done.removed.extend(taken.removed.iter().map(ToString::to_string));
        done.again = again.first().map(ToString::to_string);
        if self.mode == Mode::Ipvs {
            done.removed.extend(upstreams_sets()?);
        } else if has_traces_of_ipvs()
            && let Err(reason) = self.withdraw(&mut done)
        {
            done.again.get_or_insert(reason);
        }
        done.stays.extend(stays.iter().map(ToString::to_string));
        done.stays.extend((!self.has_localnet).then(localnet::stays).flatten());
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

/// No rule uses them any more, now that upstream's chains are gone.
fn upstreams_sets() -> Result<Vec<String>, String> {
    let removed = ipset::Netlink::open().and_then(|mut sets| ipvs::remove_upstreams_sets(&mut sets));
    removed.map_err(|error| error.to_string())
}

/// Whether there is anything of the IPVS mode, ours or upstream's. Asking a kernel that has none would load modules.
fn has_traces_of_ipvs() -> bool {
    let is_theirs = |link: &Link| link.name == ipvs::DUMMY && link.is_dummy;
    let has_interface = links().is_ok_and(|links| links.iter().any(is_theirs));
    has_interface || host::bound().is_some_and(|bound| bound != ipvs::Bound::default())
}

impl Beside {
    /// What our IPVS mode left goes, as connections leave it. Upstream's stays: whoever runs it might go back.
    fn withdraw(&mut self, done: &mut Done) -> Result<(), String> {
        let begun = *self.waits_since.get_or_insert_with(Instant::now);
        let limit = ipvs::Options::default().drain_limit;
        let mut doors = ipvs_doors().map_err(|error| error.to_string())?;
        let mut flows = Done::default();
        let withdrawn = ipvs::withdraw(&mut doors, begun.elapsed() >= limit, &mut |stale| {
            flows = self.forget(stale)?;
            Ok(())
        });
        let ipvs::Withdrawn { servers, addresses, waiting, connections, used_sets } =
            withdrawn.map_err(|error| error.to_string())?;
        (done.flows, done.passes) = (flows.flows, flows.passes);
        if servers + addresses > 0 {
            done.removed
                .push(format!("{servers} virtual servers and {addresses} addresses of our ipvs mode"));
        }
        if waiting > 0 {
            done.come_back = Some(LOOK_AGAIN);
            done.stays.push(format!(
                "virtual servers of the ipvs mode wait for connections that are open ({waiting} for {connections}): they go with the last \
                 one, or {} minutes after the start",
                limit.as_secs() / 60
            ));
            return Ok(());
        }
        if used_sets > 0 {
            // The kernel needs a moment to let go of rules that were deleted just now.
            let is_first = !std::mem::replace(&mut self.has_waited_for_rules, true);
            done.come_back = Some(if is_first { SOON } else { LOOK_AGAIN });
            done.stays.extend((!is_first).then(|| {
                format!(
                    "rules of other programs use {used_sets} sets of our ipvs mode (PORTWAY-…), so all its sets stay: `iptables-save` and \
                     `iptables-legacy-save` show the rules, delete them"
                )
            }));
            return Ok(());
        }
        (self.waits_since, self.has_waited_for_rules) = (None, false);
        let left =
            ipvs::Traces::read(&mut doors, &ipvs::Options::default()).map_err(|error| error.to_string())?;
        if !left.is_empty() {
            // It clears chains of that mode, too, for which it needs a program.
            let needs = if Programs::find().programs.is_empty() {
                ", run by a portway beside which the package iptables is installed,"
            } else {
                ""
            };
            done.stays.push(format!(
                "{left} of upstream's ipvs mode: if it does not come back, `portway cleanup --mode ipvs --force`{needs} removes them"
            ));
        }
        Ok(())
    }
}
