//! `portway cleanup`: removes from this kernel what portway wrote, in any version, and nothing else.

use std::collections::BTreeSet;

use clap::Args;
use dataplane::Dataplane as _;
use dataplane::nftables::Nftables;
use dataplane::upstream;
use kernel::nft::{self, Family, Kernel as _};
use kernel::xtables::Programs;

use super::args::Shared;
use super::render::{nftables_options, refuse_unoffered};
use super::run::failure;
use super::said::{Failure, Said};
use super::values::Words;
use crate::modes::Mode;
use crate::run::{Families, HostKernel, RunDir, RunError};

const EXAMPLES: &str = "\
Examples:
  portway cleanup
  portway cleanup --mode iptables                  the chains of the iptables mode, ours or upstream's, of both programs
  portway cleanup --force                          also while a portway runs, which will write its rules again

Services stop working on this node the moment their rules are gone.";

/// `portway cleanup`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct CleanupArgs {
    /// Also while a portway runs on this node
    #[arg(long)]
    force: bool,

    /// The mode whose rules go. Chains of the iptables mode have upstream's names, so they go only when they are asked for
    #[arg(long, value_parser = Words::<Mode>::called("mode"), default_value = "nftables")]
    mode: Mode,
}

/// Runs `portway cleanup`.
pub(super) fn run(args: &CleanupArgs, shared: &Shared) -> Result<Said, Failure> {
    if !args.force {
        RunDir::refuse_if_held(shared.run_dir()).map_err(|error| busy(&error))?;
    }
    refuse_unoffered(args.mode, "cleaned up")?;
    if args.mode == Mode::Iptables {
        return iptables();
    }
    let families = Families::probe().map_err(|error| failure(&error))?;
    let kernel = HostKernel::open(&families).map_err(|error| Failure::because(&error))?;
    let mut dataplane = Nftables::new(kernel, nftables_options(Mode::Nftables));
    let before = tables(dataplane.kernel())?;
    dataplane.cleanup().map_err(|error| Failure::because(&error))?;
    let after = tables(dataplane.kernel())?;
    Ok(Said { text: removed(&before.difference(&after).collect::<Vec<_>>()), ..Said::default() })
}

/// Behind the doors of both programs, and nothing of kubelet's.
fn iptables() -> Result<Said, Failure> {
    let mut nft = nft::Netlink::open().map_err(|error| Failure::because(&error))?;
    let done = upstream::clean_up(&mut Programs::find(), &mut nft);
    let lines: Vec<String> = done.removed.iter().map(|removed| format!("Removed {removed}.\n")).collect();
    let nothing = || "No chain of the iptables mode is in this kernel.\n".to_owned();
    let text = if lines.is_empty() { nothing() } else { lines.concat() };
    let warnings: Vec<String> = done.problems.iter().map(ToString::to_string).collect();
    Ok(Said { text, found_wrong: !warnings.is_empty(), warnings })
}

fn busy(error: &RunError) -> Failure {
    match error {
        RunError::Busy { pid, file } => Failure::refused(format!(
            "a portway runs on this node (process {pid}, which holds {}) and would write its rules again: stop it first, \
             or remove them all the same with `--force`",
            file.display()
        )),
        error => failure(error),
    }
}

/// `ip kube-proxy`, and so on: all tables of this kernel that could be ours.
fn tables(kernel: &mut HostKernel) -> Result<BTreeSet<String>, Failure> {
    let mut found = BTreeSet::new();
    for (family, word) in [(Family::Ip, "ip"), (Family::Ip6, "ip6")] {
        let tables = kernel.tables(family).map_err(|error| Failure::because(&error))?;
        found.extend(tables.iter().map(|table| format!("{word} {}", &*table.name)));
    }
    Ok(found)
}

fn removed(tables: &[&String]) -> String {
    if tables.is_empty() {
        return "Nothing of portway is in this kernel.\n".to_owned();
    }
    let lines: Vec<String> = tables.iter().map(|table| format!("Removed table {table}.\n")).collect();
    lines.concat()
}
