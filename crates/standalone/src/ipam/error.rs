//! Why the store or its ranges cannot be used.

use std::io;
use std::path::PathBuf;

use model::net::IpNet;

/// Nothing was given to anybody. Trying again helps once what the sentence names is put right.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A flag holds ranges that make no sense together. Trying again with the same flags cannot help.
    #[error("`{flag}` {problem}")]
    Range {
        /// The flag.
        flag: &'static str,
        /// What is wrong with its value, and the way out.
        problem: String,
    },
    /// A range overlaps this host's own network. Trying again helps only when the host changed.
    #[error(
        "`{flag} {range}` overlaps {what} of this host: packets meant for one would reach the other. {}", way_out(flag, *suggestion)
    )]
    Overlap {
        /// The flag.
        flag: &'static str,
        /// Its value.
        range: IpNet,
        /// The address or route.
        what: String,
        /// A range that is free here, where we know one.
        suggestion: Option<IpNet>,
    },
    /// Another process has had its turn at the store for too long. Trying again helps when it is done.
    #[error(
        "{path} has been locked for {seconds} seconds by {holder}: no address was given. Wait for it or stop it, or choose \
         another folder with `--state-dir`"
    )]
    Busy {
        /// The lock.
        path: PathBuf,
        /// How long we waited.
        seconds: u64,
        /// Who has it, in words.
        holder: String,
    },
    /// The folder, or a file in it, could not be used. Trying again helps when the disk does.
    #[error("cannot {action} {path}: {source}. {way_out}")]
    Io {
        /// What we were doing.
        action: &'static str,
        /// To what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
        /// What the reader can do.
        way_out: &'static str,
    },
    /// Another version of Portway wrote the store. Trying again cannot help.
    #[error(
        "{path} has format {found}, and this Portway knows format {known}. Run the Portway that wrote it, or choose \
         another folder with `--state-dir`"
    )]
    Version {
        /// The file.
        path: PathBuf,
        /// The version that it names.
        found: String,
        /// The one that we know.
        known: u32,
    },
    /// Something that is no file stands where the store belongs. Trying again cannot help.
    #[error("{path} is no regular file. Move it away, or choose another folder with `--state-dir`")]
    NoFile {
        /// The thing.
        path: PathBuf,
    },
}

/// The way out of an overlap.
fn way_out(flag: &str, suggestion: Option<IpNet>) -> String {
    let example = suggestion.map(|range| format!(", such as `{flag} {range}`")).unwrap_or_default();
    format!("Choose a range that this host does not use{example}")
}

impl StoreError {
    /// Is the folder all right, but cannot be written to? What needs no new address can go on.
    pub(crate) fn is_unwritable(&self) -> bool {
        use io::ErrorKind::{PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, StorageFull};
        let StoreError::Io { source, .. } = self else { return false };
        matches!(source.kind(), ReadOnlyFilesystem | StorageFull | QuotaExceeded | PermissionDenied)
    }

    /// The same for a command that only shows: it goes on without what is remembered.
    pub(crate) fn of_a_preview(&self) -> String {
        let StoreError::Io { action, path, source, .. } = self else { return self.to_string() };
        let way_out = match source.kind() {
            io::ErrorKind::PermissionDenied => "Run as the owner of the folder",
            _ => "Repair the folder",
        };
        let path = path.display();
        format!(
            "cannot {action} {path}: {source}: the addresses shown may differ from those that Services have. {way_out}, or name another \
             one with `--state-dir`"
        )
    }

    /// The sentence for what the system said.
    pub(crate) fn io(action: &'static str, path: impl Into<PathBuf>, source: io::Error) -> Self {
        let way_out = match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                "Nothing new was given: make room on the disk, or choose another folder with `--state-dir`"
            }
            io::ErrorKind::ReadOnlyFilesystem => {
                "Nothing new was given: choose a folder that can be written to with `--state-dir`"
            }
            io::ErrorKind::PermissionDenied => {
                "Nothing new was given: run as the folder's owner, or choose another folder with `--state-dir`"
            }
            _ => "Nothing new was given: repair the folder, or choose another one with `--state-dir`",
        };
        Self::Io { action, path: path.into(), source, way_out }
    }
}
