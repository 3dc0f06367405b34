//! What this mode leaves beside chains: virtual servers, sets, addresses and settings. Virtual servers go as connections leave them.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use kernel::ipset;
use kernel::xtables::Programs;
use model::Family;

use super::mode::{NAME, handles, has_leftovers, is_present};
use super::{
    Doors, Error, Options, Traces, Withdrawn, are_settings_forgotten, cleanup, remove_upstreams_sets,
    withdraw,
};
use crate::SyncError;
use crate::leftovers::{CleanedUp, CleanupRequest, Leftovers, Serving, TakenOver, clean_up_chains};
use crate::mode::{ModeSettings, OpenError};

/// How often to look whether connections have ended.
const LOOK_AGAIN: Duration = Duration::from_secs(30);
/// When to look first whether deleted rules have let go of sets.
const SOON: Duration = Duration::from_secs(1);

/// Virtual servers that are being left.
#[derive(Debug, Default)]
pub(super) struct LeavingServers {
    /// Since when they wait for their connections.
    waits_since: Option<Instant>,
    /// The sets were in use when they were last looked at.
    has_waited_for_rules: bool,
}

impl Leftovers for LeavingServers {
    fn take_over(&mut self, serving: &mut Serving<'_>, done: &mut TakenOver) -> Result<(), String> {
        if serving.settings.mode.name() == NAME {
            done.removed.extend(upstreams_sets()?);
            return Ok(());
        }
        if has_leftovers() { self.withdraw(serving, done) } else { Ok(()) }
    }

    /// Virtual servers, addresses, rules and sets; settings are as they were before.
    fn clean_up(&mut self, request: &CleanupRequest) -> Result<CleanedUp, OpenError> {
        if request.of_other_programs && !is_present() {
            return Ok(CleanedUp::default());
        }
        let mut handles = match handles() {
            Err(Error::Servers(kernel::ipvs::Error::Missing)) => {
                let text =
                    "This kernel has no IPVS, so there is nothing of the ipvs mode to remove.\n".to_owned();
                let tells_of_others = !request.of_other_programs;
                return Ok(CleanedUp { text, tells_of_others, ..CleanedUp::default() });
            }
            handles => handles.map_err(host)?,
        };
        let settings = ModeSettings { own: request.own.clone(), ..ModeSettings::of(super::MODE) };
        let options = super::own_settings::options(&settings);
        let found = Traces::read(&mut handles, &options).map_err(host)?;
        let found = found.with_chains(Programs::find().programs.iter_mut());
        let is_forgotten = are_settings_forgotten(&mut handles.sets).map_err(host)?;
        let mut warnings = Vec::new();
        let removed = cleanup::everything(&mut handles, &Family::ALL, &options, |handles| {
            let chains = clean_up_chains(request.known_chains)
                .map_err(|error| SyncError::Other { sentence: error.to_string(), retry_helps: false })?;
            warnings = chains.warnings;
            wait_for_rules(handles)
        });
        match removed {
            // Chains that had to stay keep their sets.
            Err(error) if !warnings.is_empty() => warnings.push(error.to_string()),
            removed => removed.map_err(host)?,
        }
        let text = if found.is_empty() {
            "Nothing of the ipvs mode is in this kernel.\n".to_owned()
        } else if is_forgotten {
            format!("Removed {found} of the ipvs mode.\n")
        } else {
            format!("Removed {found} of the ipvs mode; settings are as they were before.\n")
        };
        let warning = is_forgotten.then(|| {
            "settings stay as the ipvs mode needs them (net.ipv4.ip_forward and those of net.ipv4.vs), and so may virtual servers: somebody emptied \
             the sets in which it stood what they were, and which are ours; `ipvsadm -Ln` shows them"
                .to_owned()
        });
        warnings.extend(warning);
        Ok(CleanedUp { text, warnings, tells_of_others: false })
    }

    /// A kernel that has no IPVS is not asked: that would load modules.
    fn remaining(&mut self, _: &Path) -> Vec<String> {
        if !is_present() {
            return Vec::new();
        }
        let Ok(mut handles) = handles() else { return Vec::new() };
        let found = Traces::read(&mut handles, &Options::default()).unwrap_or_default();
        let sentence = format!(
            "{found} of the ipvs mode stay: unless upstream runs here in that mode, `portway cleanup --mode ipvs` removes them"
        );
        if found.is_empty() { Vec::new() } else { vec![sentence] }
    }
}

fn host(error: impl std::fmt::Display) -> OpenError {
    OpenError::Host(error.to_string())
}

/// The kernel needs a moment to let go of rules that were deleted just now.
fn wait_for_rules(handles: &mut dyn Doors) -> Result<(), SyncError> {
    let until = Instant::now() + SOON;
    while cleanup::used_sets(handles)? > 0 && Instant::now() < until {
        thread::sleep(SOON / 20);
    }
    Ok(())
}

/// No rule uses them any more, now that upstream's chains are gone.
fn upstreams_sets() -> Result<Vec<String>, String> {
    let removed = ipset::Netlink::open().and_then(|mut sets| remove_upstreams_sets(&mut sets));
    removed.map_err(|error| error.to_string())
}

impl LeavingServers {
    /// What our own process left goes, as connections leave it. Upstream's stays: whoever runs it might go back.
    fn withdraw(&mut self, serving: &mut Serving<'_>, done: &mut TakenOver) -> Result<(), String> {
        let begun = *self.waits_since.get_or_insert_with(Instant::now);
        let limit = Options::default().drain_limit;
        let mut handles = handles().map_err(|error| error.to_string())?;
        let withdrawn = withdraw(&mut handles, begun.elapsed() >= limit, serving.forget);
        let Withdrawn { servers, addresses, waiting, connections, used_sets } =
            withdrawn.map_err(|error| error.to_string())?;
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
        let left = Traces::read(&mut handles, &Options::default()).map_err(|error| error.to_string())?;
        if !left.is_empty() {
            done.stays.push(format!(
                "{left} of upstream's ipvs mode: if it does not come back, `portway cleanup --mode ipvs --force` removes them"
            ));
        }
        Ok(())
    }
}
