//! `portway diff`: compares this kernel with what it should hold. Nothing is written.

use clap::Args;
use dataplane::nftables::Nftables;
use dataplane::{Dataplane as _, Scope, SyncError};
use model::ForwardingTable;

use super::args::Shared;
use super::render::{nftables_options, refuse_unoffered};
use super::run::failure;
use super::said::{Failure, Said};
use super::values::Words;
use super::view::{Memory, View};
use crate::modes::Mode;
use crate::run::{Families, HostKernel, Rehearsal};

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
}

/// Runs `portway diff`.
pub(super) fn run(args: &DiffArgs, shared: &Shared) -> Result<Said, Failure> {
    refuse_unoffered(args.mode, "compared")?;
    let View { picture, .. } = View::open_on_host(shared, Memory::DryRun)?;
    let families = Families::probe().map_err(|error| failure(&error))?;
    let kernel = HostKernel::open(&families).map_err(|error| Failure::because(&error))?;
    let script = rehearse(kernel, picture.table(), args.mode).map_err(|error| Failure::because(&error))?;
    let said = Said::about(&picture, text(&script));
    Ok(Said { found_wrong: !script.is_empty(), ..said })
}

/// What a full sync would write, with the deletions that it would leave for a moment later.
fn rehearse(kernel: HostKernel, desired: &ForwardingTable, mode: Mode) -> Result<String, SyncError> {
    let mut dataplane = Nftables::new(Rehearsal::on(kernel), nftables_options(mode));
    dataplane.sync(desired, Scope::Everything)?;
    dataplane.settle()?;
    Ok(dataplane.kernel().script())
}

fn text(script: &str) -> String {
    if script.is_empty() {
        return "No difference: this kernel holds what it should.\n".to_owned();
    }
    format!("# A sync would write this:\n{script}")
}
