//! All options of `portway run` with their values, as `/flagz` shows them.

use clap::parser::ValueSource;
use clap::{ArgMatches, Command};

/// The options in the order of their names. One without a value and a default is empty.
pub(super) fn of(command: &Command, matches: &ArgMatches) -> Vec<(String, String)> {
    let (Some(("run", run)), Some(known)) = (matches.subcommand(), command.find_subcommand("run")) else {
        return Vec::new();
    };
    let shown = |arg: &&clap::Arg| !arg.is_hide_set() && !matches!(arg.get_id().as_str(), "help" | "version");
    let arguments = known.get_arguments().chain(command.get_arguments()).filter(shown);
    let mut flags: Vec<(String, String)> = arguments
        .filter_map(|arg| Some((arg.get_long()?.to_owned(), value(run, arg.get_id().as_str(), arg))))
        .collect();
    flags.sort();
    flags.dedup();
    flags
}

fn value(run: &ArgMatches, id: &str, arg: &clap::Arg) -> String {
    if !arg.get_action().takes_values() {
        let is_given = run.value_source(id).is_some_and(|source| source != ValueSource::DefaultValue);
        return is_given.to_string();
    }
    let raw = run.get_raw(id).into_iter().flatten();
    raw.map(|value| value.to_string_lossy()).collect::<Vec<_>>().join(",")
}
