//! The folder of one demo: a copy of the manifests, a spare pod, the state and the sockets of portway.
//!
//! A broom, which is a shell that waits for the end of this process, removes it after any death, SIGKILL too.

use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};

/// The pod that comes and goes. It has a file of its own, so that `mv` is all that it takes.
const SPARE: &str = include_str!("spare.yaml");

/// Where the pod waits, below the folder.
pub(crate) const SPARE_FILE: &str = "spare/mysql-2.yaml";
/// Where it is in service.
pub(crate) const SPARE_IN_SERVICE: &str = "manifests/mysql-2.yaml";
/// What portway follows, below the folder.
pub(crate) const MANIFESTS: &str = "manifests";

/// Ends when its input does, which is when we end.
const BROOM: &str = r#"cat >/dev/null; rm -rf -- "$0" || { sleep 1; rm -rf -- "$0"; }"#;

/// The folder, removed when this is dropped.
pub(crate) struct Folder {
    path: PathBuf,
    _broom: Child,
}

impl Folder {
    pub(crate) fn create(examples: &Path) -> Result<Self> {
        let path = std::env::temp_dir().join(format!("portway-demo-{}", std::process::id()));
        let broom = start_broom(&path).context("cannot start `sh`")?;
        let folder = Self { path, _broom: broom };
        folder.fill(examples).with_context(|| format!("cannot fill {}", folder.path.display()))?;
        Ok(folder)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn fill(&self, examples: &Path) -> io::Result<()> {
        fs::create_dir(&self.path)?;
        fs::create_dir(self.path.join(MANIFESTS))?;
        fs::create_dir(self.path.join("spare"))?;
        fs::write(self.path.join(SPARE_FILE), SPARE)?;
        for entry in fs::read_dir(examples)? {
            let file = entry?;
            if file.path().extension().is_some_and(|extension| extension == "yaml") {
                fs::copy(file.path(), self.path.join(MANIFESTS).join(file.file_name()))?;
            }
        }
        Ok(())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        remove(&self.path);
    }
}

/// Removes the folder; what cannot be removed now is left to the broom.
pub(crate) fn remove(path: &Path) {
    let _ = fs::remove_dir_all(path);
}

/// In a process group of its own, since Ctrl-C is sent to all of ours.
fn start_broom(path: &Path) -> io::Result<Child> {
    let mut broom = Command::new("sh");
    broom.args(["-c", BROOM]).arg(path).process_group(0);
    broom.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()
}
