//! `portway completions`: what a shell needs to complete our words.

use clap::{Args, Command};
use clap_complete::Shell;

use super::said::Said;
use super::values::Words;

const EXAMPLES: &str = "\
Examples:
  portway completions bash > /etc/bash_completion.d/portway
  portway completions zsh > \"${fpath[1]}/_portway\"
  portway completions fish > ~/.config/fish/completions/portway.fish";

/// `portway completions`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct CompletionsArgs {
    /// The shell
    #[arg(value_parser = Words::<Shell>::called("shell"))]
    shell: Shell,
}

/// Runs `portway completions`.
pub(super) fn run(args: &CompletionsArgs, command: &mut Command) -> Said {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, command, "portway", &mut script);
    Said { text: String::from_utf8_lossy(&script).into_owned(), ..Said::default() }
}
