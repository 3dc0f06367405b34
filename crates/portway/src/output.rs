//! The one place that prints.
//!
//! Colours appear on a terminal only, unless `--color` says otherwise, and never when `NO_COLOR` is set. A reader that goes
//! away early, such as `head`, is no error.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use config::kubeproxy::Document;

use super::args::{ColorWhen, LogFormat};
use super::said::{Failure, Said};

/// Where words go.
#[derive(Debug)]
pub(super) struct Output {
    out: Paint,
    errors: Paint,
    log_format: LogFormat,
}

/// Puts colour on words, or leaves them as they are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Paint {
    is_on: bool,
}

impl Paint {
    /// All is well.
    pub(super) fn good(self, text: &str) -> String {
        self.with("32", text)
    }

    /// Look here first.
    pub(super) fn bad(self, text: &str) -> String {
        self.with("31", text)
    }

    /// Worth a thought.
    pub(super) fn doubtful(self, text: &str) -> String {
        self.with("33", text)
    }

    /// What a paragraph is about.
    pub(super) fn strong(self, text: &str) -> String {
        self.with("1", text)
    }

    fn with(self, code: &str, text: &str) -> String {
        if self.is_on { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

impl Output {
    /// Looks at the terminal and the environment once.
    pub(super) fn new(when: ColorWhen, log_format: LogFormat) -> Self {
        let paint = |is_terminal: bool| Paint {
            is_on: match when {
                ColorWhen::Always => true,
                ColorWhen::Never => false,
                ColorWhen::Auto => is_terminal && !is_set("NO_COLOR"),
            },
        };
        Self { out: paint(io::stdout().is_terminal()), errors: paint(io::stderr().is_terminal()), log_format }
    }

    /// The colours of standard output.
    pub(super) fn paint(&self) -> Paint {
        self.out
    }

    /// Are there colours on standard error?
    pub(super) fn colours_errors(&self) -> bool {
        self.errors.is_on
    }

    /// Prints what a command said, and turns it into an exit code.
    pub(super) fn finish(&self, result: &Result<Said, Failure>) -> ExitCode {
        match result {
            Ok(said) => {
                self.warn(&said.warnings);
                let code = if said.found_wrong { ExitCode::from(1) } else { ExitCode::SUCCESS };
                self.print(&said.text).unwrap_or(code)
            }
            Err(Failure::Refused { message, warnings }) => {
                self.warn(warnings);
                self.error(message);
                ExitCode::from(1)
            }
            Err(Failure::Usage(message)) => {
                self.error(&format!("{message}\n\nFor more information, try '--help'."));
                ExitCode::from(2)
            }
        }
    }

    /// Says a line while a command still runs; among lines of JSON, as one of them. A reader that went away changes nothing.
    pub(super) fn say(&self, line: &str) {
        match self.log_format {
            LogFormat::Json => tracing::info!("{line}"),
            LogFormat::Text => drop(self.print(&format!("{line}\n"))),
        }
    }

    /// The document, with the format that logs have.
    pub(super) fn documented(&self, mut document: Document) -> Document {
        let format = match self.log_format {
            LogFormat::Json => "json",
            LogFormat::Text => "text",
        };
        format.clone_into(&mut document.logging.format);
        document
    }

    /// Prints to standard output; the exit code is there when that went wrong.
    fn print(&self, text: &str) -> Option<ExitCode> {
        let mut out = io::stdout().lock();
        match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
            Ok(()) => None,
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Some(ExitCode::SUCCESS),
            Err(error) => {
                self.error(&format!("cannot write to standard output: {error}"));
                Some(ExitCode::from(1))
            }
        }
    }

    fn warn(&self, warnings: &[String]) {
        for warning in warnings {
            match self.log_format {
                LogFormat::Json => tracing::warn!("{warning}"),
                LogFormat::Text => self.tell(&self.errors.doubtful("warning"), warning),
            }
        }
    }

    fn error(&self, message: &str) {
        match self.log_format {
            LogFormat::Json => tracing::error!("{message}"),
            LogFormat::Text => self.tell(&self.errors.bad("error"), message),
        }
    }

    #[expect(clippy::unused_self, reason = "printing belongs to the output, whatever it needs to know")]
    fn tell(&self, word: &str, message: &str) {
        // Where standard error cannot be written to, there is nobody left to tell.
        let _ = writeln!(io::stderr().lock(), "{word}: {message}");
    }
}

/// Prints clap's own text: help, version, or what is wrong with the arguments.
pub(super) fn show_clap(error: &clap::Error) -> ExitCode {
    // A reader that went away, or a closed standard error, changes nothing about the exit code.
    let _ = error.print();
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}

fn is_set(variable: &str) -> bool {
    std::env::var_os(variable).is_some_and(|value| !value.is_empty())
}
