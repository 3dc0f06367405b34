//! `cargo xtask vm -- COMMAND`: runs a command on another kernel, in a small virtual machine.
//!
//! In: a command, the current folder, and the variables whose names begin with `PORTWAY_`. Out: what it prints, and its
//! exit code. The VM's root is this machine's file system, copy-on-write: a program built here runs there, and nothing that
//! it writes stays.
//!
//! | file | what it holds |
//! |---|---|
//! | `set_up` | QEMU, and Debian 13's kernel, unpacked aside |
//! | `machine` | one boot: its processes, its files, how it ended |
//! | `script` | the command as the VM's shell reads it |
//! | `init.sh` | the VM's first process |
//! | `smoke` | the packet tests that `cargo xtask test` runs there |
//!
//! Absent on purpose: KVM. With Debian's kernels it hangs on some hosts; software emulation runs everywhere, and is about
//! 20 times slower. And a network: the VM has a loopback link, and what a command makes for itself.

pub(crate) mod machine;
mod script;
pub(crate) mod set_up;
pub(crate) mod smoke;

use crate::cargo::target_dir;
use crate::registry;
use crate::summary::Summary;
use anyhow::Result;
use machine::{Ended, Order};
use smoke::List;
use std::process::{ExitCode, Stdio};
use std::time::Duration;

pub(crate) const ARGUMENTS: &str = "[--timeout SECONDS] -- COMMAND ARGS… | --smoke | --MODE";

/// The VM was there, but the command did not come to its end.
const NO_CODE: u8 = 124;
/// There was no VM.
const NO_VM: u8 = 125;
const LIMIT: Duration = Duration::from_secs(300);

pub(crate) fn details() -> String {
    format!(
        "\
The command runs as root, in the current folder, on the kernel of Debian {}, which is unpacked under the target folder once
(QEMU and kmod are installed with apt-get if they are missing). It sees this machine's files; what it writes is gone when it
ends. It has the variables whose names begin with PORTWAY_, PATH and HOME. It is there after about 6 seconds, and the VM
computes about 20 times slower than this machine. Both of its outputs come as one.

With --smoke it runs the tests that `cargo xtask test` runs there, by themselves; with the name of a mode that
needs that kernel, such as --ipvs, all packet tests of that mode, of which those are a part.

Exit code: the command's own; {NO_CODE} when it took longer than --timeout (default {} s) or the kernel panicked; {NO_VM} when
there is no VM.

  cargo xtask vm -- uname -r
  cargo xtask vm --timeout 600 -- sh -c 'modprobe ip_vs && ip netns add x'",
        set_up::RELEASE,
        LIMIT.as_secs(),
    )
}

pub(crate) fn run(arguments: &[String]) -> Result<ExitCode> {
    if let Some(list) = list(arguments) {
        let mut summary = Summary::default();
        smoke::run(1, 1, list, &mut summary);
        return Ok(summary.print());
    }
    let (limit, command) = match parse(arguments) {
        Ok(parsed) => parsed,
        Err(problem) => {
            eprintln!("cargo xtask vm: {problem}: see `cargo xtask vm --help`.");
            return Ok(ExitCode::from(crate::USAGE));
        }
    };
    let ended = carry_out(command, limit, Stdio::inherit())?;
    if let Some(problem) = ended.problem(limit) {
        eprintln!("cargo xtask vm: {problem}");
    }
    Ok(ExitCode::from(exit_code(&ended)))
}

/// The list of tests that an option names, if it is such an option.
fn list(arguments: &[String]) -> Option<List> {
    let [argument] = arguments else { return None };
    let name = argument.strip_prefix("--")?;
    if name == "smoke" {
        return Some(List::Short);
    }
    registry::modes().find(|mode| *mode == name).map(List::Mode)
}

/// Boots, runs a command in the current folder, and switches off. The VM ends with the thread that calls this.
pub(crate) fn carry_out(command: Vec<String>, limit: Duration, output: Stdio) -> Result<Ended> {
    let order = Order { folder: std::env::current_dir()?, command, variables: script::inherited(), limit };
    Ok(set_up::get(&target_dir()?)
        .and_then(|kernel| machine::run(&kernel, &order, output))
        .unwrap_or_else(Ended::NoVm))
}

fn exit_code(ended: &Ended) -> u8 {
    match ended {
        Ended::Code(code) => *code,
        Ended::TimedOut | Ended::Broke(_) => NO_CODE,
        Ended::NoVm(_) => NO_VM,
    }
}

/// The limit and the command; the error is what is not understood.
fn parse(arguments: &[String]) -> Result<(Duration, Vec<String>), String> {
    let end = arguments.iter().position(|argument| argument == "--").ok_or("the command comes after `--`")?;
    let limit = match &arguments[..end] {
        [] => LIMIT,
        [option, seconds] if option == "--timeout" => seconds
            .parse()
            .map(Duration::from_secs)
            .map_err(|_| format!("`--timeout {seconds}` is not a number of seconds"))?,
        [first, ..] => return Err(format!("it does not know `{first}`, or not so")),
    };
    let command = arguments[end + 1..].to_vec();
    if command.is_empty() { Err("after `--` comes a command".to_owned()) } else { Ok((limit, command)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn the_command_is_what_comes_after_the_dashes() {
        assert_eq!(parse(&words("-- ls -- -l")), Ok((LIMIT, words("ls -- -l"))));
        assert_eq!(parse(&words("--timeout 7 -- ls")), Ok((Duration::from_secs(7), words("ls"))));
    }

    #[test]
    fn what_is_not_understood_is_named() {
        for (arguments, problem) in [
            ("ls", "the command comes after `--`"),
            ("--", "after `--` comes a command"),
            ("--timeout soon -- ls", "`--timeout soon` is not a number of seconds"),
            ("--fast -- ls", "it does not know `--fast`, or not so"),
            ("--timeout -- ls", "it does not know `--timeout`, or not so"),
        ] {
            assert_eq!(parse(&words(arguments)), Err(problem.to_owned()), "{arguments}");
        }
    }
}
