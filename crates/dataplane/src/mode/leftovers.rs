//! What modes leave in a kernel when they serve no more: one policy for all of them.
//!
//! In: the mode that serves now. Out: what was removed, what stays and what to do about it.
//!
//! Rules of the mode that serves are in force before anything of another goes. Chains of iptables, which several modes share, go in one
//! pass; each mode removes what else it has written. `portway cleanup` and a running portway use the same [`Leftovers`].

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kernel::nft;
use kernel::xtables::{Programs, Variant};
use model::flows::StaleFlows;

use crate::mode::{Mode, ModeSettings, OpenError};
use crate::settings::Values;
use crate::upstream::{self, KnownChains, Problem, Removed};

/// What one mode leaves in this host's kernel. Kept between passes: connections may have to end first.
pub trait Leftovers: Send {
    /// A mode is in force, perhaps this one: removes what of this mode it replaces. Chains of iptables are gone by then.
    fn take_over(&mut self, serving: &mut Serving<'_>, done: &mut TakenOver) -> Result<(), String>;

    /// Takes back settings of the kernel that a previous process made for this mode, unless `serving` needs them; all of them without
    /// one. Returns what was done.
    fn restore_settings(
        &mut self,
        _serving: Option<&ModeSettings>,
        _run_dir: &Path,
    ) -> Result<Option<&'static str>, OpenError> {
        Ok(None)
    }

    /// Removes everything that this mode has ever written, in any version, and nothing else.
    fn clean_up(&mut self, request: &CleanupRequest) -> Result<CleanedUp, OpenError>;

    /// What of this mode is in the kernel, a sentence each with the command that removes it. Chains of iptables are told by
    /// [`remaining_chains`].
    fn remaining(&mut self, _run_dir: &Path) -> Vec<String> {
        Vec::new()
    }
}

/// The mode that is in force.
pub struct Serving<'a> {
    pub settings: &'a ModeSettings,
    /// The program that it writes with.
    pub program: Option<Variant>,
    /// The folder of the running portway.
    pub run_dir: &'a Path,
    /// Deletes stale conntrack entries.
    pub forget: &'a mut dyn FnMut(&BTreeSet<StaleFlows>) -> Result<(), String>,
}

impl std::fmt::Debug for Serving<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Serving").field("settings", &self.settings).finish_non_exhaustive()
    }
}

/// What a pass over leftovers came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TakenOver {
    pub removed: Vec<String>,
    /// What had to stay, and what to do about it.
    pub stays: Vec<String>,
    /// Why it was not all; trying again helps.
    pub again: Option<String>,
    /// Nothing is wrong, but there will be more to do after this long.
    pub come_back: Option<Duration>,
}

impl TakenOver {
    /// Something could not be done.
    fn fail(&mut self, reason: String) {
        match &mut self.again {
            Some(again) => *again = format!("{again}; {reason}"),
            None => self.again = Some(reason),
        }
    }
}

/// What was done about settings of the kernel, for all modes.
#[derive(Debug, Default)]
pub struct Restored {
    pub done: Vec<&'static str>,
    pub failed: Vec<OpenError>,
}

/// What the operator asked to be removed.
#[derive(Clone, Debug)]
pub struct CleanupRequest {
    /// The mode's own settings.
    pub own: Values,
    /// The folder of a running portway.
    pub run_dir: PathBuf,
    /// Also what another program wrote under the names that this mode has.
    pub of_other_programs: bool,
    /// The chains of all modes.
    pub known_chains: &'static KnownChains,
}

/// What a cleanup did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CleanedUp {
    /// What was removed, in lines.
    pub text: String,
    /// What is still there and should not be.
    pub warnings: Vec<String>,
    /// Whether leftovers of other modes are to be told too.
    pub tells_of_others: bool,
}

/// The leftovers of all modes, beside the one that serves.
pub struct AllLeftovers {
    modes: Vec<(Mode, Box<dyn Leftovers>)>,
    known_chains: KnownChains,
}

impl AllLeftovers {
    /// Those of these modes.
    pub fn of(modes: &[Mode]) -> Self {
        Self {
            modes: modes.iter().map(|mode| (*mode, mode.leftovers())).collect(),
            known_chains: KnownChains::of(modes.iter().filter_map(|mode| mode.chains())),
        }
    }

    /// Removes the rules of other modes and programs, whose work those of the serving mode do now. One that fails neither hides nor stops
    /// the others.
    pub fn take_over(&mut self, serving: &mut Serving<'_>) -> TakenOver {
        let mut done = TakenOver::default();
        let mut has_swept = false;
        for (mode, leftovers) in &mut self.modes {
            if mode.chains().is_some() && !std::mem::replace(&mut has_swept, true) {
                sweep(&self.known_chains, serving, &mut done).unwrap_or_else(|reason| done.fail(reason));
            }
            leftovers.take_over(serving, &mut done).unwrap_or_else(|reason| done.fail(reason));
        }
        done
    }
}

/// Takes back settings of the kernel that previous processes made for these modes, unless `serving` needs them. One mode that fails does
/// not stop the others.
pub fn restore_settings(modes: &[Mode], serving: Option<&ModeSettings>, run_dir: &Path) -> Restored {
    let mut restored = Restored::default();
    for mode in modes {
        match mode.leftovers().restore_settings(serving, run_dir) {
            Ok(done) => restored.done.extend(done),
            Err(error) => restored.failed.push(error),
        }
    }
    restored
}

/// Removes chains of iptables that no mode in force has.
fn sweep(known: &KnownChains, serving: &Serving<'_>, done: &mut TakenOver) -> Result<(), String> {
    let mut nft = nft::Netlink::open().map_err(|error| error.to_string())?;
    let ours = serving
        .program
        .zip(serving.settings.mode.chains())
        .map(|(variant, chains)| upstream::Ours { variant, chains });
    let taken = upstream::take_over(known, &mut Programs::find(), &mut nft, ours);
    let (again, stays): (Vec<_>, Vec<_>) = taken.problems.iter().partition(|problem| problem.retry_helps());
    done.removed.extend(taken.removed.iter().map(ToString::to_string));
    again.first().into_iter().for_each(|problem| done.fail(problem.to_string()));
    done.stays.extend(stays.iter().map(ToString::to_string));
    Ok(())
}

/// Removes all chains of iptables that a kube-proxy mode may have written, ours or upstream's: modes share some, so they go together.
pub(crate) fn clean_up_chains(known: &KnownChains) -> Result<CleanedUp, OpenError> {
    let mut nft = nft::Netlink::open().map_err(|error| OpenError::Host(error.to_string()))?;
    let done = upstream::clean_up(known, &mut Programs::find().waiting_for_lock(), &mut nft);
    let lines: Vec<String> = done.removed.iter().map(|removed| format!("Removed {removed}.\n")).collect();
    let text = match (&lines[..], &done.problems[..]) {
        ([], []) => {
            format!("No chain of the {} mode is in this kernel.\n", known.shared_cleanup().join(" or "))
        }
        ([], _) => "Nothing was removed.\n".to_owned(),
        (lines, _) => lines.concat(),
    };
    let warnings: Vec<String> = done.problems.iter().map(Problem::after_cleanup).collect();
    Ok(CleanedUp { text, warnings, tells_of_others: true })
}

/// Chains of iptables that a kube-proxy mode, ours or upstream's, has in this kernel, a sentence each. What cannot be looked into is not told.
pub fn remaining_chains(known: &KnownChains) -> Vec<String> {
    let Ok(mut nft) = nft::Netlink::open() else { return Vec::new() };
    let there = upstream::would_clean_up(known, &mut Programs::find(), &mut nft).removed;
    let sentence = |there: &Removed| {
        let mode = there.whose.cleanup_mode(known);
        let unless = if there.whose.is_ours() { "" } else { "unless upstream runs here, " };
        format!("{there} stay: {unless}`portway cleanup --mode {mode}` removes them")
    };
    there.iter().map(sentence).collect()
}

impl std::fmt::Debug for AllLeftovers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.modes.iter().map(|(mode, _)| mode)).finish()
    }
}

#[cfg(test)]
mod tests {
    use model::Promises;

    use super::*;
    use crate::mode::{Deployment, ModeSpec, OpenRequest, Opened, RenderRequest};

    /// A mode without chains, whose leftovers cannot be found where it is broken.
    struct Fake {
        name: &'static str,
        is_broken: bool,
    }

    static FIRST: Fake = Fake { name: "first", is_broken: true };
    static SECOND: Fake = Fake { name: "second", is_broken: true };
    static THIRD: Fake = Fake { name: "third", is_broken: false };
    const MODES: [Mode; 3] = [Mode::new(&FIRST), Mode::new(&SECOND), Mode::new(&THIRD)];

    impl Fake {
        fn find(&self) -> Result<&'static str, String> {
            if self.is_broken { Err(format!("{} is broken", self.name)) } else { Ok(self.name) }
        }
    }

    impl ModeSpec for Fake {
        fn name(&self) -> &'static str {
            self.name
        }

        fn about(&self) -> &'static str {
            ""
        }

        fn semantics(&self) -> Promises {
            Promises::default()
        }

        fn open(&self, _: &OpenRequest<'_>) -> Result<Opened, OpenError> {
            Err(OpenError::Host("it cannot be opened".to_owned()))
        }

        fn render(&self, _: &RenderRequest<'_>) -> String {
            String::new()
        }

        fn leftovers(&self) -> Box<dyn Leftovers> {
            Box::new(Fake { ..*self })
        }

        fn deployments(&self) -> &'static [Deployment] {
            &[]
        }
    }

    impl Leftovers for Fake {
        fn take_over(&mut self, _: &mut Serving<'_>, done: &mut TakenOver) -> Result<(), String> {
            done.removed.push(self.find()?.to_owned());
            Ok(())
        }

        fn restore_settings(
            &mut self,
            _: Option<&ModeSettings>,
            _: &Path,
        ) -> Result<Option<&'static str>, OpenError> {
            self.find().map(Some).map_err(OpenError::Host)
        }

        fn clean_up(&mut self, _: &CleanupRequest) -> Result<CleanedUp, OpenError> {
            Ok(CleanedUp::default())
        }
    }

    #[test]
    fn leftovers_that_cannot_be_found_neither_hide_nor_stop_those_of_other_modes() {
        let settings = ModeSettings::of(MODES[0]);
        let run_dir = Path::new("/nowhere");
        let mut forget = |_: &BTreeSet<StaleFlows>| Ok(());
        let mut serving = Serving { settings: &settings, program: None, run_dir, forget: &mut forget };
        let done = AllLeftovers::of(&MODES).take_over(&mut serving);
        assert_eq!(done.removed, ["third"]);
        assert_eq!(done.again.as_deref(), Some("first is broken; second is broken"));
        let Restored { done, failed } = restore_settings(&MODES, None, run_dir);
        let failed: Vec<String> = failed.iter().map(ToString::to_string).collect();
        assert_eq!(
            (done, failed),
            (vec!["third"], vec!["first is broken".into(), "second is broken".into()])
        );
    }
}
