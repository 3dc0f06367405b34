//! `portway diff`: compares this kernel with what it should hold. Nothing is written.

use clap::Args;
use dataplane::ipvs;
use dataplane::relay::Simulated;

use super::args::Shared;
use super::mode::{ModeArgs, ModeChoice, WITH_PROGRAM, if_given, refuse_foreign_options};
use super::run::failure;
use super::said::{Failure, Said};
use super::values::Words;
use super::view::{Memory, View};
use crate::modes::{Mode, Program};
use crate::run::{Wish, ipvs_doors, open};

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

    /// The iptables program of modes that use one; without it that of the running portway, or the one that this node uses
    #[arg(long, value_name = "PROGRAM", value_parser = Words::<Program>::called("program"))]
    iptables_program: Option<Program>,
}

/// Runs `portway diff`.
pub(super) fn run(args: &DiffArgs, shared: &Shared) -> Result<Said, Failure> {
    let ModeChoice { wish, config, warnings, .. } = args.mode.choose(shared)?;
    let program = if_given("--iptables-program", args.iptables_program.is_some());
    refuse_foreign_options(wish.mode, &[(program, WITH_PROGRAM)])?;
    let View { picture, .. } = View::open_on_host(shared, config.as_ref(), Memory::DryRun)?;
    let wish = Wish { program: args.iptables_program.unwrap_or(wish.program), ..wish };
    // Nothing is opened: ports that rules lead to are believed to be there.
    if wish.mode == Mode::Ipvs
        && let Err(ipvs::Error::Servers(kernel::ipvs::Error::Missing)) = ipvs_doors()
    {
        return Err(Failure::refused(
            "this kernel has no IPVS, so there is nothing to compare: load the module `ip_vs` (`modprobe ip_vs`); `portway render --mode ipvs` \
             shows what would be written",
        ));
    }
    let mut opened = open(&wish, Simulated::default()).map_err(|error| failure(&error))?;
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
