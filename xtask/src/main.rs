//! Every command that a person or CI runs: `cargo xtask COMMAND`.
//!
//! In: the name of a command and its arguments.
//! Out: what the command prints, and exit code 0 (fine), 1 (something failed) or 2 (not understood).
//!
//! A new command is a row in `COMMANDS` and a file beside this one.
//!
//! Absent on purpose: product code. Nothing in `crates/` may depend on this crate.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line tool for developers: printing is its purpose"
)]

mod again;
mod aside;
mod bench;
mod bless;
mod cargo;
mod check;
mod demo;
mod dist;
mod install;
mod junit;
mod libtest;
mod longest;
mod nextest;
mod registry;
mod second_nft;
mod source;
mod step;
mod suggest;
mod summary;
mod test;
#[cfg(test)]
mod tidy;
mod vm;

use std::process::ExitCode;

/// One word after `cargo xtask`.
struct Command {
    name: &'static str,
    arguments: &'static str,
    about: &'static str,
    /// What `--help` says beyond that.
    details: fn() -> String,
    run: fn(&[String]) -> anyhow::Result<ExitCode>,
}

const COMMANDS: &[Command] = &[
    Command {
        name: "demo",
        arguments: "[--once]",
        about: "Shows portway at work: real packets through the Services in examples/, in a playground.",
        details: demo::details,
        run: demo::run,
    },
    Command {
        name: "test",
        arguments: "",
        about: "Everything a commit must pass: format, clippy, docs, all tests. Installs what it needs.",
        details: test::details,
        run: test::run,
    },
    Command {
        name: "check",
        arguments: "",
        about: "The quick part of `test`, for while you work: no root, nothing installed.",
        details: check::details,
        run: check::run,
    },
    Command {
        name: "vm",
        arguments: vm::ARGUMENTS,
        about: "Runs a command on another kernel, in a VM that sees this machine's files.",
        details: vm::details,
        run: vm::run,
    },
    Command {
        name: "bench",
        arguments: bench::ARGUMENTS,
        about: bench::ABOUT,
        details: bench::details,
        run: bench::run,
    },
    Command {
        name: "dist",
        arguments: "[--no-check]",
        about: "Makes what is handed out: program, Debian package, images, list of components, checksums.",
        details: dist::details,
        run: dist::run,
    },
    Command {
        name: "bless",
        arguments: "",
        about: "Rewrites the expected outputs that tests compare with; then review the diff as code.",
        details: bless::details,
        run: |arguments| Ok(bless::run(arguments)),
    },
];

/// Not understood: the exit code for a wrong command or argument.
const USAGE: u8 = 2;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.split_first() {
        None => {
            print!("{}", help());
            ExitCode::from(USAGE)
        }
        Some((word, _)) if is_help(word) => {
            print!("{}", help());
            ExitCode::SUCCESS
        }
        Some((word, rest)) => dispatch(word, rest),
    }
}

fn dispatch(word: &str, rest: &[String]) -> ExitCode {
    let Some(command) = COMMANDS.iter().find(|command| command.name == word) else {
        eprintln!("{}", unknown_command(word));
        return ExitCode::from(USAGE);
    };
    if rest.first().is_some_and(|argument| is_help(argument)) {
        print!("{}", help_of(command));
        return ExitCode::SUCCESS;
    }
    (command.run)(rest).unwrap_or_else(|error| {
        eprintln!("cargo xtask {word}: {error:#}");
        ExitCode::FAILURE
    })
}

/// Says that a command does not know an argument.
fn refuse_argument(command: &str, argument: &str) -> ExitCode {
    eprintln!("cargo xtask {command} does not know `{argument}`: see `cargo xtask {command} --help`.");
    ExitCode::from(USAGE)
}

fn is_help(word: &str) -> bool {
    matches!(word, "help" | "--help" | "-h")
}

fn help() -> String {
    let row = |Command { name, arguments, about, .. }: &Command| {
        format!("  {:<24} {about}\n", format!("{name} {arguments}"))
    };
    let rows: String = COMMANDS.iter().map(row).collect();
    format!(
        "Usage: cargo xtask COMMAND\n\n{rows}\n\
         `cargo xtask COMMAND --help` says more. Exit code: 0 fine, 1 failed, 2 not understood.\n"
    )
}

fn help_of(command: &Command) -> String {
    let Command { name, arguments, about, details, .. } = command;
    let usage = format!("Usage: cargo xtask {name} {arguments}");
    let text = format!("{}\n\n{about}\n\n{}", usage.trim_end(), details());
    format!("{}\n", text.trim_end())
}

fn unknown_command(word: &str) -> String {
    let way_out = match suggest::nearest(word, COMMANDS.iter().map(|command| command.name)) {
        Some(name) => format!("did you mean `{name}`?"),
        None => "`cargo xtask --help` lists all commands.".to_owned(),
    };
    format!("unknown command `{word}`: {way_out}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_command_is_answered_with_the_right_one() {
        assert_eq!(unknown_command("tset"), "unknown command `tset`: did you mean `test`?");
        assert_eq!(unknown_command("benhc"), "unknown command `benhc`: did you mean `bench`?");
    }

    #[test]
    fn a_strange_command_is_answered_with_the_list() {
        assert!(unknown_command("frobnicate").ends_with("`cargo xtask --help` lists all commands."));
    }

    #[test]
    fn the_help_names_every_command() {
        let help = help();
        for command in COMMANDS {
            assert!(
                help.contains(&format!("\n  {} ", command.name)),
                "`{}` is missing:\n{help}",
                command.name
            );
        }
    }
}
