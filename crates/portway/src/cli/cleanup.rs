//! `portway cleanup`: removes from this kernel what portway wrote, in any version, and nothing else.

use std::collections::BTreeSet;
use std::path::Path;

use clap::{Args, ValueEnum as _};
use dataplane::Dataplane as _;
use dataplane::ipvs::{self, Traces};
use dataplane::nftables::{self, Nftables};
use dataplane::resets;
use dataplane::upstream::{self, Problem, Removed};
use kernel::nft::{self, Family, Kernel as _};
use kernel::xtables::Programs;

use super::args::Shared;
use super::ipvs::ExcludedArgs;
use super::mode::refuse_foreign_options;
use super::render::nftables_options;
use super::run::failure;
use super::said::{Failure, Said};
use super::values::Words;
use crate::host;
use crate::modes::{Mode, Program};
use crate::run::{Families, HostKernel, Localnet, RunDir, RunError, ipvs_doors, ipvs_of_this_machine};
use crate::socket;

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
        RunDir::refuse_if_held(shared.run_dir()).map_err(|error| busy(&error, args.mode, shared))?;
    }
    let closed = Localnet::new(shared.run_dir()).close().map_err(|error| failure(&error))?;
    let mut said = match args.mode {
        Some(Mode::Iptables | Mode::Userspace) => iptables().map(tell_of_ipvs),
        Some(Mode::Ipvs) => ipvs(&args.excluded),
        Some(Mode::Nftables) => nftables(),
        None => nftables().map(tell_of_chains).map(tell_of_ipvs),
    }?;
    // After the mode's own rules: what keeps those from going is told in the mode's words.
    if let Err(Failure::Usage(message) | Failure::Refused { message, .. }) = remove_resets() {
        said.warnings.push(message);
        said.found_wrong = true;
    }
    let text = closed.map(|closed| format!("{closed}.\n")).unwrap_or_default() + &said.text;
    Ok(Said { text, ..said })
}

/// Removes what every mode wrote, ours or upstream's, as upstream's `--cleanup` does, but for what is excluded. One that fails does not keep
/// the others from it.
pub(super) fn everything(run_dir: &Path, excluded: &ExcludedArgs) -> Result<Said, Failure> {
    RunDir::refuse_if_held(run_dir).map_err(|error| match error {
        RunError::Busy { pid, file } => Failure::refused(format!(
            "a portway runs on this node (process {pid}, which holds {}) and would write its rules again: stop it first",
            file.display()
        )),
        error => failure(&error),
    })?;
    let closed = Localnet::new(run_dir).close().map_err(|error| failure(&error))?;
    let mut said =
        Said { text: closed.map(|closed| format!("{closed}.\n")).unwrap_or_default(), ..Said::default() };
    let mut results = vec![iptables(), all_of_nftables(), remove_resets().map(|()| Said::default())];
    if host::has_ipvs() {
        results.push(ipvs(excluded));
    }
    for result in results {
        match result {
            Ok(more) => {
                said.text += &more.text;
                said.warnings.extend(more.warnings);
                said.found_wrong |= more.found_wrong;
            }
            Err(Failure::Usage(message) | Failure::Refused { message, .. }) => {
                said.warnings.push(message);
                said.found_wrong = true;
            }
        }
    }
    Ok(said)
}

/// The table that resets connections of vanished Pods stands beside every mode's rules. A kernel without `nf_tables` has none.
fn remove_resets() -> Result<(), Failure> {
    let Ok(mut nft) = nft::Netlink::open() else { return Ok(()) };
    resets::remove(&mut nft).map(drop).map_err(|error| Failure::because(&error))
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

/// Tables of that name, whoever wrote them.
fn all_of_nftables() -> Result<Said, Failure> {
    let families = Families::probe().map_err(|error| failure(&error))?;
    let mut kernel = HostKernel::open(&families).map_err(|error| Failure::because(&error))?;
    let gone = nftables::take_over(&mut kernel).map_err(|error| Failure::because(&error))?;
    let lines: Vec<String> = gone.iter().map(|table| format!("Removed {table}.\n")).collect();
    let text = if lines.is_empty() {
        "No table `kube-proxy` is in this kernel.\n".to_owned()
    } else {
        lines.concat()
    };
    Ok(Said { text, ..Said::default() })
}

/// Behind the doors of both programs, and nothing of kubelet's. Chains of the iptables and of the userspace mode go together: they
/// share some.
fn iptables() -> Result<Said, Failure> {
    let mut nft = nft::Netlink::open().map_err(|error| Failure::because(&error))?;
    let done = upstream::clean_up(&mut Programs::find().waiting_for_lock(), &mut nft);
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
    if let Err(ipvs::Error::Servers(kernel::ipvs::Error::Missing)) = ipvs_doors() {
        let text = "This kernel has no IPVS, so there is nothing of the ipvs mode to remove.\n".to_owned();
        return Ok(tell_of_chains(Said { text, ..Said::default() }));
    }
    let options = ipvs::Options { excluded: excluded.ipvs_exclude_cidrs.clone(), ..ipvs::Options::default() };
    let (mut dataplane, _) =
        ipvs_of_this_machine(Program::Auto, options.clone()).map_err(|error| failure(&error))?;
    let found = Traces::read(dataplane.doors(), &options).map_err(|error| Failure::because(&error))?;
    let found = found.with_chains(dataplane.programs());
    let is_forgotten = ipvs::are_settings_forgotten(&mut dataplane.doors().sets)
        .map_err(|error| Failure::because(&error))?;
    dataplane.cleanup().map_err(|error| Failure::because(&error))?;
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
    Ok(warned(Said { text, ..Said::default() }, warning))
}

/// Chains of other modes may be ours or upstream's: they stay, with a word. What cannot be looked into is not told.
fn tell_of_chains(said: Said) -> Said {
    let Ok(mut nft) = nft::Netlink::open() else { return said };
    let there = upstream::would_clean_up(&mut Programs::find(), &mut nft).removed;
    let warning = |there: &Removed| {
        let mode = if there.whose.is_ipvs() { Mode::Ipvs } else { Mode::Iptables };
        let unless = if there.whose.is_ours() { "" } else { "unless upstream runs here, " };
        format!("{there} stay: {unless}`portway cleanup --mode {mode}` removes them")
    };
    warned(said, there.iter().map(warning))
}

/// Virtual servers, sets and addresses stay likewise. A kernel that has no IPVS is not asked: that would load modules.
fn tell_of_ipvs(said: Said) -> Said {
    if !host::has_ipvs() {
        return said;
    }
    let Ok(mut doors) = ipvs_doors() else { return said };
    let found = Traces::read(&mut doors, &ipvs::Options::default()).unwrap_or_default();
    let warning = format!(
        "{found} of the ipvs mode stay: unless upstream runs here in that mode, `portway cleanup --mode ipvs` removes them"
    );
    warned(said, Some(warning).filter(|_| !found.is_empty()))
}

fn warned(said: Said, more: impl IntoIterator<Item = String>) -> Said {
    let warnings: Vec<String> = said.warnings.into_iter().chain(more).collect();
    Said { found_wrong: said.found_wrong || !warnings.is_empty(), warnings, ..said }
}

/// A portway that runs in another mode does not write again what is removed here; but it may be taking it over just now.
fn busy(error: &RunError, asked: Option<Mode>, shared: &Shared) -> Failure {
    let RunError::Busy { pid, file } = error else { return failure(error) };
    let running =
        socket::status(shared.run_dir()).ok().and_then(|status| Mode::from_str(&status.mode, false).ok());
    let asked = asked.unwrap_or(Mode::Nftables);
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
