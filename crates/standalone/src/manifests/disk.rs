//! The system calls by which folders are listed and files are opened.
//!
//! Network file systems fail in ways that no local one does: a server that restarts answers `ESTALE` for a folder that it
//! exported a moment ago. All calls of the walk and of the reader go through here, so that a test has any of them fail.

use std::fs::{self, DirEntry, File, Metadata, OpenOptions, ReadDir};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::SystemTime;

/// Another file or folder may come to stand under the same name. The numbers of one that is gone are used again, so its age counts too,
/// where the file system knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Identity {
    pub(super) device: u64,
    inode: u64,
    created: Option<SystemTime>,
}

pub(super) fn identity(metadata: &Metadata) -> Identity {
    Identity { device: metadata.dev(), inode: metadata.ino(), created: metadata.created().ok() }
}

pub(super) fn metadata(path: &Path) -> io::Result<Metadata> {
    fault(path)?;
    fs::metadata(path)
}

pub(super) fn read_dir(folder: &Path) -> io::Result<ReadDir> {
    fault(folder)?;
    fs::read_dir(folder)
}

/// What an entry is, behind its links.
pub(super) fn target(entry: &DirEntry) -> io::Result<Metadata> {
    fault(&entry.path())?;
    if entry.file_type()?.is_symlink() { fs::metadata(entry.path()) } else { entry.metadata() }
}

/// Opens without waiting for the other end of a FIFO.
pub(super) fn open(path: &Path) -> io::Result<File> {
    fault(path)?;
    OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)
}

/// Which folder that can be listed, or which file.
pub(super) fn probe(path: &Path) -> Option<Identity> {
    let metadata = metadata(path).ok()?;
    if metadata.is_dir() {
        read_dir(path).ok()?;
    }
    Some(identity(&metadata))
}

#[cfg(not(test))]
#[expect(clippy::unnecessary_wraps, reason = "it fails in tests")]
fn fault(_path: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
fn fault(path: &Path) -> io::Result<()> {
    faults::of(path).map_or(Ok(()), |errno| Err(io::Error::from_raw_os_error(errno)))
}

/// Faults that a test asked for, in its own thread.
#[cfg(test)]
pub(super) mod faults {
    use std::cell::RefCell;
    use std::path::{Path, PathBuf};

    thread_local! {
        static FAULT: RefCell<Option<(PathBuf, i32)>> = const { RefCell::new(None) };
    }

    /// Everything at or below this path fails with this error, until this is called again.
    pub(crate) fn set(fault: Option<(&Path, i32)>) {
        FAULT.set(fault.map(|(path, errno)| (path.to_owned(), errno)));
    }

    pub(super) fn of(path: &Path) -> Option<i32> {
        FAULT.with_borrow(|fault| {
            fault.as_ref().filter(|(at, _)| path.starts_with(at)).map(|(_, errno)| *errno)
        })
    }
}
