//! `portway render`: what a mode would write to the kernel, as text, without root.
//!
//! Each mode plugs in with one arm of [`rules`].

use clap::Args;
use dataplane::{iptables, nftables, userspace};
use model::Family;

use super::args::Shared;
use super::mode::{ModeArgs, ModeChoice, Tracker};
use super::said::{Failure, Said};
use super::values::Words;
use super::view::{Memory, View};
use crate::modes::Mode;
use crate::picture::Picture;
use crate::run::Wish;

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
    let ModeChoice { wish, config, warnings, tracker } = args.mode.choose(shared)?;
    let View { picture, .. } = View::open_with(shared, config.as_ref(), Memory::DryRun)?;
    let text = rules(&wish, tracker, args.family.family(), &picture);
    Ok(Said::about(&picture, text).with(warnings))
}

/// What a mode would write.
fn rules(wish: &Wish, tracker: Tracker, family: Family, picture: &Picture) -> String {
    let nftables_options =
        || nftables::Options { drops_stray_replies: !tracker.is_strict, ..wish.nftables_options() };
    let iptables_options =
        || iptables::Options { drops_invalid: !tracker.is_liberal, ..wish.iptables_options() };
    match wish.mode {
        Mode::Nftables => nftables::render(picture.table(), &nftables_options()),
        Mode::Iptables => iptables::render(picture.table(), family, &iptables_options()),
        Mode::Userspace => userspace_rules(family, picture),
        Mode::Ipvs => dataplane::ipvs::render(picture.table(), family, &wish.ipvs_options()),
    }
}

/// Nothing listens here, so the ports are examples.
fn userspace_rules(family: Family, picture: &Picture) -> String {
    let default_node_port_addresses = Mode::Userspace.promises().default_node_port_addresses;
    let (table, options) = (picture.table(), userspace::Options { default_node_port_addresses });
    let rules = userspace::render(table, family, &options, userspace::Ports::examples(table));
    format!(
        "# The proxy's ports, from 40000 on, are examples: a running portway lets the kernel choose them.\n{rules}"
    )
}

/// What the mode promises, for the nftables dataplane.
pub(super) fn nftables_options(mode: Mode) -> nftables::Options {
    nftables::Options { promises: mode.promises(), ..nftables::Options::default() }
}
