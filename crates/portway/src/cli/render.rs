//! `portway render`: what a mode would write to the kernel, as text, without root.
//!
//! Each mode plugs in with one arm of [`rules`].

use clap::Args;
use dataplane::nftables;

use super::args::Shared;
use super::said::{Failure, Said};
use super::values::Words;
use super::view::{Memory, View};
use crate::modes::Mode;
use crate::picture::Picture;

const EXAMPLES: &str = "\
Examples:
  portway render --mode nftables --from examples
  portway render --from examples | nft -c -f -          asks nft whether it understands

nft 1.0.6 aborts on the text of a sticky IPv6 Service; newer ones read it. Writing to the kernel needs no nft.";

/// `portway render`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct RenderArgs {
    /// The mode
    #[arg(long, value_parser = Words::<Mode>::called("mode"), default_value = "nftables")]
    mode: Mode,
}

/// Runs `portway render`.
pub(super) fn run(args: &RenderArgs, shared: &Shared) -> Result<Said, Failure> {
    refuse_unoffered(args.mode, "rendered")?;
    let View { picture, .. } = View::open(shared, Memory::Kept)?;
    let text = rules(args.mode, &picture);
    Ok(Said::about(&picture, text))
}

/// What a mode would write.
fn rules(mode: Mode, picture: &Picture) -> String {
    match mode {
        Mode::Nftables => nftables::render(picture.table(), &nftables_options(mode)),
        Mode::Iptables | Mode::Ipvs | Mode::Userspace => String::new(),
    }
}

/// What the mode promises, for the nftables dataplane.
pub(super) fn nftables_options(mode: Mode) -> nftables::Options {
    nftables::Options { promises: mode.promises(), ..nftables::Options::default() }
}

/// Refuses a mode that has no kernel side yet.
pub(super) fn refuse_unoffered(mode: Mode, done: &str) -> Result<(), Failure> {
    match mode {
        Mode::Nftables => Ok(()),
        Mode::Iptables | Mode::Ipvs | Mode::Userspace => Err(Failure::refused(format!(
            "mode `{mode}` cannot be {done} yet: this release has no kernel side for it; use `--mode nftables`, and \
             `portway get routes` shows what a mode would have to do"
        ))),
    }
}
