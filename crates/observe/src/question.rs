//! What may be asked of a running portway, and what is answered.

use dataplane::Counted;

use crate::health::Readiness;
use crate::picture::Snapshot;
use crate::status::Status;
use crate::traffic::Traffic;

/// What may be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// The whole picture.
    Picture,
    /// How the loop is doing.
    Status,
    /// Whether the rules of this process are in force.
    Readiness,
    /// What was carried, as far as anybody counts it.
    Traffic,
    /// What the mode has counted for upstream's metrics.
    Counted,
}

/// What is answered.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// The whole picture.
    Picture(Box<Snapshot>),
    /// How the loop is doing.
    Status(Box<Status>),
    /// Whether the rules of this process are in force.
    Readiness(Readiness),
    /// What was carried.
    Traffic(Vec<Traffic>),
    /// What the mode has counted for upstream's metrics.
    Counted(Counted),
    /// Nobody knows yet, and why.
    NotYet(&'static str),
}
