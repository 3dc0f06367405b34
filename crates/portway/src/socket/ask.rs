//! The end that asks.

use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::timed::Timed;
use super::{wire, words};
use crate::picture::Snapshot;
use crate::run::{Question, Status};

/// A loop that is busy writing answers when it is done; one that does not by then hangs.
const PATIENCE: Duration = Duration::from_secs(30);
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

fn ask(run_dir: &Path, question: Question) -> Result<serde_json::Value, AskError> {
    let path = super::path(run_dir);
    let stream = match UnixStream::connect(&path) {
        Ok(stream) => stream,
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            return Err(AskError::NotAllowed { path });
        }
        Err(_) => return Err(AskError::Nobody { path }),
    };
    let text = converse(&stream, question)
        .map_err(|error| AskError::Silent { path: path.clone(), reason: silence(&error) })?;
    words::open(&text).map_err(|reason| AskError::Silent { path, reason })
}

fn silence(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => format!(
            "for {} s it said nothing, so it is stopped, hangs, or has no time; its process stands in the file beside the socket",
            PATIENCE.as_secs()
        ),
        io::ErrorKind::ConnectionReset => "it has just ended".to_owned(),
        _ => error.to_string(),
    }
}

fn converse(stream: &UnixStream, question: Question) -> io::Result<Vec<u8>> {
    let mut timed = Timed::new(stream, PATIENCE);
    timed.write_all(words::request(question).as_bytes())?;
    let mut text = Vec::new();
    timed.take(ANSWER_MAX).read_to_end(&mut text)?;
    Ok(text)
}
