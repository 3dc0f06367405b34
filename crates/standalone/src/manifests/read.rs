//! Reads one file without ever waiting for it or trusting its size.
//!
//! In: a path. Out: its text and the [`Stamp`] by which a change is noticed, or the reason why it is not read.
//!
//! A manifest is a regular file of UTF-8. A FIFO would block, a device never ends, and a file may grow while it is read;
//! each of them is recognised before it costs anything.

use std::fs::{self, File, FileType, Metadata};
use std::io::{self, Read as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use thiserror::Error;

use super::disk::{self, Identity};
use super::select::shown;

/// The longest file that is read. A cluster's thousand Services take about 2 MiB with all of their managed fields; what
/// is much longer is no manifest, and its values would take several times as much memory.
pub(super) const FILE_BYTES_MAX: u64 = 16 << 20;

/// A file that changed less than this before it was read may change again within the same tick of the file system's
/// clock, and then looks the same. Clocks of disks tick every 10 ms at worst, those of network file systems each second.
const TICK_SECONDS: i64 = 1;

/// Why a file is not read. Each says what it is, and what helps.
#[derive(Debug, Error)]
pub(super) enum Refusal {
    /// It was there when the folder was listed.
    #[error("does not exist any more")]
    Gone,
    #[error("is a link to {}, which does not exist: restore that, or remove the link", shown(target))]
    Dangling { target: String },
    #[error("cannot be read ({reason}): {}", way_out(reason))]
    Unreadable { reason: io::Error },
    #[error("is {kind}, and only regular files are read: write its content into one")]
    NotRegular { kind: &'static str },
    #[error("is longer than the {} MiB that are read ({bytes} bytes): split it into several files", FILE_BYTES_MAX >> 20)]
    TooLong { bytes: u64 },
    #[error("has a NUL byte here, so it is no text: save it as UTF-8")]
    Binary { line: usize },
    #[error("is not UTF-8 here: save it as UTF-8")]
    NotUtf8 { line: usize },
}

impl Refusal {
    /// The line, where there is one; else 0, for the whole file.
    pub(super) fn line(&self) -> usize {
        match self {
            Refusal::Binary { line } | Refusal::NotUtf8 { line } => *line,
            _ => 0,
        }
    }
}

pub(super) fn way_out(reason: &io::Error) -> &'static str {
    if reason.raw_os_error() == Some(libc::ELOOP) {
        "remove the link that leads back to itself"
    } else if reason.kind() == io::ErrorKind::PermissionDenied {
        "allow this user to read it"
    } else if reason.raw_os_error() == Some(libc::ESTALE) {
        "mount the network file system again"
    } else {
        "check the disk, or move the file elsewhere"
    }
}

/// By which a change of a file is noticed without reading it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    device: u64,
    inode: u64,
    /// Its length.
    pub(super) bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    /// The stamp of a file that can be read, as far as one sees without opening it.
    pub(super) fn of(path: &Path) -> Result<Self, Refusal> {
        Self::checked(&disk::metadata(path).map_err(|reason| explain(path, reason))?)
    }

    /// Does a file that still has this stamp at a later time still have the same content?
    fn is_settled(&self, now: SystemTime) -> bool {
        let latest = self.modified.0.max(self.changed.0);
        let now = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        i64::try_from(now).is_ok_and(|now| now > latest.saturating_add(TICK_SECONDS))
    }

    fn checked(metadata: &Metadata) -> Result<Self, Refusal> {
        if !metadata.is_file() {
            return Err(Refusal::NotRegular { kind: kind_of(metadata.file_type()) });
        }
        if metadata.len() > FILE_BYTES_MAX {
            return Err(Refusal::TooLong { bytes: metadata.len() });
        }
        Ok(Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            bytes: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        })
    }
}

/// What was read of a file.
#[derive(Debug)]
pub(super) struct Content {
    /// Taken before the content, so that a later change is never missed; there is none when the file is so young that a
    /// change might not alter it.
    pub(super) stamp: Option<Stamp>,
    pub(super) identity: Identity,
    pub(super) bytes: Vec<u8>,
}

/// Reads a file.
pub(super) fn read(path: &Path, now: SystemTime) -> Result<Content, Refusal> {
    // Looked at before it is opened: to open a tape would rewind it.
    Stamp::of(path)?;
    let file = disk::open(path).map_err(|reason| explain(path, reason))?;
    // And again afterwards: what was a file may have become a FIFO in between.
    let metadata = file.metadata().map_err(|reason| Refusal::Unreadable { reason })?;
    let stamp = Stamp::checked(&metadata)?;
    let bytes = read_bounded(file)?;
    Ok(Content { identity: disk::identity(&metadata), stamp: stamp.is_settled(now).then_some(stamp), bytes })
}

/// The text of a file's content.
pub(super) fn text(content: &[u8]) -> Result<&str, Refusal> {
    if content.contains(&0) {
        let at = content.iter().take_while(|&&byte| byte != 0).count();
        return Err(Refusal::Binary { line: line_at(content, at) });
    }
    let text = std::str::from_utf8(content)
        .map_err(|error| Refusal::NotUtf8 { line: line_at(content, error.valid_up_to()) })?;
    // Windows' editors begin a file with it.
    Ok(text.strip_prefix('\u{feff}').unwrap_or(text))
}

fn read_bounded(file: File) -> Result<Vec<u8>, Refusal> {
    let mut content = Vec::new();
    let unreadable = |reason| Refusal::Unreadable { reason };
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut content).map_err(unreadable)?;
    let bytes = content.len() as u64;
    if bytes > FILE_BYTES_MAX { Err(Refusal::TooLong { bytes }) } else { Ok(content) }
}

fn explain(path: &Path, reason: io::Error) -> Refusal {
    if reason.kind() != io::ErrorKind::NotFound {
        return Refusal::Unreadable { reason };
    }
    match fs::read_link(path) {
        Ok(target) => Refusal::Dangling { target: target.display().to_string() },
        Err(_) => Refusal::Gone,
    }
}

fn kind_of(file_type: FileType) -> &'static str {
    if file_type.is_fifo() {
        "a FIFO"
    } else if file_type.is_socket() {
        "a socket"
    } else if file_type.is_dir() {
        "a folder"
    } else {
        "a device"
    }
}

fn line_at(content: &[u8], at: usize) -> usize {
    content[..at].split(|&byte| byte == b'\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_may_not_be_read_says_who_can_help() {
        let refusal = Refusal::Unreadable { reason: io::ErrorKind::PermissionDenied.into() };
        assert_eq!(refusal.to_string(), "cannot be read (permission denied): allow this user to read it");
    }

    #[test]
    fn what_grows_while_it_is_read_is_bounded() {
        let endless = File::open("/dev/zero").unwrap();
        assert!(matches!(read_bounded(endless), Err(Refusal::TooLong { .. })));
    }

    #[test]
    fn text_is_utf8_without_nul_bytes_and_without_a_byte_order_mark() {
        assert_eq!(text("\u{feff}a: 1".as_bytes()).unwrap(), "a: 1");
        assert_eq!(text(b"a\nb\0").unwrap_err().line(), 2);
        assert_eq!(text(b"a\nb\n\xff").unwrap_err().line(), 3);
    }

    #[test]
    fn a_stamp_is_trusted_only_when_its_tick_is_over() {
        let time = (1_000, 0);
        let stamp = Stamp { device: 1, inode: 1, bytes: 1, modified: time, changed: time };
        let at = |seconds| UNIX_EPOCH + std::time::Duration::from_secs(seconds);
        assert!(!stamp.is_settled(at(1_001)));
        assert!(stamp.is_settled(at(1_002)));
    }
}
