//! Keeps processes that share a folder out of each other's way.
//!
//! Two files, both locked with `flock`, which the kernel gives back when their holder dies, however it dies:
//!
//! - `lock`: held alone, for as long as one read-modify-write takes.
//! - `in-use`: shared by every process that has the store open. Who can have it alone knows that nobody else relies upon
//!   what its own manifests do not mention.
//!
//! A turn takes milliseconds. Who waits longer is told what for, and does not wait for ever: its holder may be stopped.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use crate::ipam::StoreError;

/// The name of the lock for one turn.
pub(crate) const LOCK_NAME: &str = "lock";
/// The name of the lock for a process' life.
pub(crate) const IN_USE_NAME: &str = "in-use";

/// How long one waits for a turn.
#[derive(Clone, Copy, Debug)]
struct Patience {
    /// Then the reader is told what we wait for.
    silent: Duration,
    /// Then we give up.
    most: Duration,
}

const PATIENCE: Patience = Patience { silent: Duration::from_secs(1), most: Duration::from_secs(30) };

/// How often a lock is tried. The kernel's own waiting has no end.
pub(super) const PAUSE: Duration = Duration::from_millis(2);

/// One turn at the store. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    _lock: Option<File>,
}

impl Turn {
    /// Waits for our turn to write.
    pub(crate) fn take(dir: &Path) -> Result<Self, StoreError> {
        Self::take_within(dir, PATIENCE)
    }

    fn take_within(dir: &Path, patience: Patience) -> Result<Self, StoreError> {
        let path = dir.join(LOCK_NAME);
        loop {
            let file = open(&path).map_err(|e| StoreError::io("lock", &path, e))?;
            wait(&file, &path, patience, File::try_lock)?;
            // Somebody may have removed the file while we waited: then others lock another one.
            if is_named(&file, &path) {
                return Ok(Self { _lock: Some(file) });
            }
        }
    }

    /// A turn at what is in memory alone.
    pub(crate) fn alone() -> Self {
        Self { _lock: None }
    }

    /// Waits until nobody writes, where there is a lock to wait for. Changes nothing.
    pub(crate) fn to_read(dir: &Path) -> Result<Self, StoreError> {
        let path = dir.join(LOCK_NAME);
        let Ok(file) = File::open(&path) else { return Ok(Self::alone()) };
        wait(&file, &path, PATIENCE, File::try_lock_shared)?;
        Ok(Self { _lock: Some(file) })
    }
}

/// Waits for a lock.
fn wait(
    file: &File,
    path: &Path,
    patience: Patience,
    attempt: fn(&File) -> Result<(), TryLockError>,
) -> Result<(), StoreError> {
    let (started, mut is_told) = (Instant::now(), false);
    loop {
        match attempt(file) {
            Ok(()) => return Ok(()),
            Err(TryLockError::Error(e)) => return Err(StoreError::io("lock", path, e)),
            Err(TryLockError::WouldBlock) => {}
        }
        let waited = started.elapsed();
        if waited >= patience.most {
            let (path, seconds) = (path.to_owned(), waited.as_secs());
            return Err(StoreError::Busy { path, seconds, holder: holder(file) });
        }
        if waited >= patience.silent && !is_told {
            is_told = true;
            tracing::warn!("waiting for {}, which is locked by {}", path.display(), holder(file));
        }
        thread::sleep(PAUSE);
    }
}

/// Who has the lock, as far as the kernel tells: processes of other namespaces have no number here.
fn holder(file: &File) -> String {
    let inode = file.metadata().map(|found| found.ino()).ok();
    let locks = fs::read_to_string("/proc/locks").unwrap_or_default();
    match inode.and_then(|inode| holder_in(&locks, inode)) {
        Some(pid) => format!("process {pid}"),
        None => "another process".to_owned(),
    }
}

/// The process that holds a lock on the file with this number: `1: FLOCK  ADVISORY  WRITE 4242 08:01:1234 0 EOF`. Those
/// that wait have an arrow before the kind.
fn holder_in(locks: &str, inode: u64) -> Option<u32> {
    locks.lines().find_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        let is_flock = words.next() == Some("FLOCK");
        let pid = words.nth(2)?.parse().ok().filter(|pid| *pid != 0)?;
        let is_it = words.next()?.rsplit(':').next()?.parse() == Ok(inode);
        (is_flock && is_it).then_some(pid)
    })
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

/// Opens a lock, which is made where it is missing. One that is there can be locked on a read-only file system, too.
fn open(path: &Path) -> io::Result<File> {
    let opened =
        OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path);
    match opened {
        Err(error) if is_read_only(&error) => File::open(path).map_err(|_| error),
        opened => opened,
    }
}

/// Can the thing perhaps be read, though it cannot be written?
pub(super) fn is_read_only(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied)
}

fn is_named(file: &File, path: &Path) -> bool {
    let identity = |found: fs::Metadata| (found.dev(), found.ino());
    match (file.metadata(), fs::metadata(path)) {
        (Ok(ours), Ok(named)) => identity(ours) == identity(named),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IMPATIENT: Patience = Patience { silent: Duration::ZERO, most: Duration::from_millis(20) };

    #[test]
    fn who_waits_too_long_learns_for_whom() {
        let dir = std::env::temp_dir().join(format!("portway-lock-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let held = Turn::take(&dir).unwrap();
        let error = Turn::take_within(&dir, IMPATIENT).unwrap_err().to_string();
        assert!(error.contains(&dir.join(LOCK_NAME).display().to_string()), "{error}");
        let us = format!("process {}", std::process::id());
        assert!(error.contains(&us) || error.contains("another process"), "{error}");
        drop(held);
        Turn::take_within(&dir, IMPATIENT).unwrap();
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn the_holder_is_read_from_the_kernels_list() {
        let locks = "1: POSIX  ADVISORY  WRITE 11 08:01:77 0 EOF\n\
                     2: FLOCK  ADVISORY  WRITE 4242 08:01:77 0 EOF\n\
                     2: -> FLOCK  ADVISORY  WRITE 4243 08:01:78 0 EOF\n\
                     3: FLOCK  ADVISORY  WRITE 0 00:2a:79 0 EOF\n";
        assert_eq!(holder_in(locks, 77), Some(4242));
        assert_eq!((holder_in(locks, 78), holder_in(locks, 79)), (None, None));
    }
}
