//! The file by which the mode is found when its process has ended.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use model::ForwardingTable;

use super::mode::NAME;
use crate::SyncError;
use crate::leftovers::{CleanedUp, CleanupRequest, Leftovers, Serving, TakenOver};
use crate::mode::OpenError;

/// Its place in the folder of a running portway.
pub(super) fn record(run_dir: &Path) -> PathBuf {
    run_dir.join("null-mode")
}

pub(super) fn write(record: &Path, table: &ForwardingTable) -> Result<(), SyncError> {
    let text = format!("{} service ports\n", table.ports().count());
    let refused = |error: io::Error| SyncError::Other {
        sentence: format!("`{}` cannot be written: {error}", record.display()),
        retry_helps: true,
    };
    fs::write(record, text).map_err(refused)
}

/// The file.
pub(super) struct Record;

impl Leftovers for Record {
    fn take_over(&mut self, serving: &mut Serving<'_>, done: &mut TakenOver) -> Result<(), String> {
        let is_ours = serving.settings.mode.name() == NAME;
        if !is_ours && remove(serving.run_dir).map_err(|error| error.to_string())? {
            done.removed.push("the file of the mode null".to_owned());
        }
        Ok(())
    }

    fn clean_up(&mut self, request: &CleanupRequest) -> Result<CleanedUp, OpenError> {
        let is_removed = remove(&request.run_dir)
            .map_err(|source| OpenError::System { action: "remove the file of the mode null", source })?;
        let text = if is_removed { "Removed the file of the mode null.\n" } else { "" };
        Ok(CleanedUp { text: text.to_owned(), ..CleanedUp::default() })
    }

    fn remaining(&mut self, run_dir: &Path) -> Vec<String> {
        let sentence =
            || "the file of the mode null stays: `portway cleanup --mode null` removes it".to_owned();
        if record(run_dir).exists() { vec![sentence()] } else { Vec::new() }
    }
}

/// Whether there was one.
fn remove(run_dir: &Path) -> io::Result<bool> {
    match fs::remove_file(record(run_dir)) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}
