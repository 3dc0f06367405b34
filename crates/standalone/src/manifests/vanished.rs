//! Tells a folder that vanished from one whose files were deleted.
//!
//! A file that is deleted is meant, and so are all files of a folder: it is the same folder, and empty. But where the path of
//! `--from` leads to nothing, or to *another* folder without any object, it was moved away or unmounted; likewise a folder below
//! it that is now on another device, and a link that leads to nothing. What was read from those stays in force.
//!
//! Another folder with objects is new content, and counts at once. Only the files that it lacks stay in force until it was left alone
//! for a while: who puts a folder back copies one file after the other. A link is swapped when the folder behind it is complete: that
//! is how releases and a `ConfigMap` change.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::arrivals::Arrivals;
use super::claims::Claims;
use super::disk::{self, Identity};
use super::tree::Tree;
use super::{Known, problem};

/// How often to look for what the kernel does not tell of: that something is mounted, or unmounted.
pub(super) const PROBE_INTERVAL: Duration = Duration::from_secs(1);
/// A folder in the place of another one is complete when nothing came to it for this long, unless a test chooses.
const QUIET: Duration = Duration::from_secs(3);

const MOVED_AWAY: &str = "has no objects and is another folder than before, so it was moved away or unmounted: put its files \
                          back, or, if it is meant to be empty, restart portway with `--allow-empty`";
const INCOMPLETE: &str = "is another folder than before, and lacks files: it counts as complete when it has not changed for 3 s, \
                          or at a SIGHUP";
const LEADS_NOWHERE: &str = "is a link to a folder that does not exist: restore that, or remove the link";

/// The folders of the last look.
#[derive(Debug)]
pub(super) struct Folders {
    /// How long a folder in the place of another one must be left alone until it is complete.
    pub(super) quiet: Duration,
    /// The operator says that all folders are complete.
    are_complete: bool,
    identities: BTreeMap<PathBuf, Identity>,
    /// Those of which it was unknown what they hold.
    unknown: BTreeSet<PathBuf>,
    /// Those that took the place of another one and lack files.
    incomplete: BTreeMap<PathBuf, Arrivals>,
    /// Paths of `--from`, and folders that could not be read: what was found there.
    probes: BTreeMap<PathBuf, Option<Identity>>,
}

impl Default for Folders {
    fn default() -> Self {
        Self {
            quiet: QUIET,
            are_complete: false,
            identities: BTreeMap::new(),
            unknown: BTreeSet::new(),
            incomplete: BTreeMap::new(),
            probes: BTreeMap::new(),
        }
    }
}

impl Folders {
    /// Marks as unknown what has vanished. The tree is as it is now, and its files were read.
    pub(super) fn follow(&mut self, roots: &[PathBuf], tree: &mut Tree, claims: &Claims) {
        let mut unknown = Vec::new();
        for (folder, now) in &tree.identities {
            let Some(before) = self.identities.get(folder) else { continue };
            let is_another = before != now && (roots.contains(folder) || before.device != now.device);
            if is_another || self.unknown.contains(folder) {
                unknown.extend(self.doubt(folder, tree, claims).map(|why| (folder.clone(), why.to_owned())));
            }
        }
        tree.unknown.extend(unknown);
        self.are_complete = false;
        self.remember(roots, tree);
    }

    /// The operator says that what took the place of another folder is complete. The next look takes it so.
    pub(super) fn set_complete(&mut self) {
        self.are_complete = true;
    }

    /// Was this folder listed?
    pub(super) fn has(&self, folder: &Path) -> bool {
        self.identities.contains_key(folder)
    }

    /// Is a path of `--from`, or a folder that could not be read, different now?
    pub(super) fn have_changed(&self) -> bool {
        self.probes.iter().any(|(path, found)| disk::probe(path) != *found)
            || self.incomplete.values().any(|arrivals| arrivals.is_complete(self.quiet))
    }

    /// Why a folder in the place of another one does not count, or not as a whole.
    fn doubt(&mut self, folder: &Path, tree: &Tree, claims: &Claims) -> Option<&'static str> {
        let (there, gone): (BTreeSet<_>, BTreeSet<_>) =
            claims.files_below(folder).cloned().partition(|file| tree.files.contains(file));
        if gone.is_empty() {
            return None;
        }
        if there.is_empty() {
            return Some(MOVED_AWAY);
        }
        if folder.is_symlink() || self.are_complete {
            return None;
        }
        let arrivals =
            self.incomplete.entry(folder.to_owned()).or_insert_with(|| Arrivals::of(there.clone()));
        arrivals.see(there);
        (!arrivals.is_complete(self.quiet)).then_some(INCOMPLETE)
    }

    fn remember(&mut self, roots: &[PathBuf], tree: &Tree) {
        let mut identities = tree.identities.clone();
        for (folder, identity) in std::mem::take(&mut self.identities) {
            if tree.is_unknown(&folder) {
                identities.insert(folder, identity);
            }
        }
        self.identities = identities;
        self.unknown = tree.unknown.iter().map(|(folder, _)| folder.clone()).collect();
        self.incomplete.retain(|folder, _| self.unknown.contains(folder));
        let paths = roots.iter().chain(&self.unknown);
        self.probes = paths.map(|path| (path.clone(), disk::probe(path))).collect();
    }
}

/// Marks as unknown what leads to nothing. The tree is as it is now; `files` and `claims` are as they were.
pub(super) fn mark_missing(tree: &mut Tree, files: &BTreeMap<Arc<Path>, Known>, claims: &Claims) {
    for (root, reason) in std::mem::take(&mut tree.missing_roots) {
        missing_root(root, reason, tree, files, claims);
    }
    for link in std::mem::take(&mut tree.dangling) {
        if claims.holds_below(&link) {
            tree.unknown.push((link, LEADS_NOWHERE.to_owned()));
        }
    }
}

/// A file that `--from` names and that is deleted is meant, as long as its folder is there.
fn missing_root(
    root: PathBuf,
    reason: String,
    tree: &mut Tree,
    files: &BTreeMap<Arc<Path>, Known>,
    claims: &Claims,
) {
    let is_link = root.is_symlink();
    let folder = std::path::absolute(&root).ok().and_then(|root| root.parent().map(Path::to_owned));
    let is_deleted_file = files.contains_key(&*root) && folder.is_some_and(|folder| folder.exists());
    if is_link && !claims.holds_below(&root) {
        tree.files.insert(root.into());
    } else if is_deleted_file && !is_link {
        let message = "does not exist any more; nothing of it is in force".to_owned();
        tree.problems.push(problem(&root.into(), 0, message));
    } else {
        tree.unknown.push((root, reason));
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::Source;
    use super::super::disk::faults;

    /// NFS answers so for a folder whose server was restarted.
    #[test]
    fn a_stale_file_handle_takes_nothing_away_at_any_level() {
        let root = std::env::temp_dir().join(format!("portway-stale-{}", std::process::id()));
        let (folder, file) = (root.join("team"), root.join("team/a.yaml"));
        fs::create_dir_all(&folder).unwrap();
        fs::write(&file, "apiVersion: v1\nkind: Node\nmetadata: {name: x}\n").unwrap();
        let mut source = Source::open(std::slice::from_ref(&root)).unwrap();
        assert_eq!(source.changes().0.len(), 1);
        for path in [&root, &folder, &file] {
            faults::set(Some((path, libc::ESTALE)));
            let (changes, problems) = source.changes();
            assert_eq!(changes, [], "{}", path.display());
            let said = problems.first().expect("it is told").to_string();
            assert!(
                said.starts_with(&path.display().to_string()) && said.contains("Stale file handle"),
                "{said}"
            );
            assert!(said.ends_with("stays in force"), "{said}");
            assert!(source.is_complete() && source.doubts().is_empty());
            faults::set(None);
            let (changes, problems) = source.changes();
            assert_eq!((changes, problems), (vec![], vec![]), "it is back");
        }
        fs::remove_file(&file).unwrap();
        assert_eq!(source.changes().0.len(), 1, "a deleted file is meant");
        fs::remove_dir_all(root).unwrap();
    }
}
