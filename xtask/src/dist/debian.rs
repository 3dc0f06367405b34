//! Files of Debian's packages, with what they need and their licences.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::output;
use super::tree::Tree;
use crate::install::{Needed, install_packages};

/// What the images are made of, beside portway.
const SOURCES: &[Needed] = &[
    Needed {
        program: "xtables-nft-multi",
        package: "iptables",
        reason: "the image has its programs, for the modes that need them",
    },
    Needed {
        program: "update-ca-certificates",
        package: "ca-certificates",
        reason: "the image has the certificates that API servers may be signed with",
    },
];

/// Installs what is missing of it.
pub(super) fn install_sources() -> Result<()> {
    match install_packages(SOURCES.iter()).pop() {
        None => Ok(()),
        Some(missing) => bail!("{} is needed: {}", missing.name, missing.reason),
    }
}

/// Which packages have given files, and their versions.
pub(super) type Packages = BTreeMap<String, String>;

/// Copies a file of a package to the same place, if it is not there yet, and with a program or library all that it is linked with.
pub(super) fn copy(tree: &Tree, file: &str, packages: &mut Packages) -> Result<()> {
    if tree.has(file) {
        return Ok(());
    }
    let path = Path::new(file);
    let real = fs::canonicalize(path).with_context(|| format!("{file} is not there"))?;
    let mode = if is_elf(&real) { 0o755 } else { 0o644 };
    tree.copy(&real, file, mode)?;
    note_owner(tree, &[path, &real], packages)?;
    for library in libraries(&real)? {
        copy(tree, &library, packages)?;
    }
    Ok(())
}

/// Copies a file that a package makes when it is installed.
pub(super) fn copy_of(tree: &Tree, file: &str, package: &str, packages: &mut Packages) -> Result<()> {
    tree.copy(Path::new(file), file, 0o644)?;
    note(tree, package, packages)
}

/// What a program or library is linked with; nothing for other files.
pub(super) fn libraries(file: &Path) -> Result<Vec<String>> {
    if !is_elf(file) {
        return Ok(Vec::new());
    }
    let listed = Command::new("ldd").arg(file).output().context("`ldd` cannot be started")?;
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    Ok(text.lines().filter_map(library).map(str::to_owned).collect())
}

/// `libm.so.6 => /lib/x86_64-linux-gnu/libm.so.6 (0x…)`, or the loader, which has a path alone.
fn library(line: &str) -> Option<&str> {
    let line = line.trim();
    let path = line.split_once(" => ").map_or(line, |(_, path)| path);
    path.starts_with('/').then(|| path.split(' ').next()).flatten()
}

fn is_elf(file: &Path) -> bool {
    fs::read(file).is_ok_and(|bytes| bytes.starts_with(b"\x7fELF"))
}

/// Finds the package of a file, under any of its names, and puts its licence into the tree.
fn note_owner(tree: &Tree, names: &[&Path], packages: &mut Packages) -> Result<()> {
    // Debian's root has links to /usr, and packages name files in either way.
    let usr_merged = names.iter().map(|name| PathBuf::from(format!("/usr{}", name.display())));
    let split = names.iter().filter_map(|name| Some(Path::new("/").join(name.strip_prefix("/usr").ok()?)));
    let all: Vec<PathBuf> =
        names.iter().map(|name| name.to_path_buf()).chain(usr_merged).chain(split).collect();
    let owner = all.iter().find_map(|name| owner(name));
    let Some(package) = owner else { bail!("no package has {}", names[0].display()) };
    note(tree, &package, packages)
}

/// Puts the licence of a package into the tree, once.
fn note(tree: &Tree, package: &str, packages: &mut Packages) -> Result<()> {
    if packages.contains_key(package) {
        return Ok(());
    }
    let version = output(Command::new("dpkg-query").args(["-W", "-f", "${Version}", package]))?;
    let licence = format!("/usr/share/doc/{package}/copyright");
    tree.copy(Path::new(&licence), &licence, 0o644)?;
    packages.insert(package.to_owned(), version);
    Ok(())
}

fn owner(file: &Path) -> Option<String> {
    let text = output(Command::new("dpkg").arg("-S").arg(file)).ok()?;
    let name = text.split(": ").next()?.split(',').next()?;
    Some(name.split(':').next()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::library;

    #[test]
    fn a_library_is_the_path_that_the_loader_finds() {
        let line = "\tlibm.so.6 => /lib/x86_64-linux-gnu/libm.so.6 (0x00007f)";
        assert_eq!(library(line), Some("/lib/x86_64-linux-gnu/libm.so.6"));
        assert_eq!(library("\t/lib64/ld-linux-x86-64.so.2 (0x00007f)"), Some("/lib64/ld-linux-x86-64.so.2"));
        assert_eq!(library("\tlinux-vdso.so.1 (0x00007f)"), None);
        assert_eq!(library("\tstatically linked"), None);
    }
}
