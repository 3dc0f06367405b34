//! The door by which a running portway can be asked: a unix socket in its folder, for root only.
//!
//! The words are one line each way. In: `portway/1 status`, for example; `words` has all questions. Out: one JSON object,
//! `{"portway":1,"answer":…}` or `{"portway":1,"error":"…"}`, and the end of the connection.
//!
//! | file | what it is for |
//! |---|---|
//! | `server` | listens, bounded in everything, so that no client can disturb the loop |
//! | `ask` | the other end: what the command line calls |
//! | `words` | requests and answers as text |
//! | `wire` | a picture as JSON, and back |
//! | `choices` | the operator's choices as JSON, and back |
//!
//! Absent on purpose: orders. Nothing can be changed through this door.

mod ask;
mod choices;
mod server;
mod timed;
mod wire;
mod words;

use std::path::{Path, PathBuf};

pub use ask::{AskError, picture, readiness, status};
pub use server::Server;
pub(crate) use words::write as write_answer;

/// Where a portway with this folder can be asked.
pub fn path(run_dir: &Path) -> PathBuf {
    run_dir.join("portway.sock")
}
