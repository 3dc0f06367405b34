//! The folder of the store: made for us alone.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::Path;

use model::{ObjectRef, Report};

use super::lock::{IN_USE_NAME, LOCK_NAME};
use super::log::FILE_NAME;
use crate::ipam::StoreError;

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
        let why_shared = if mode & STICKY != 0 {
            Some("its mode has the sticky bit, as a folder that is shared has")
        } else if !holds_only_ours(dir)? {
            Some("it holds files that are not Portway's")
        } else {
            None
        };
        let Some(why_shared) = why_shared else {
            match fs::set_permissions(dir, Permissions::from_mode(OURS_ALONE)) {
                // It is read nevertheless, and its mode is not worth more than that.
                Err(error) if error.kind() == io::ErrorKind::ReadOnlyFilesystem => return Ok(None),
                changed => changed?,
            }
            tracing::warn!(folder = %dir.display(), "others could look into the state folder: its mode is 0700 now");
            return Ok(None);
        };
        Ok(Some(too_open(dir, mode & 0o7777, why_shared)))
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

fn too_open(dir: &Path, mode: u32, why_shared: &str) -> Report {
    let object = ObjectRef { kind: "Store", name: dir.display().to_string().into() };
    let problem = format!(
        "others can look into this folder, and {why_shared}, so it was left as it is. Choose a folder of its own with \
         `--state-dir`"
    );
    Report::new(object, "mode", &format!("{mode:04o}"), problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shared_folder_is_left_as_it_is_for_the_reason_that_holds() {
        let dir = std::env::temp_dir().join(format!("portway-folder-{}", std::process::id()));
        make(&dir).expect("it is made");
        let prepared = |mode: u32| {
            fs::set_permissions(&dir, Permissions::from_mode(mode)).expect("it is ours");
            let problem = prepare(&dir).expect("it is there").map(|report| report.problem.to_string());
            let after = fs::metadata(&dir).expect("it is there").permissions().mode() & 0o7777;
            (problem.unwrap_or_default(), after)
        };
        let (problem, after) = prepared(0o1777);
        assert!(problem.contains("the sticky bit") && !problem.contains("files"), "{problem}");
        assert_eq!(after, 0o1777);
        assert_eq!(prepared(0o755), (String::new(), OURS_ALONE), "an empty one is closed");
        fs::write(dir.join("of-others"), "").expect("it is ours");
        let (problem, after) = prepared(0o755);
        assert!(problem.contains("it holds files that are not Portway's"), "{problem}");
        assert_eq!(after, 0o755);
        fs::remove_dir_all(&dir).expect("it is ours");
    }
}
