//! `portway diff`: compares this kernel with what it should hold. Nothing is written.

use clap::Args;

use super::args::Shared;
use super::render::refuse_unoffered;
use super::run::failure;
use super::said::{Failure, Said};
use super::values::Words;
use super::view::{Memory, View};
use crate::modes::{Mode, Program};
use crate::run::open;

const EXAMPLES: &str = "\
Examples:
  portway diff                                     the running portway's wishes
  portway diff --from /etc/portway                 what `portway run` would write

Needs root, or CAP_NET_ADMIN. Exit codes: 0 no difference, 1 a difference or a failure, 2 the command line is malformed.";

/// `portway diff`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct DiffArgs {
    /// The mode
    #[arg(long, value_parser = Words::<Mode>::called("mode"), default_value = "nftables")]
    mode: Mode,

    /// The iptables program of modes that use one
    #[arg(long, value_name = "PROGRAM", value_parser = Words::<Program>::called("program"), default_value = "auto")]
    iptables_program: Program,
}

/// Runs `portway diff`.
pub(super) fn run(args: &DiffArgs, shared: &Shared) -> Result<Said, Failure> {
    refuse_unoffered(args.mode, "compared")?;
    let View { picture, .. } = View::open_on_host(shared, Memory::DryRun)?;
    let mut opened = open(args.mode, args.iptables_program, false).map_err(|error| failure(&error))?;
    let lines = opened.dataplane.differences(picture.table()).map_err(|error| Failure::because(&error))?;
    let said = Said::about(&picture, text(&lines));
    Ok(Said { found_wrong: !lines.is_empty(), ..said })
}

fn text(lines: &[String]) -> String {
    if lines.is_empty() {
        return "No difference: this kernel holds what it should.\n".to_owned();
    }
    format!("# A sync would write this:\n{}\n", lines.join("\n"))
}
