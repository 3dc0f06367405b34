//! `portway run`: makes this kernel serve the Services, until the process is asked to end.
//!
//! What the options do not say, the document of `--config` does; what neither says is as it is by default.

mod options;

pub(super) use options::{RunArgs, ports_of_document};

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use agent::{End, RunError, Successor};
use apiserver::{Access, AccessError, KubeconfigFile};
use config::kubeproxy::{self, Loaded};
use config::{Objections, Origin, Settings};
use dataplane::programs;
use model::Config;

use super::args::Shared;
use super::flags::Flags;
use super::logging;
use super::output::Output;
use super::said::{Failure, Said};
use super::view::refusal;

/// Runs `portway run`, with the document of `--config`.
pub(super) fn run(
    args: &RunArgs,
    shared: &Shared,
    loaded: Option<&Loaded>,
    flags: &Flags,
    output: &Output,
) -> Result<Said, Failure> {
    loaded.iter().flat_map(|loaded| &loaded.warnings).for_each(|warning| tracing::warn!("{warning}"));
    until_the_end(&args.settings(shared, loaded, flags, output)?, output, failure_by_options)
}

/// What goes before fields of a document: these options, and the environment for the log.
pub(super) fn over_fields(options: &[String]) -> BTreeMap<&'static str, String> {
    let mut over = kubeproxy::over_fields(options);
    if logging::is_chosen_by_environment() {
        over.insert("logging.verbosity", logging::ENVIRONMENT.to_owned());
    }
    over
}

/// An API server as the source. Where nobody names one, `or` says what else could be.
pub(super) fn server(
    kubeconfig: Option<KubeconfigFile>,
    master: Option<String>,
    config: &Config,
    or: &str,
) -> Result<Origin, Failure> {
    let access = Access::choose(kubeconfig, master).map_err(|error| match error {
        AccessError::Nowhere => Failure::usage(format!("{error}{or}")),
        AccessError::Unusable(_) => Failure::usage(error.to_string()),
    })?;
    Ok(Origin::Server(apiserver::Settings {
        access,
        node_name: config.node_name.clone(),
        service_proxy_name: config.service_proxy_name.clone(),
        pace: apiserver::Pace::default(),
    }))
}

/// Runs until the process is asked to end, or another goes on in its place. `failure` is what a command says where it cannot.
pub(super) fn until_the_end(
    settings: &Settings,
    output: &Output,
    failure: fn(&RunError) -> Failure,
) -> Result<Said, Failure> {
    let Objections { errors, warnings } = settings.objections();
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    if !errors.is_empty() {
        return Err(Failure::refused(errors.join("; ")));
    }
    match agent::run(settings, &mut |line| output.say(line)).map_err(|error| failure(&error))? {
        End::Stopped => Ok(Said::default()),
        End::HandedOver(successor) => Err(stand_by(successor)),
    }
}

/// Becomes a fresh process that holds nothing and waits. All that is open here is closed by that, and so the successor learns
/// that it can go on. Returns only if that did not work.
fn stand_by(successor: Successor) -> Failure {
    let is_other = |argument: &OsString| {
        let text = argument.to_string_lossy();
        // Behind two dashes alone no option would be read.
        text != "--"
            && !["--take-over", "--stand-by", "--successor="].iter().any(|word| text.starts_with(word))
    };
    // The first word may be `kube-proxy`, which is another command line.
    let name = std::env::args_os().next().unwrap_or_else(|| "portway".into());
    let arguments = std::env::args_os().skip(1).filter(is_other);
    let successor_is = format!("--successor={}", successor.process);
    let program = std::env::current_exe().ok().filter(|path| path.exists());
    let program = program.unwrap_or_else(|| "/proc/self/exe".into());
    let error = Command::new(program).arg0(name).args(arguments).args(["--stand-by", &successor_is]).exec();
    drop(successor);
    Failure::refused(format!("this portway has handed over, but cannot stand by: {error}; it ends"))
}

/// The same, with the way out that only `portway run` has an option for.
fn failure_by_options(error: &RunError) -> Failure {
    match error {
        RunError::Hidden { .. } => {
            Failure::refused(format!("{error}; `--{}` chooses one in spite of them", programs::FLAG))
        }
        error => failure(error),
    }
}

/// The sentence, and 2 where it is about the command line.
pub(super) fn failure(error: &RunError) -> Failure {
    match error {
        RunError::Store(error) => refusal(error),
        error => Failure::because(error),
    }
}
