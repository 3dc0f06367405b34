//! Keeps processes that share a folder out of each other's way.
//!
//! Two files, both locked with `flock`, which the kernel gives back when their holder dies, however it dies:
//!
//! - `lock`: held alone, for as long as one read-modify-write takes.
//! - `in-use`: shared by every process that has the store open. Who can have it alone knows that nobody else relies upon
//!   what its own manifests do not mention.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use crate::embedded::StoreError;

/// The name of the lock for one turn.
pub(crate) const LOCK_NAME: &str = "lock";
/// The name of the lock for a process' life.
pub(crate) const IN_USE_NAME: &str = "in-use";

/// One turn at the store. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    _lock: Option<File>,
}

impl Turn {
    /// Waits for our turn to write.
    pub(crate) fn take(dir: &Path) -> Result<Self, StoreError> {
        let path = dir.join(LOCK_NAME);
        let wait = || -> io::Result<File> {
            loop {
                let file = open(&path)?;
                if file.try_lock().is_err() {
                    tracing::debug!(file = %path.display(), "waiting for another Portway to finish its turn");
                    file.lock()?;
                }
                // Somebody may have removed the file while we waited: then others lock another one.
                if is_named(&file, &path) {
                    return Ok(file);
                }
            }
        };
        let file = wait().map_err(|e| StoreError::io("lock", &path, e))?;
        Ok(Self { _lock: Some(file) })
    }

    /// A turn at what is in memory alone.
    pub(crate) fn alone() -> Self {
        Self { _lock: None }
    }

    /// Waits until nobody writes, where there is a lock to wait for. Changes nothing.
    pub(crate) fn to_read(dir: &Path) -> Self {
        let file = File::open(dir.join(LOCK_NAME)).ok();
        Self { _lock: file.filter(|file| file.lock_shared().is_ok()) }
    }
}

/// Says to others that we rely upon the store. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct InUse(File);

impl InUse {
    /// Says so. Only during a turn.
    pub(crate) fn declare(dir: &Path, _turn: &Turn) -> Result<Self, StoreError> {
        let path = dir.join(IN_USE_NAME);
        let declare = || open(&path).and_then(|file| file.lock_shared().map(|()| file));
        declare().map(Self).map_err(|e| StoreError::io("lock", &path, e))
    }

    /// Are we the only one? The lock is let go for a moment, which nobody can use: others come here during their turn only.
    pub(crate) fn is_alone(&self, _turn: &Turn) -> bool {
        let alone = self.0.unlock().is_ok() && self.0.try_lock().is_ok();
        let back = self.0.unlock().and_then(|()| self.0.lock_shared());
        alone && back.is_ok()
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

fn is_named(file: &File, path: &Path) -> bool {
    let identity = |found: fs::Metadata| (found.dev(), found.ino());
    match (file.metadata(), fs::metadata(path)) {
        (Ok(ours), Ok(named)) => identity(ours) == identity(named),
        _ => false,
    }
}
