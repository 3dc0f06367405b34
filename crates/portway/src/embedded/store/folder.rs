//! The folder of the store: made for us alone.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::Path;

use model::{ObjectRef, Report};

use super::lock::{IN_USE_NAME, LOCK_NAME};
use super::log::FILE_NAME;
use crate::embedded::StoreError;

const OURS_ALONE: u32 = 0o700;
const OF_OTHERS: u32 = 0o077;
const STICKY: u32 = 0o1000;

/// Makes the folder where it is missing.
pub(super) fn make(dir: &Path) -> Result<(), StoreError> {
    let made = DirBuilder::new().recursive(true).mode(OURS_ALONE).create(dir);
    made.map_err(|e| StoreError::io("make the folder", dir, e))
}

/// Makes the folder, and closes one that others may look into. One that we share with strangers' files is not ours to
/// close (`--state-dir /tmp` must not shut everybody out of /tmp): that is reported.
pub(super) fn prepare(dir: &Path) -> Result<Option<Report>, StoreError> {
    make(dir)?;
    let look = || -> io::Result<Option<Report>> {
        let mode = fs::metadata(dir)?.permissions().mode();
        if mode & OF_OTHERS == 0 {
            return Ok(None);
        }
        if mode & STICKY == 0 && holds_only_ours(dir)? {
            fs::set_permissions(dir, Permissions::from_mode(OURS_ALONE))?;
            tracing::warn!(folder = %dir.display(), "others could look into the state folder: its mode is 0700 now");
            return Ok(None);
        }
        Ok(Some(too_open(dir, mode & 0o7777)))
    };
    look().map_err(|e| StoreError::io("close the folder", dir, e))
}

fn holds_only_ours(dir: &Path) -> io::Result<bool> {
    for entry in fs::read_dir(dir)? {
        let name = entry?.file_name();
        let name = name.to_string_lossy();
        if name != LOCK_NAME && name != IN_USE_NAME && !name.starts_with(FILE_NAME) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn too_open(dir: &Path, mode: u32) -> Report {
    let object = ObjectRef { kind: "Store", name: dir.display().to_string().into() };
    let problem = "others can look into this folder, and it holds files that are not Portway's, so it was left as it \
                   is. Choose a folder of its own with `--state-dir`";
    Report::new(object, "mode", &format!("{mode:04o}"), problem)
}
