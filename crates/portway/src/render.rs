//! `portway render`: what a mode would write to the kernel, as text, without root.

use clap::Args;
use dataplane::{RenderRequest, registry};
use model::Family;

use super::args::Shared;
use super::mode::{ModeArgs, ModeChoice};
use super::said::{Failure, Said};
use super::values::Words;
use super::view::View;

/// Those of each mode, and of all.
fn examples() -> String {
    let of_modes = registry::product_modes().flat_map(|mode| mode.render_examples());
    let all = of_modes.chain(&["--from /etc/portway --config /etc/portway/config.conf"]);
    let lines: Vec<String> = all.map(|arguments| format!("  portway render {arguments}")).collect();
    format!(
        "Examples:\n{}\n\n\
         nft 1.0.6 aborts on the text of a sticky IPv6 Service; newer ones read it. Writing to the kernel needs no nft.",
        lines.join("\n")
    )
}

/// `portway render`.
#[derive(Args, Debug)]
#[command(after_help = examples())]
pub(super) struct RenderArgs {
    #[command(flatten)]
    mode: ModeArgs,

    /// The family, for modes whose text is of one: each has a program of its own
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
    let View { picture, .. } = View::open_with(shared, config.as_ref())?;
    let (table, family) = (picture.table(), args.family.family());
    let request = RenderRequest { table, family, settings: &settings, tracker };
    let text = settings.mode.render(&request);
    Ok(Said::about(&picture, text).with(warnings))
}
