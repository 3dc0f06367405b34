//! `portway cleanup`: removes from this kernel what portway wrote, in any version, and nothing else.

use std::path::Path;

use agent::{RunDir, RunError};
use clap::Args;
use dataplane::leftovers::{self, CleanedUp, CleanupRequest, Restored, remaining_chains};
use dataplane::settings::Values;
use dataplane::{Mode, OpenError, registry, resets};
use observe::socket;
use observe::status::Status;

use super::args::Shared;
use super::mode_flags::{Cleanup, ModeFlags, ModeName, refuse_foreign_settings};
use super::run::failure;
use super::said::{Failure, Said};

/// A line for each mode, in its words.
fn examples() -> String {
    let command = |mode: Mode| {
        if mode == registry::default_mode() { "cleanup".to_owned() } else { format!("cleanup --mode {mode}") }
    };
    let of_modes = registry::product_modes().map(|mode| (command(mode), mode.cleanup_about()));
    let force = ("cleanup --force".to_owned(), "also while a portway runs, which will write its rules again");
    let line = |(command, about): (String, &str)| format!("  portway {command:<40} {about}");
    let lines: Vec<String> = of_modes.chain([force]).map(line).collect();
    format!(
        "Examples:\n{}\n\nServices stop working on this node the moment their rules are gone.",
        lines.join("\n")
    )
}

/// `portway cleanup`.
#[derive(Args, Debug)]
#[command(after_help = examples())]
pub(super) struct CleanupArgs {
    /// Also while a portway runs on this node
    #[arg(long)]
    force: bool,

    /// The mode whose rules go. Without it those of the default mode go, and what there is of others is told: chains have upstream's names,
    /// so those of all modes go only when they are asked for, and together
    #[arg(long, value_parser = ModeName)]
    mode: Option<Mode>,

    #[command(flatten)]
    own: ModeFlags<Cleanup>,
}

/// Runs `portway cleanup`.
pub(super) fn run(args: &CleanupArgs, shared: &Shared) -> Result<Said, Failure> {
    let mode = args.mode.unwrap_or_else(registry::default_mode);
    refuse_foreign_settings(mode, &args.own.values)?;
    if !args.force {
        RunDir::refuse_if_held(shared.run_dir()).map_err(|error| busy(&error, mode, shared))?;
    }
    let restored = restore_settings(shared.run_dir());
    let request = CleanupRequest {
        own: args.own.values.clone(),
        run_dir: shared.run_dir().to_owned(),
        of_other_programs: false,
        known_chains: registry::known_chains(),
    };
    let cleaned = mode.leftovers().clean_up(&request).map_err(refused)?;
    let tells_of_others = args.mode.is_none() || cleaned.tells_of_others;
    let mut said = restored;
    add(&mut said, Ok(self::said(cleaned)));
    if tells_of_others {
        tell_of_others(mode, shared.run_dir(), &mut said);
    }
    // After the mode's own rules: what keeps those from going is told in the mode's words.
    if let Err(Failure::Usage(message) | Failure::Refused { message, .. }) = remove_resets() {
        said.warnings.push(message);
    }
    let found_wrong = !said.warnings.is_empty();
    Ok(Said { found_wrong, ..said })
}

/// Removes what every mode wrote, ours or upstream's, as upstream's `--cleanup` does, but for what is excluded: `own` are the settings of
/// each mode. One that fails does not keep the others from it.
pub(super) fn everything(run_dir: &Path, own: impl Fn(Mode) -> Values) -> Result<Said, Failure> {
    RunDir::refuse_if_held(run_dir).map_err(|error| match error {
        RunError::Busy { pid, file } => Failure::refused(format!(
            "a portway runs on this node (process {pid}, which holds {}) and would write its rules again: stop it first",
            file.display()
        )),
        error => failure(&error),
    })?;
    let mut all = restore_settings(run_dir);
    let mut has_chains = false;
    for mode in registry::MODES {
        // Chains of all modes go at once.
        if shares_chains(*mode) && std::mem::replace(&mut has_chains, true) {
            continue;
        }
        let request = CleanupRequest {
            own: own(*mode),
            run_dir: run_dir.to_owned(),
            of_other_programs: true,
            known_chains: registry::known_chains(),
        };
        add(&mut all, mode.leftovers().clean_up(&request).map(said).map_err(refused));
    }
    add(&mut all, remove_resets().map(|()| Said::default()));
    Ok(all)
}

fn add(all: &mut Said, result: Result<Said, Failure>) {
    match result {
        Ok(more) => {
            all.text += &more.text;
            all.warnings.extend(more.warnings);
            all.found_wrong |= more.found_wrong;
        }
        Err(Failure::Usage(message) | Failure::Refused { message, .. }) => {
            all.warnings.push(message);
            all.found_wrong = true;
        }
    }
}

/// Settings of the kernel that a portway made for a mode are as they were before.
fn restore_settings(run_dir: &Path) -> Said {
    let Restored { done, failed } = leftovers::restore_settings(registry::MODES, None, run_dir);
    let text = done.iter().flat_map(|restored| [restored, ".\n"]).collect();
    let mut said = Said { text, ..Said::default() };
    for error in failed {
        add(&mut said, Err(refused(error)));
    }
    said
}

/// Whether its chains go with those of other modes.
fn shares_chains(mode: Mode) -> bool {
    mode.chains().is_some_and(|chains| !chains.has_own_cleanup)
}

fn said(cleaned: CleanedUp) -> Said {
    let CleanedUp { text, warnings, .. } = cleaned;
    Said { text, found_wrong: !warnings.is_empty(), warnings }
}

fn refused(error: OpenError) -> Failure {
    failure(&error.into())
}

/// What other modes have in this kernel may be upstream's: it stays, with a word.
fn tell_of_others(cleaned: Mode, run_dir: &Path, said: &mut Said) {
    if !shares_chains(cleaned) {
        said.warnings.extend(remaining_chains(registry::known_chains()));
    }
    for mode in registry::MODES.iter().filter(|mode| **mode != cleaned) {
        said.warnings.extend(mode.leftovers().remaining(run_dir));
    }
}

/// The table that resets connections of vanished Pods stands beside every mode's rules.
fn remove_resets() -> Result<(), Failure> {
    resets::clean_up().map_err(|error| Failure::because(&error))
}

/// A portway that runs in another mode does not write again what is removed here; but it may be taking it over just now.
fn busy(error: &RunError, asked: Mode, shared: &Shared) -> Failure {
    let RunError::Busy { pid, file } = error else { return failure(error) };
    let running = socket::status(shared.run_dir()).ok().as_ref().and_then(Status::known_mode);
    let file = file.display();
    Failure::refused(match running {
        Some(running) if running != asked => format!(
            "a portway runs on this node in mode `{running}` (process {pid}, which holds {file}): its rules stay; remove what mode \
             `{asked}` left beside it with `--force`"
        ),
        _ => format!(
            "a portway runs on this node (process {pid}, which holds {file}) and would write its rules again: stop it first, or remove \
             them all the same with `--force`"
        ),
    })
}
