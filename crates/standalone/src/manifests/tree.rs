//! Lists the files below the paths of `--from`.
//!
//! In: paths. Out: the files to read, the folders and links by which they were reached, and what is wrong.
//!
//! From a folder come the files that end in `.yaml`, `.yml` or `.json`, from its sub-folders too. Hidden entries are
//! passed over. A mounted `ConfigMap` needs that: its files lie in a hidden folder with a time for a name, and are read
//! through the visible links that lead there. A file that is named itself is read, whatever it is called.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirEntry, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::disk::{self, Identity};
use super::problem;
use super::read::way_out;
use super::select::shown;
use crate::objects::Problem;

/// Entries of all folders together. Somebody who gives `--from /` learns it in a second, not in an hour.
const ENTRIES_MAX: usize = 100_000;

/// Folders inside of each other.
const DEPTH_MAX: usize = 32;

/// What lies below the paths.
#[derive(Debug, Default)]
pub(super) struct Tree {
    /// The files to read.
    pub(super) files: BTreeSet<Arc<Path>>,
    /// The folders that were listed.
    pub(super) folders: BTreeSet<PathBuf>,
    /// Which folders these are.
    pub(super) identities: BTreeMap<PathBuf, Identity>,
    /// The links that were followed.
    pub(super) links: BTreeSet<PathBuf>,
    /// Paths of `--from` that lead to nothing, each with the reason.
    pub(super) missing_roots: Vec<(PathBuf, String)>,
    /// Links in folders that lead to nothing and are not called like a manifest: they may have led to folders.
    pub(super) dangling: Vec<PathBuf>,
    /// Folders that exist and could not be listed, each with the reason: their files are neither there nor gone.
    pub(super) unknown: Vec<(PathBuf, String)>,
    /// What is wrong.
    pub(super) problems: Vec<Problem>,
}

impl Tree {
    /// Walks below all paths.
    pub(super) fn walk(roots: &[PathBuf]) -> Self {
        let mut walk = Walk { tree: Tree::default(), seen: BTreeMap::new(), entries_left: ENTRIES_MAX };
        for root in roots {
            walk.root(root);
        }
        walk.tree
    }

    /// Is it unknown whether this file is still there?
    pub(super) fn is_unknown(&self, file: &Path) -> bool {
        self.unknown.iter().any(|(folder, _)| file.starts_with(folder))
    }
}

/// A walk under way.
struct Walk {
    tree: Tree,
    /// The folders met, by device and inode: each is read once, so that links can make no circle.
    seen: BTreeMap<Identity, PathBuf>,
    entries_left: usize,
}

impl Walk {
    fn root(&mut self, root: &Path) {
        match disk::metadata(root) {
            Ok(metadata) if metadata.is_dir() => self.folder(root, &metadata, 0),
            Ok(_) => self.file(root),
            Err(reason) if reason.kind() == io::ErrorKind::NotFound => self.missing_root(root),
            Err(_) if root.is_symlink() => self.file(root),
            Err(reason) => self.leave_out(root, &unreachable(&reason)),
        }
    }

    fn missing_root(&mut self, root: &Path) {
        let reason = match fs::read_link(root) {
            Ok(target) => {
                self.tree.links.insert(root.to_owned());
                let target = shown(&target.display().to_string());
                format!("is a link to {target}, which does not exist: restore that")
            }
            Err(_) => "does not exist any more: restore it, or mount it again".to_owned(),
        };
        self.tree.missing_roots.push((root.to_owned(), reason));
    }

    fn folder(&mut self, folder: &Path, metadata: &Metadata, depth: usize) {
        if depth > DEPTH_MAX {
            return self.leave_out(folder, &format!("lies more than {DEPTH_MAX} folders deep: move it up"));
        }
        if let Some(first) = self.seen.insert(disk::identity(metadata), folder.to_owned()) {
            return self.met_again(folder, metadata, first);
        }
        match self.list(folder) {
            Ok(entries) => {
                self.tree.folders.insert(folder.to_owned());
                self.tree.identities.insert(folder.to_owned(), disk::identity(metadata));
                for entry in &entries {
                    self.entry(entry, depth);
                }
            }
            Err(reason) => self.leave_out(folder, &reason),
        }
    }

    /// A folder that `--from` reaches on two ways is nothing to mention; a link that leads back is.
    fn met_again(&mut self, folder: &Path, metadata: &Metadata, first: PathBuf) {
        if folder.is_symlink() {
            let first = shown(&first.display().to_string());
            self.object_to(
                folder,
                format!("is a link to the folder {first}, which is read already: remove the link"),
            );
        }
        self.seen.insert(disk::identity(metadata), first);
    }

    /// The visible entries of a folder in the order of their names, or why there are none.
    fn list(&mut self, folder: &Path) -> Result<Vec<DirEntry>, String> {
        let unlisted = |reason: io::Error| format!("cannot be listed ({reason}): {}", way_out(&reason));
        let mut entries = Vec::new();
        for entry in disk::read_dir(folder).map_err(unlisted)? {
            self.entries_left = self.entries_left.checked_sub(1).ok_or_else(|| {
                format!(
                    "has more entries than the {ENTRIES_MAX} that are read: give `--from` a smaller folder"
                )
            })?;
            entries.push(entry.map_err(unlisted)?);
        }
        entries.retain(|entry| !entry.file_name().as_bytes().starts_with(b"."));
        entries.sort_by_key(DirEntry::file_name);
        Ok(entries)
    }

    fn entry(&mut self, entry: &DirEntry, depth: usize) {
        let path = entry.path();
        match disk::target(entry) {
            Ok(metadata) if metadata.is_dir() => self.sub_folder(&path, &metadata, depth),
            _ if is_manifest(&path) => self.file(&path),
            Err(reason) if reason.kind() != io::ErrorKind::NotFound => {
                self.leave_out(&path, &unreachable(&reason));
            }
            Err(_) if path.is_symlink() => {
                self.tree.links.insert(path.clone());
                self.tree.dangling.push(path);
            }
            _ => {}
        }
    }

    fn sub_folder(&mut self, folder: &Path, metadata: &Metadata, depth: usize) {
        if folder.is_symlink() {
            self.tree.links.insert(folder.to_owned());
        }
        self.folder(folder, metadata, depth + 1);
    }

    fn file(&mut self, file: &Path) {
        if file.is_symlink() {
            self.tree.links.insert(file.to_owned());
        }
        self.tree.files.insert(file.into());
    }

    fn leave_out(&mut self, folder: &Path, reason: &str) {
        self.tree.unknown.push((folder.to_owned(), reason.to_owned()));
    }

    fn object_to(&mut self, path: &Path, message: String) {
        self.tree.problems.push(problem(&path.into(), 0, message));
    }
}

fn unreachable(reason: &io::Error) -> String {
    format!("cannot be reached ({reason}): {}", way_out(reason))
}

fn is_manifest(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml" || extension == "json")
}
