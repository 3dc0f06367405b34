//! Decides when a folder that is being filled is complete: who puts a folder back copies one file after the other.
//!
//! In: the files with objects that are there at each look. Out: whether that has not changed for a while.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The files of a folder that is being filled, and when they last changed.
#[derive(Debug)]
pub(super) struct Arrivals {
    files: BTreeSet<Arc<Path>>,
    changed_at: Instant,
}

impl Arrivals {
    pub(super) fn of(files: BTreeSet<Arc<Path>>) -> Self {
        Self { files, changed_at: Instant::now() }
    }

    /// These files are there now.
    pub(super) fn see(&mut self, files: BTreeSet<Arc<Path>>) {
        if self.files != files {
            *self = Self::of(files);
        }
    }

    /// Has something come, and nothing more for this long?
    pub(super) fn is_complete(&self, quiet: Duration) -> bool {
        !self.files.is_empty() && self.changed_at.elapsed() >= quiet
    }
}
