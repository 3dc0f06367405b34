//! The command line: a picture of one node, shown to people.
//!
//! In: arguments, and the files that they name. Out: text on standard output, warnings and errors on standard error, and an
//! exit code: 0 fine, 1 something is wrong with what was asked about, 2 the question itself is malformed.
//!
//! ```text
//!   args ──► view (loads the picture) ──► get | describe | explain | check | render | diff ──► Said ──► output
//!   args ──► run | status | cleanup ─────────────────────────────────────────────────────────► Said ──► output
//! ```
//!
//! Every command is a function from arguments to `said::Said` or `said::Failure`; only `output` prints.

mod age;
mod args;
mod check;
mod cleanup;
mod completions;
mod describe;
mod diff;
mod doctor;
mod explain;
mod flags;
mod format;
mod get;
mod kube;
mod kube_proxy;
mod logging;
mod mode;
mod mode_flags;
mod output;
mod render;
mod reports;
mod run;
mod said;
mod select;
mod serve;
mod status;
mod table;
mod tuning;
mod values;
mod view;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use config::kubeproxy::{Asked, Loaded};
use dataplane::registry;
use kernel::signal::Hangup;
use tracing_subscriber::filter::LevelFilter;

use args::{ColorWhen, Global, LogFormat, Shared};
use flags::Flags;
use output::Output;
use said::{Failure, Said};

/// The release of kube-proxy that behaviour is compared with.
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (compared with kube-proxy 1.37)");

const EXAMPLES: &str = "\
Examples:
  portway get services --from examples -A -o wide
  portway describe service mysql-service --from examples
  portway explain outside 192.0.2.10:30964 --from examples --node-ip 192.0.2.10
  portway check --from examples
  portway run --from /etc/portway                  as root: makes this kernel serve them

Exit codes: 0 fine, 1 something is wrong or not found, 2 the command line is malformed.";

/// A complete kube-proxy: Services as files or from a cluster, and an answer for every packet.
#[derive(Debug, Parser)]
#[command(name = "portway", version = VERSION, after_help = EXAMPLES, max_term_width = 110)]
#[command(subcommand_required = true, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    shared: Shared,
    #[command(flatten)]
    global: Global,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Lists Services, their endpoints, Pods, Nodes, or the routes of this node
    Get(get::GetArgs),
    /// Shows one Service closely
    Describe(describe::DescribeArgs),
    /// Tells what happens to a packet, and why
    Explain(explain::ExplainArgs),
    /// Looks for mistakes in manifests; writes nothing
    Check(check::CheckArgs),
    /// Shows what a mode would write to the kernel; needs no root
    Render(render::RenderArgs),
    /// Makes this kernel serve the Services, and follows their changes; needs root
    Run(run::RunArgs),
    /// Is upstream's kube-proxy: its flags, its config file, its defaults; the same as calling this program `kube-proxy`
    #[command(disable_help_flag = true)]
    KubeProxy {
        /// See `portway kube-proxy --help`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "FLAGS")]
        flags: Vec<String>,
    },
    /// Tells how the running portway is doing
    Status(status::StatusArgs),
    /// Looks for what on this host stops packets of Services: settings, routes, firewall rules
    Doctor(doctor::DoctorArgs),
    /// Compares this kernel with what it should hold
    Diff(diff::DiffArgs),
    /// Removes from this kernel what portway wrote, and nothing else
    Cleanup(cleanup::CleanupArgs),
    /// Prints a completion script for a shell
    Completions(completions::CompletionsArgs),
}

/// Runs the program with the arguments of this process.
pub fn run() -> ExitCode {
    // Before anything that takes time: a process that reloads on SIGHUP must not be ended by one that comes early. It cannot fail with a
    // signal that there is.
    let _ = Hangup::hold();
    let arguments: Vec<OsString> = std::env::args_os().collect();
    if let Some(words) = kube_proxy::among(&arguments) {
        return kube_proxy::run(&words);
    }
    let color = ColorWhen::among(&arguments);
    let mut command = Cli::command().color(color.into());
    let matches = match command.try_get_matches_from_mut(&arguments) {
        Ok(matches) => matches,
        Err(error) => return output::show_clap(&error),
    };
    match Cli::from_arg_matches(&matches) {
        Ok(cli) => answer(&cli, &flags::of(&command, &matches)),
        Err(error) => output::show_clap(&error),
    }
}

fn answer(cli: &Cli, flags: &Flags) -> ExitCode {
    if !matches!(cli.command, Command::Run(_)) {
        // What does not reload ends with its terminal.
        let _ = Hangup::release();
    }
    let (loaded, usual) = match &cli.command {
        Command::Run(args) => (args.load(), LevelFilter::INFO),
        _ => (Ok(None), LevelFilter::WARN),
    };
    let log = loaded
        .as_ref()
        .ok()
        .and_then(Option::as_ref)
        .map(|loaded| Asked::of(&loaded.document, registry::default_mode()).log);
    let of_document = if log.is_some_and(|log| log.is_json) { LogFormat::Json } else { LogFormat::Text };
    let format = cli.global.log_format.unwrap_or(of_document);
    let output = Output::new(cli.global.color, format);
    logging::start(format, output.colours_errors(), log.map_or(usual, |log| log.level));
    output.finish(&loaded.and_then(|loaded| obey(cli, loaded.as_ref(), flags, &output)))
}

fn obey(cli: &Cli, loaded: Option<&Loaded>, flags: &Flags, output: &Output) -> Result<Said, Failure> {
    match &cli.command {
        Command::Get(args) => get::run(args, &cli.shared),
        Command::Describe(args) => describe::run(args, &cli.shared),
        Command::Explain(args) => explain::run(args, &cli.shared, output.paint()),
        Command::Check(args) => check::run(args, &cli.shared, output.paint()),
        Command::Render(args) => render::run(args, &cli.shared),
        Command::Run(args) => run::run(args, &cli.shared, loaded, flags, output),
        Command::KubeProxy { .. } => {
            Err(Failure::usage("`kube-proxy` comes first: `portway kube-proxy FLAGS`"))
        }
        Command::Status(args) => status::run(args, &cli.shared),
        Command::Doctor(args) => doctor::run(args, &cli.shared, output.paint()),
        Command::Diff(args) => diff::run(args, &cli.shared),
        Command::Cleanup(args) => cleanup::run(args, &cli.shared),
        Command::Completions(args) => Ok(completions::run(args, &mut Cli::command())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_shown_with_their_values_and_defaults() {
        let mut command = Cli::command();
        let line = ["portway", "run", "--from", "a", "--from", "b", "--take-over", "--oom-score-adj", "-5"];
        let matches = command.try_get_matches_from_mut(line).expect("these are options");
        let flags = flags::of(&command, &matches);
        let value =
            |name: &str| flags.shown.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
        assert_eq!(
            (value("from"), value("take-over"), value("stand-by")),
            (Some("a,b"), Some("true"), Some("false"))
        );
        assert_eq!(
            (value("udp-timeout"), value("oom-score-adj"), value("mode")),
            (Some("30s"), Some("-5"), Some(""))
        );
        assert_eq!((value("successor"), value("help")), (None, None), "not for people");
        assert_eq!(flags.given, ["from", "oom-score-adj", "take-over"]);
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
