//! A folder that is furnished with files, and packed the same way every time.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::output;

/// The folder. It begins empty.
pub(super) struct Tree {
    root: PathBuf,
}

impl Tree {
    pub(super) fn new(root: &Path) -> Result<Self> {
        if root.exists() {
            fs::remove_dir_all(root)?;
        }
        fs::create_dir_all(root)?;
        Ok(Self { root: root.to_owned() })
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Puts a file of the machine at a place.
    pub(super) fn copy(&self, file: &Path, at: &str, mode: u32) -> Result<()> {
        let bytes = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
        self.write(&bytes, at, mode)
    }

    /// Puts bytes at a place.
    pub(super) fn write(&self, bytes: &[u8], at: &str, mode: u32) -> Result<()> {
        let to = self.place(at)?;
        fs::write(&to, bytes).with_context(|| format!("cannot write {}", to.display()))?;
        Ok(fs::set_permissions(&to, fs::Permissions::from_mode(mode))?)
    }

    /// Makes a link at a place.
    pub(super) fn link(&self, to: &str, at: &str) -> Result<()> {
        let place = self.place(at)?;
        symlink(to, place).with_context(|| format!("cannot make the link {at}"))
    }

    /// Makes an empty folder.
    pub(super) fn folder(&self, at: &str) -> Result<()> {
        Ok(fs::create_dir_all(self.root.join(at.trim_start_matches('/')))?)
    }

    pub(super) fn has(&self, at: &str) -> bool {
        self.root.join(at.trim_start_matches('/')).symlink_metadata().is_ok()
    }

    fn place(&self, at: &str) -> Result<PathBuf> {
        let to = self.root.join(at.trim_start_matches('/'));
        fs::create_dir_all(to.parent().unwrap_or(&self.root))?;
        Ok(to)
    }

    /// All of it as an archive: in order of names, root's, and of one time.
    pub(super) fn pack(&self, archive: &Path, epoch: u64) -> Result<()> {
        let mut tar = Command::new("tar");
        tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--format=gnu"]);
        tar.arg(format!("--mtime=@{epoch}"))
            .arg("--mode=go-w")
            .arg("-cf")
            .arg(archive)
            .arg("-C")
            .arg(&self.root);
        output(tar.arg(".")).map(|_| ())
    }
}

/// Every file under a folder, in order.
pub(super) fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            found.extend(files(&entry.path())?);
        } else {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}
