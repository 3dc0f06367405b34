//! The pipes of a worker: taken while bytes are in them, given back empty, so that idle connections have none.

use std::sync::Arc;

use kernel::pipe::Pipe;

use crate::relay::files::{Files, Permit};

/// A worker keeps no more empty pipes than this.
const SPARE_MAX: usize = 32;
/// A worker has no more pipes than this; others copy.
const PIPES_MAX: usize = 512;
/// A pipe that is smaller is slower than copying.
const SIZE_MIN: usize = 128 << 10;

/// The pipes of a worker.
#[derive(Debug)]
pub(super) struct Pipes {
    files: Arc<Files>,
    wanted: usize,
    spare: Vec<PooledPipe>,
    count: usize,
    /// The kernel gave a pipe that was too small: we have as much as we get, until some are given back.
    is_short: bool,
}

/// A pipe with the right to its two descriptors.
#[derive(Debug)]
pub(super) struct PooledPipe {
    pub(super) pipe: Pipe,
    _files: Permit,
}

impl Pipes {
    pub(super) fn new(files: Arc<Files>, wanted: usize) -> Self {
        Self { files, wanted, spare: Vec::new(), count: 0, is_short: false }
    }

    /// An empty pipe; `None` where there is none to be had, and copying has to do.
    pub(super) fn take(&mut self) -> Option<PooledPipe> {
        if let Some(pipe) = self.spare.pop() {
            return Some(pipe);
        }
        if self.count >= PIPES_MAX || self.is_short || self.wanted == 0 {
            return None;
        }
        let files = self.files.take(2)?;
        let pipe = Pipe::new(self.wanted).ok().filter(|pipe| pipe.size() >= SIZE_MIN.min(self.wanted));
        self.is_short = pipe.is_none();
        let pipe = PooledPipe { pipe: pipe?, _files: files };
        self.count += 1;
        Some(pipe)
    }

    /// Takes back an empty pipe.
    pub(super) fn give_back(&mut self, pipe: PooledPipe) {
        if self.spare.len() < SPARE_MAX {
            self.spare.push(pipe);
        } else {
            self.forget();
        }
    }

    /// A pipe has gone, with whatever was in it.
    pub(super) fn forget(&mut self) {
        self.count -= 1;
        self.is_short = false;
    }
}
