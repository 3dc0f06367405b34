//! All options of `portway run` with their values, as `/flagz` shows them.

use clap::parser::ValueSource;
use clap::{ArgMatches, Command};

use dataplane::registry;

use config::kubeproxy::Flag;

/// The options of `portway run`, without dashes, in the order of their names.
#[derive(Debug, Default)]
pub(super) struct Flags {
    /// All with their values. One without a value and a default is empty, and so is a switch that was not given and that a document may
    /// turn on: what is in force is shown then.
    pub(super) shown: Vec<(String, String)>,
    /// Those that were given.
    pub(super) given: Vec<String>,
}

/// The options; none where it is another command.
pub(super) fn of(command: &Command, matches: &ArgMatches) -> Flags {
    let (Some(("run", run)), Some(known)) = (matches.subcommand(), command.find_subcommand("run")) else {
        return Flags::default();
    };
    let shown = |arg: &&clap::Arg| !arg.is_hide_set() && !matches!(arg.get_id().as_str(), "help" | "version");
    let arguments = || known.get_arguments().chain(command.get_arguments()).filter(shown);
    let mut flags: Vec<(String, String)> = arguments()
        .filter_map(|arg| Some((arg.get_long()?.to_owned(), value(run, arg.get_id().as_str(), arg))))
        .collect();
    flags.sort();
    flags.dedup();
    let given = arguments().filter(|arg| is_given(run, arg.get_id().as_str()));
    let mut given: Vec<String> = given.filter_map(|arg| Some(arg.get_long()?.to_owned())).collect();
    given.sort();
    given.dedup();
    Flags { shown: flags, given }
}

fn is_given(run: &ArgMatches, id: &str) -> bool {
    run.value_source(id).is_some_and(|source| source != ValueSource::DefaultValue)
}

/// A switch of which no document says anything. Upstream's flag for node ports on localhost asks for less than the one of `portway run`, so a
/// document does not turn ours on.
fn is_of_command(id: &str) -> bool {
    let name = id.replace('_', "-");
    let mut modes = registry::MODES.iter();
    match modes.find_map(|mode| mode.setting(&name)) {
        Some(setting) => setting.field.is_none(),
        None => Flag::named(&name).is_none_or(|flag| flag.fields().next().is_none()),
    }
}

fn value(run: &ArgMatches, id: &str, arg: &clap::Arg) -> String {
    if !arg.get_action().takes_values() {
        let is_said = is_given(run, id);
        return if is_said || is_of_command(id) { is_said.to_string() } else { String::new() };
    }
    let raw = run.get_raw(id).into_iter().flatten();
    raw.map(|value| value.to_string_lossy()).collect::<Vec<_>>().join(",")
}
