//! `portway explain`: what happens to a packet, and which field of which object makes it so.
//!
//! `question` reads the words, `resolve` makes a packet of them, the model answers, `answer` says it with its `notes`
//! and the `holders` of an address.

mod answer;
mod holders;
mod notes;
mod outside;
mod question;
mod resolve;

use clap::Args;
use model::{Answer, Fate, Packet, Why};

use super::args::Shared;
use super::doctor::doctor;
use super::format::{self, Structured};
use super::mode::{ModeArgs, ModeChoice};
use super::output::Paint;
use super::said::{Failure, Said};
use super::values::{Sentence, Words, name};
use super::view::View;
use holders::Holders;
use question::{Destination, Source};

use observe::doctor::Doctor;
use observe::picture::Picture;
use observe::socket;

const EXAMPLES: &str = "\
Examples:
  portway explain 10.244.1.5 10.96.0.10:53/udp --from examples
  portway explain outside 192.0.2.10:30964 --from examples --node-ip 192.0.2.10
  portway explain pod/mysql-0 default/mysql-service:3306 --from examples
  portway explain fd00:10:244:1::9 '[fd00:10:96::7]:80' --from examples
  portway explain 10.244.1.5 10.96.0.1 --from examples       a ping
  portway explain node 127.0.0.1:30964 --from /etc/portway --config /etc/portway/config.conf

The exit code is 0 whatever happens to the packet.";

/// `portway explain`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct ExplainArgs {
    /// Who sends it: an address, a Pod (`pod/NAME`, `NAME` or `NAMESPACE/NAME`), `node` for this node, or `outside`
    #[arg(value_parser = Sentence(question::source))]
    source: Source,

    /// Where to: `ADDRESS:PORT` or `SERVICE:PORT`, with `/tcp`, `/udp` or `/sctp`, TCP by default; `[ADDRESS]:PORT` for
    /// IPv6; an address without port is pinged; a Service is `NAME` or `NAMESPACE/NAME`, its port a name or a number
    #[arg(value_parser = Sentence(question::destination))]
    destination: Destination,

    /// The interface that it comes in through; needed where pods are known by their interface
    #[arg(long, value_name = "NAME", value_parser = Sentence(name))]
    interface: Option<String>,

    #[command(flatten)]
    mode: ModeArgs,

    /// The namespace of Pods and Services that are named without one
    #[arg(short, long, value_name = "NAMESPACE", value_parser = Sentence(name), default_value = "default")]
    namespace: String,

    /// The answer for a program
    #[arg(short, long, value_name = "FORMAT", value_parser = Words::<Structured>::called("format"))]
    output: Option<Structured>,
}

/// What else on this host decides about the packet.
fn on_this_host(picture: &Picture, packet: &Packet, answer: &Answer, doctor: &Doctor) -> Vec<String> {
    let findings = match &answer.fate {
        Fate::OneOf(one_of) => doctor.decides(picture.table(), packet, one_of),
        Fate::Dropped => doctor.decides_node(picture),
        Fate::Untouched if answer.why.iter().any(|why| matches!(why, Why::NodePortElsewhere { .. })) => {
            doctor.decides_node(picture)
        }
        Fate::Untouched | Fate::Rejected => Vec::new(),
    };
    notes::on_host(&findings)
}

/// Runs `portway explain`.
pub(super) fn run(args: &ExplainArgs, shared: &Shared, paint: Paint) -> Result<Said, Failure> {
    let ModeChoice { settings, config, warnings, .. } = args.mode.choose(shared)?;
    let View { picture, .. } = View::open_with(shared, config.as_ref())?;
    let mut asked = resolve::packet(&picture, args).map_err(|message| Failure::about(&picture, message))?;
    let answer = picture.table().fate(&asked.packet, &settings.semantics());
    asked.notes.extend(notes::on_answer(&picture, &asked.packet, &answer));
    // Files may describe any node; a running portway is asked about this one.
    if shared.named_sources().is_empty() {
        asked.notes.extend(on_this_host(&picture, &asked.packet, &answer, &doctor(&settings)));
        asked.notes.extend(
            socket::status(shared.run_dir()).ok().and_then(|status| notes::on_leftovers(&status, &answer)),
        );
    }
    let holders = Holders::of(&picture, &asked.packet, &answer);
    asked.notes.extend(holders.note());
    let explained =
        answer::Explained { picture: &picture, mode: settings.mode, asked: &asked, answer: &answer, holders };
    let text = match args.output {
        Some(format) => format::value(&explained.value(), format)?,
        None => explained.text(paint),
    };
    Ok(Said::about(&picture, text).with(warnings))
}
