//! What a command says: text, warnings and an exit code; or why it refused.

use std::error::Error;

use observe::picture::Picture;

use super::table::printable;

/// What a command says.
#[derive(Debug, Default)]
pub(super) struct Said {
    /// For standard output.
    pub(super) text: String,
    /// For standard error, one line each.
    pub(super) warnings: Vec<String>,
    /// Did it find something wrong? Then the exit code is 1.
    pub(super) found_wrong: bool,
}

impl Said {
    /// This text, with a warning for each file that could not be read in full, and one for what is wrong with objects.
    pub(super) fn about(picture: &Picture, text: String) -> Self {
        let mut warnings = warnings(picture);
        warnings.extend(wrong_objects(picture));
        Self { text, warnings, found_wrong: false }
    }

    /// The same, with these warnings first.
    pub(super) fn with(mut self, mut warnings: Vec<String>) -> Self {
        warnings.append(&mut self.warnings);
        Self { warnings, ..self }
    }
}

/// Why a command did nothing.
#[derive(Debug)]
pub(super) enum Failure {
    /// The command line is malformed: exit code 2. Trying again needs other arguments.
    Usage(String),
    /// What was asked for cannot be done, or is not there: exit code 1.
    Refused {
        /// Why.
        message: String,
        /// What else is wrong, which may be the cause: files that could not be read.
        warnings: Vec<String>,
    },
}

impl Failure {
    /// The command line is malformed.
    pub(super) fn usage(message: impl Into<String>) -> Self {
        Self::Usage(message.into())
    }

    /// It cannot be done.
    pub(super) fn refused(message: impl Into<String>) -> Self {
        Self::Refused { message: message.into(), warnings: Vec::new() }
    }

    /// It cannot be done, perhaps because of what is wrong with the files.
    pub(super) fn about(picture: &Picture, message: impl Into<String>) -> Self {
        Self::Refused { message: message.into(), warnings: warnings(picture) }
    }

    /// It cannot be done, because of an error; its causes are told too, each once.
    pub(super) fn because(error: &dyn Error) -> Self {
        let mut message = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            let text = error.to_string();
            if !message.contains(&text) {
                message = format!("{message}: {text}");
            }
            cause = error.source();
        }
        Self::refused(message)
    }
}

/// What is wrong with files, one line each.
fn warnings(picture: &Picture) -> Vec<String> {
    picture.problems().iter().map(|problem| printable(&problem.to_string())).collect()
}

/// How much is wrong with objects: reports are many lines, and `check` is there to show them.
fn wrong_objects(picture: &Picture) -> Option<String> {
    match picture.reports().len() {
        0 => None,
        1 => Some("1 problem with an object: see `portway check`".to_owned()),
        count => Some(format!("{count} problems with objects: see `portway check`")),
    }
}
