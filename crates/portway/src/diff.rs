//! `portway diff`: compares this kernel with what it should hold. Nothing is written.

use std::sync::{Arc, Mutex};

use clap::Args;
use dataplane::relay::NoRelay;
use dataplane::{OpenRequest, registry};

use super::args::Shared;
use super::mode::{ModeArgs, ModeChoice, with_flags};
use super::mode_flags::{DiffOnly, ModeFlags, refuse_foreign_settings};
use super::run::failure;
use super::said::{Failure, Said};
use super::view::View;

const EXAMPLES: &str = "\
Examples:
  portway diff                                     the running portway's wishes
  portway diff --from /etc/portway                 what `portway run` would write

Needs root, or CAP_NET_ADMIN. Exit codes: 0 no difference, 1 a difference or a failure, 2 the command line is malformed.";

/// `portway diff`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct DiffArgs {
    #[command(flatten)]
    mode: ModeArgs,

    #[command(flatten)]
    own: ModeFlags<DiffOnly>,
}

/// Runs `portway diff`.
pub(super) fn run(args: &DiffArgs, shared: &Shared) -> Result<Said, Failure> {
    let ModeChoice { settings, config, warnings, .. } = args.mode.choose(shared)?;
    refuse_foreign_settings(settings.mode, &args.own.values)?;
    let View { picture, .. } = View::open_on_host(shared, config.as_ref())?;
    let settings = with_flags(settings, &args.own.values);
    if let Some(reason) = settings.mode.cannot_compare() {
        return Err(Failure::refused(reason));
    }
    // Nothing is opened: ports that rules lead to are assumed to be there.
    let relay = Arc::new(Mutex::new(NoRelay));
    let known_chains = registry::known_chains();
    let request = OpenRequest { settings: &settings, relay, run_dir: shared.run_dir(), known_chains };
    let mut opened = settings.mode.open(&request).map_err(|error| failure(&error.into()))?;
    let lines = opened.dataplane.differences(picture.table()).map_err(|error| Failure::because(&error))?;
    let said = Said::about(&picture, text(&lines)).with(warnings);
    Ok(Said { found_wrong: !lines.is_empty(), ..said })
}

fn text(lines: &[String]) -> String {
    if lines.is_empty() {
        return "No difference: this kernel holds what it should.\n".to_owned();
    }
    format!("# A sync would write this:\n{}\n", lines.join("\n"))
}
