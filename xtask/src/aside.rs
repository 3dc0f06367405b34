//! Packages of another Debian release, unpacked aside. Nothing of them is installed.
//!
//! In: the machine's own package sources, a release, the names of packages. Out: their files below a folder, or half a
//! sentence that says why not.
//!
//! Absent on purpose: any address of a package server. It is taken from the machine's own settings, with the name of the
//! release exchanged, and shown to nobody.

use crate::install::without_addresses;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A folder into which packages of one release are loaded.
#[derive(Debug)]
pub(crate) struct Aside {
    folder: PathBuf,
}

impl Aside {
    /// Makes the folder and loads the release's list of packages, by apt's own means but apart from the machine's lists.
    pub(crate) fn open(folder: &Path, release: &str) -> Result<Self, String> {
        for part in ["lists/partial", "cache/archives/partial"] {
            let part = folder.join(part);
            std::fs::create_dir_all(&part).map_err(|e| format!("{} cannot be made: {e}", part.display()))?;
        }
        let list = folder.join("sources.list");
        std::fs::write(&list, sources(release)?)
            .map_err(|e| format!("{} cannot be written: {e}", list.display()))?;
        let aside = Self { folder: folder.to_owned() };
        aside.apt_get(&["update", "--quiet"])?;
        Ok(aside)
    }

    /// Loads packages and unpacks them below `root`.
    pub(crate) fn unpack(&self, packages: &[&str], root: &Path) -> Result<(), String> {
        for package in self.load(packages)? {
            run(Command::new("dpkg-deb").arg("-x").arg(&package).arg(root))?;
        }
        Ok(())
    }

    /// The first package that a package depends on.
    pub(crate) fn first_dependency(&self, package: &str) -> Result<String, String> {
        let loaded = self.load(&[package])?.pop().ok_or_else(|| format!("`{package}` was not loaded"))?;
        let all = run(Command::new("dpkg-deb").arg("-f").arg(&loaded).arg("Depends"))?;
        let first = all.split([',', ' ', '\n']).next().filter(|name| !name.is_empty());
        first.map(str::to_owned).ok_or_else(|| format!("`{package}` depends on nothing"))
    }

    /// Loads packages; the files, and no others that were loaded before.
    fn load(&self, packages: &[&str]) -> Result<Vec<PathBuf>, String> {
        for old in self.loaded()? {
            std::fs::remove_file(&old).map_err(|e| format!("{} cannot be removed: {e}", old.display()))?;
        }
        self.apt_get(&[&["download", "--quiet"], packages].concat())?;
        self.loaded()
    }

    fn loaded(&self) -> Result<Vec<PathBuf>, String> {
        let entries = std::fs::read_dir(&self.folder);
        let entries = entries.map_err(|e| format!("{} cannot be read: {e}", self.folder.display()))?;
        let paths = entries.filter_map(Result::ok).map(|entry| entry.path());
        Ok(paths.filter(|path| path.extension().is_some_and(|ending| ending == "deb")).collect())
    }

    fn apt_get(&self, arguments: &[&str]) -> Result<(), String> {
        let folder = self.folder.display();
        let settings = [
            format!("Dir::Etc::SourceList={folder}/sources.list"),
            "Dir::Etc::SourceParts=-".to_owned(),
            format!("Dir::State::Lists={folder}/lists"),
            format!("Dir::Cache={folder}/cache"),
            // Downloads happen as root, because the other user may not write here.
            "APT::Sandbox::User=root".to_owned(),
        ];
        let mut command = Command::new("apt-get");
        command.current_dir(&self.folder);
        for setting in &settings {
            command.args(["-o", setting]);
        }
        run(command.args(arguments)).map(drop)
    }
}

/// The machine's own Debian sources, for the other release.
fn sources(release: &str) -> Result<String, String> {
    let output = Command::new("apt-get")
        .args(["indextargets", "--format", "$(REPO_URI)", "Created-By: Packages", "Origin: Debian"])
        .output()
        .map_err(|e| format!("there is no apt-get here: {e}"))?;
    let mut text = String::new();
    let all = String::from_utf8_lossy(&output.stdout).into_owned();
    let archives = all.lines().filter(|uri| !uri.contains("security"));
    for uri in archives.collect::<std::collections::BTreeSet<_>>() {
        let _ = writeln!(text, "deb {uri} {release} main");
    }
    if text.is_empty() { Err("apt has no Debian sources here".to_owned()) } else { Ok(text) }
}

/// Runs a program; what it printed. The error has its last line.
fn run(command: &mut Command) -> Result<String, String> {
    let program = command.get_program().display().to_string();
    let output = command.output().map_err(|e| format!("`{program}` cannot be started: {e}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = without_addresses(&String::from_utf8_lossy(&output.stderr));
    Err(format!("`{program}` failed: {}", said.lines().last().unwrap_or_default()))
}
