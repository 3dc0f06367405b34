//! `portway render`: what a mode would write to the kernel, as text, without root.
//!
//! Each mode plugs in with one arm of [`rules`].

use clap::Args;

use super::args::Shared;
use super::said::{Failure, Said};
use super::values::Words;
use crate::modes::Mode;

const EXAMPLES: &str = "\
Examples:
  portway render --mode nftables --from examples";

/// `portway render`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct RenderArgs {
    /// The mode
    #[arg(long, value_parser = Words::<Mode>::called("mode"), default_value = "nftables")]
    mode: Mode,
}

/// Runs `portway render`.
pub(super) fn run(args: &RenderArgs, _shared: &Shared) -> Result<Said, Failure> {
    rules(args.mode).map(|text| Said { text, ..Said::default() })
}

/// What a mode would write. A mode that can do so will take the picture here.
fn rules(mode: Mode) -> Result<String, Failure> {
    match mode {
        Mode::Nftables | Mode::Iptables | Mode::Ipvs | Mode::Userspace => Err(not_offered(mode)),
    }
}

fn not_offered(mode: Mode) -> Failure {
    Failure::refused(format!(
        "mode `{mode}` cannot be rendered yet: this release has no kernel side; `portway get routes` shows what it would have to do"
    ))
}
