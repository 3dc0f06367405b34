//! The end that asks.

use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::timed::Timed;
use super::{wire, words};
use crate::health::Readiness;
use crate::picture::Snapshot;
use crate::question::Question;
use crate::status::Status;

/// A loop that is busy writing answers when it is done; one that does not by then hangs.
const PATIENCE: Duration = Duration::from_secs(30);
/// Readiness is answered beside the loop, and a probe should say why it fails before the kubelet ends it.
const READINESS_PATIENCE: Duration = Duration::from_secs(3);
/// No answer is longer.
const ANSWER_MAX: u64 = 1 << 30;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// Nobody listens. Trying again helps once a portway runs.
    #[error("no portway answers at {}", path.display())]
    Nobody {
        /// Where.
        path: PathBuf,
    },
    /// Only root may ask. Trying again does not help.
    #[error("the portway at {} answers root only: ask as root", path.display())]
    NotAllowed {
        /// Where.
        path: PathBuf,
    },
    /// It answered, but not with what was asked for.
    #[error("the portway at {} gave no answer: {reason}", path.display())]
    Silent {
        /// Where.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// Another process answers than the one that was asked about. Trying again helps once that one holds the node.
    #[error("process {found} answers at {}, and not process {wanted}, which stands by, waits to take over, or has ended", path.display())]
    OtherProcess {
        /// Where.
        path: PathBuf,
        /// The process that answers.
        found: u32,
        /// The process that was asked about.
        wanted: u32,
    },
    /// A process of another container answers. Trying again helps once the one of this container holds the node.
    #[error("a portway in another container answers at {}: the one in this container stands by, waits to take over, or has ended", path.display())]
    OtherContainer {
        /// Where.
        path: PathBuf,
    },
}

/// The picture of the portway that runs with this folder.
pub fn picture(run_dir: &Path) -> Result<Snapshot, AskError> {
    let answer = ask(run_dir, Question::Picture)?;
    wire::read(answer).map_err(|reason| AskError::Silent { path: super::path(run_dir), reason })
}

/// How the portway that runs with this folder is doing.
pub fn status(run_dir: &Path) -> Result<Status, AskError> {
    let answer = ask(run_dir, Question::Status)?;
    serde_json::from_value(answer)
        .map_err(|error| AskError::Silent { path: super::path(run_dir), reason: error.to_string() })
}

/// Whether the rules of one process are in force: of `process`, or of the one in this container.
///
/// In a rolling update two pods of one node share the folder, and the socket in it is that of the process which holds the node. The
/// kernel tells which process that is, as a number of this PID namespace; it is 0 for a process of another container.
pub fn readiness(run_dir: &Path, process: Option<u32>) -> Result<Readiness, AskError> {
    let path = super::path(run_dir);
    let silent = |reason| AskError::Silent { path: path.clone(), reason };
    let stream = connect(run_dir)?;
    let found = kernel::peer::of(&stream).map_err(|error| silent(error.to_string()))?.process;
    match process {
        Some(wanted) if found != wanted => Err(AskError::OtherProcess { path, found, wanted }),
        None if found == 0 => Err(AskError::OtherContainer { path }),
        _ => {
            let answer = hear(&stream, &path, Question::Readiness, READINESS_PATIENCE)?;
            serde_json::from_value(answer).map_err(|error| silent(error.to_string()))
        }
    }
}

fn ask(run_dir: &Path, question: Question) -> Result<serde_json::Value, AskError> {
    hear(&connect(run_dir)?, &super::path(run_dir), question, PATIENCE)
}

fn connect(run_dir: &Path) -> Result<UnixStream, AskError> {
    let path = super::path(run_dir);
    UnixStream::connect(&path).map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => AskError::NotAllowed { path },
        _ => AskError::Nobody { path },
    })
}

fn hear(
    stream: &UnixStream,
    path: &Path,
    question: Question,
    patience: Duration,
) -> Result<serde_json::Value, AskError> {
    let silent = |reason| AskError::Silent { path: path.to_owned(), reason };
    let text = converse(stream, question, patience).map_err(|error| silent(silence(&error, patience)))?;
    words::open(&text).map_err(silent)
}

fn silence(error: &io::Error, patience: Duration) -> String {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => format!(
            "for {} s it said nothing, so it is stopped, hangs, or has no time; its process stands in the file beside the socket",
            patience.as_secs()
        ),
        io::ErrorKind::ConnectionReset => "it has just ended".to_owned(),
        _ => error.to_string(),
    }
}

fn converse(stream: &UnixStream, question: Question, patience: Duration) -> io::Result<Vec<u8>> {
    let mut timed = Timed::new(stream, patience);
    timed.write_all(words::request(question).as_bytes())?;
    let mut text = Vec::new();
    timed.take(ANSWER_MAX).read_to_end(&mut text)?;
    Ok(text)
}
