//! `portway cleanup`: removes from this kernel what portway wrote, in any version, and nothing else.

use std::collections::BTreeSet;

use clap::Args;
use dataplane::Dataplane as _;
use dataplane::ipvs;
use dataplane::nftables::Nftables;
use dataplane::upstream::{self, Problem};
use kernel::nft::{self, Family, Kernel as _};
use kernel::xtables::Programs;

use super::args::Shared;
use super::ipvs::ExcludedArgs;
use super::mode::refuse_foreign_options;
use super::render::nftables_options;
use super::run::failure;
use super::said::{Failure, Said};
use super::values::Words;
use crate::modes::{Mode, Program};
use crate::run::{Families, HostKernel, Localnet, RunDir, RunError, open_ipvs};

const EXAMPLES: &str = "\
Examples:
  portway cleanup                                  the tables of the nftables mode
  portway cleanup --mode iptables                  the chains of the iptables mode, ours or upstream's, of both programs
  portway cleanup --mode userspace                 the same: also those that upstream's old userspace mode left
  portway cleanup --mode ipvs                      virtual servers, sets, addresses and rules, ours or upstream's
  portway cleanup --force                          also while a portway runs, which will write its rules again

Services stop working on this node the moment their rules are gone.";

/// `portway cleanup`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct CleanupArgs {
    /// Also while a portway runs on this node
    #[arg(long)]
    force: bool,

    /// The mode whose rules go. Without it those of nftables go, and what there is of others is told: chains of the modes iptables and
    /// userspace have upstream's names, so they go only when they are asked for, and together
    #[arg(long, value_parser = Words::<Mode>::called("mode"))]
    mode: Option<Mode>,

    #[command(flatten)]
    excluded: ExcludedArgs,
}

/// Runs `portway cleanup`.
pub(super) fn run(args: &CleanupArgs, shared: &Shared) -> Result<Said, Failure> {
    refuse_foreign_options(args.mode.unwrap_or(Mode::Nftables), &[(args.excluded.given(), &[Mode::Ipvs])])?;
    if !args.force {
        RunDir::refuse_if_held(shared.run_dir()).map_err(|error| busy(&error))?;
    }
    let closed = Localnet::new(shared.run_dir()).close().map_err(|error| failure(&error))?;
    let said = match args.mode {
        Some(Mode::Iptables | Mode::Userspace) => iptables(),
        Some(Mode::Ipvs) => ipvs(&args.excluded),
        Some(Mode::Nftables) => nftables(),
        None => nftables().map(tell_others),
    }?;
    let text = closed.map(|closed| format!("{closed}.\n")).unwrap_or_default() + &said.text;
    Ok(Said { text, ..said })
}

fn nftables() -> Result<Said, Failure> {
    let families = Families::probe().map_err(|error| failure(&error))?;
    let kernel = HostKernel::open(&families).map_err(|error| Failure::because(&error))?;
    let mut dataplane = Nftables::new(kernel, nftables_options(Mode::Nftables));
    let before = tables(dataplane.kernel())?;
    dataplane.cleanup().map_err(|error| Failure::because(&error))?;
    let after = tables(dataplane.kernel())?;
    Ok(Said { text: removed(&before.difference(&after).collect::<Vec<_>>()), ..Said::default() })
}

/// Behind the doors of both programs, and nothing of kubelet's. Chains of the iptables and of the userspace mode go together: they
/// share some.
fn iptables() -> Result<Said, Failure> {
    let mut nft = nft::Netlink::open().map_err(|error| Failure::because(&error))?;
    let done = upstream::clean_up(&mut Programs::find(), &mut nft);
    let lines: Vec<String> = done.removed.iter().map(|removed| format!("Removed {removed}.\n")).collect();
    let text = match (&lines[..], &done.problems[..]) {
        ([], []) => "No chain of the iptables or userspace mode is in this kernel.\n".to_owned(),
        ([], _) => "Nothing was removed.\n".to_owned(),
        (lines, _) => lines.concat(),
    };
    let warnings: Vec<String> = done.problems.iter().map(Problem::after_cleanup).collect();
    Ok(Said { text, found_wrong: !warnings.is_empty(), warnings })
}

/// Virtual servers, addresses, rules and sets; settings are as they were before.
fn ipvs(excluded: &ExcludedArgs) -> Result<Said, Failure> {
    let options = ipvs::Options { excluded: excluded.ipvs_exclude_cidrs.clone(), ..ipvs::Options::default() };
    let opened = open_ipvs(Program::Auto, options).map_err(|error| failure(&error))?;
    let mut dataplane = opened.dataplane;
    dataplane.cleanup().map_err(|error| Failure::because(&error))?;
    Ok(Said { text: "Removed what the ipvs mode wrote.\n".to_owned(), ..Said::default() })
}

/// Chains of other modes may be ours or upstream's: they stay, with a word. What cannot be looked into is not told.
fn tell_others(said: Said) -> Said {
    let Ok(mut nft) = nft::Netlink::open() else { return said };
    let there = upstream::would_clean_up(&mut Programs::find(), &mut nft).removed;
    let warnings: Vec<String> = there
        .iter()
        .map(|there| {
            format!("{there} stay: unless upstream runs here, `portway cleanup --mode iptables` removes them")
        })
        .collect();
    Said { found_wrong: said.found_wrong || !warnings.is_empty(), warnings, ..said }
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
        return "No table of portway is in this kernel.\n".to_owned();
    }
    let lines: Vec<String> = tables.iter().map(|table| format!("Removed table {table}.\n")).collect();
    lines.concat()
}
