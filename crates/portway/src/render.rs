//! `portway render`: what a mode would write to the kernel, as text, without root.

use clap::Args;
use dataplane::RenderRequest;
use model::Family;

use super::args::Shared;
use super::mode::{ModeArgs, ModeChoice};
use super::said::{Failure, Said};
use super::values::Words;
use super::view::{Memory, View};

const EXAMPLES: &str = "\
Examples:
  portway render --mode nftables --from examples
  portway render --from examples | nft -c -f -          asks nft whether it understands
  portway render --mode iptables --from examples | iptables-restore --noflush --test
  portway render --mode iptables --family ipv6 --from examples | ip6tables-restore --noflush --test
  portway render --mode userspace --from examples       the chains of the first guides; ports are examples
  portway render --mode ipvs --from examples            sets, virtual servers, rules and addresses
  portway render --from /etc/portway --config /etc/portway/config.conf

nft 1.0.6 aborts on the text of a sticky IPv6 Service; newer ones read it. Writing to the kernel needs no nft.";

/// `portway render`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct RenderArgs {
    #[command(flatten)]
    mode: ModeArgs,

    /// Modes iptables, userspace and ipvs: the family, of which each has a program of its own
    #[arg(long, value_name = "FAMILY", value_parser = Words::<FamilyName>::called("family"), default_value = "ipv4")]
    family: FamilyName,
}

/// A family, as it is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum FamilyName {
    Ipv4,
    Ipv6,
}

impl FamilyName {
    fn family(self) -> Family {
        match self {
            Self::Ipv4 => Family::V4,
            Self::Ipv6 => Family::V6,
        }
    }
}

/// Runs `portway render`.
pub(super) fn run(args: &RenderArgs, shared: &Shared) -> Result<Said, Failure> {
    let ModeChoice { settings, config, warnings, tracker } = args.mode.choose(shared)?;
    let View { picture, .. } = View::open_with(shared, config.as_ref(), Memory::DryRun)?;
    let (table, family) = (picture.table(), args.family.family());
    let request = RenderRequest { table, family, settings: &settings, tracker };
    let text = settings.mode.render(&request);
    Ok(Said::about(&picture, text).with(warnings))
}
