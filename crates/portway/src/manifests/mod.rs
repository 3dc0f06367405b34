//! Manifests: files and folders of Kubernetes objects, read and followed.
//!
//! ```text
//!   paths ──tree──► files ──read──► text ──documents, parse──► values ──select──► objects ──claims──► changes
//!                     ▲                                                                                  │
//!                   watch ◄───────────────── folders and links on the way ◄──────────────────────────────┘
//! ```
//!
//! In: the paths of `--from`. Out: what changed in the objects, and every problem in force.
//!
//! Three promises. What is wrong with one file never touches another. A file that cannot be read or parsed stays in force
//! as it last was, until it is deleted or right again: an editor that saves half of a file deletes no Service. And no
//! file, whatever it holds, costs more than a second or its fair share of memory to refuse.
//!
//! Absent on purpose: what the objects mean. A Service with a malformed port is a Service here.

mod claims;
mod documents;
mod follower;
mod parse;
mod read;
mod select;
mod tree;
mod value;
mod watch;
mod way;

use std::collections::BTreeMap;
use std::fs;
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use thiserror::Error;

use crate::objects::{Change, Origin, Problem};
use claims::Claims;
pub(crate) use follower::Follower;
use parse::{Failure, Language};
use read::{Refusal, Stamp};
use select::Selection;
use tree::Tree;
use watch::Watch;

/// All files together. 45,000 Services with their slices take about 180 MiB.
const TOTAL_BYTES_MAX: u64 = 256 << 20;

/// How often a new folder may lead to another new one before we stop looking for more. What is then missed is heard.
const LOOKS_MAX: usize = 8;

/// Why there is no source, or why it cannot be followed.
#[derive(Debug, Error)]
pub enum SourceError {
    /// Trying again helps once the path is there.
    #[error("`{}` does not exist: give `--from` a file or a folder of manifests", path.display())]
    Missing {
        /// As it was given.
        path: PathBuf,
    },
    /// Trying again helps once the path can be reached.
    #[error("`{}` cannot be reached: allow this user to read it, and the folders above it", path.display())]
    Unreachable {
        /// As it was given.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Trying again helps once the limit that the reason names is raised.
    #[error("`{}` cannot be followed: {reason}", path.display())]
    Unwatchable {
        /// The folder.
        path: PathBuf,
        /// Why, and the way out.
        reason: String,
    },
    /// A mistake of the caller; trying again does not help.
    #[error("the files are not being followed: call `follow` before `wait`")]
    NotFollowed,
    /// The thread that listens is gone; `follow` starts another.
    #[error("the watch over the files has ended: start it again")]
    Ended,
}

/// The one document of a text, and the keys that stand twice in it: the last one counts. The error has the line.
pub(crate) fn document(text: &str) -> Result<(serde_json::Value, Vec<String>), String> {
    parse::parse_one(text).map_err(|failure| match failure.line {
        0 => failure.reason,
        line => format!("line {line}: {}", failure.reason),
    })
}

/// Files and folders of manifests.
#[derive(Debug)]
pub struct Source {
    roots: Vec<PathBuf>,
    files: BTreeMap<Arc<Path>, Known>,
    claims: Claims,
    hasher: RandomState,
    watch: Option<Watch>,
    /// Something may have changed that no watch has heard.
    is_due: bool,
    /// A folder could not be read at the last look, and nothing was ever read from it.
    misses_folder: bool,
}

/// What is known about a file.
#[derive(Debug, Default)]
struct Known {
    /// By which the next change is noticed; `None` when only reading tells.
    stamp: Option<Stamp>,
    digest: Option<u64>,
    problems: Vec<Problem>,
    /// Its present content is not in force, as a whole.
    is_refused: bool,
}

impl Source {
    /// Files and folders given with `--from`.
    pub fn open(paths: &[PathBuf]) -> Result<Self, SourceError> {
        let mut roots: Vec<PathBuf> = Vec::with_capacity(paths.len());
        for path in paths {
            check_root(path)?;
            if !roots.contains(path) {
                roots.push(path.clone());
            }
        }
        Ok(Self {
            roots,
            files: BTreeMap::new(),
            claims: Claims::default(),
            hasher: RandomState::new(),
            watch: None,
            is_due: false,
            misses_folder: false,
        })
    }

    /// What changed since the last call, in the order of keys (the first call: everything), and all problems in force
    /// now. Costs one look at each file when nothing changed.
    pub fn changes(&mut self) -> (Vec<Change>, Vec<Problem>) {
        let tree = self.look();
        self.forget_all_but(&tree);
        self.read_all(&tree);
        let changes = self.claims.changes();
        self.misses_folder = tree.unknown.iter().any(|(folder, _)| !self.claims.holds_below(folder));
        (changes, self.problems(tree))
    }

    /// Was something read from every file and folder, now or earlier? If not, objects may be missing of which nothing is
    /// known.
    pub fn is_complete(&self) -> bool {
        let is_missing = |(file, known): (&Arc<Path>, &Known)| known.is_refused && !self.claims.holds(file);
        !self.misses_folder && !self.files.iter().any(is_missing)
    }

    /// Why there is nothing to show at all: every path of `--from` was refused. `problems` are those that the last
    /// [`Source::changes`] told. `None` as soon as one path could be read, whatever it holds.
    pub fn refusal(&self, problems: &[Problem]) -> Option<String> {
        if !self.roots.iter().all(|root| self.is_refused(root)) {
            return None;
        }
        let concerns_a_root =
            |problem: &&Problem| self.roots.iter().any(|root| **root == *problem.origin.file);
        let sentences: Vec<_> = problems.iter().filter(concerns_a_root).map(ToString::to_string).collect();
        (!sentences.is_empty()).then(|| sentences.join("; "))
    }

    fn is_refused(&self, root: &Path) -> bool {
        match self.files.get(root) {
            Some(known) => known.is_refused && !self.claims.holds(root),
            None => fs::read_dir(root).is_err(),
        }
    }

    /// Starts following. What happened since the last look is not known, so the first [`Source::wait`] returns at once.
    pub fn follow(&mut self) -> Result<(), SourceError> {
        let mut watch = Watch::new().map_err(|error| self.unwatchable(None, &error))?;
        let covered = watch.cover(&self.roots, &Tree::walk(&self.roots));
        if let Some((folder, error)) = covered.failures.into_iter().next() {
            return Err(self.unwatchable(Some(folder), &error));
        }
        self.watch = Some(watch);
        self.is_due = true;
        Ok(())
    }

    /// Waits until something may have changed, and then for the end of the burst. False at the timeout.
    pub fn wait(&mut self, timeout: Duration) -> Result<bool, SourceError> {
        let watch = self.watch.as_ref().ok_or(SourceError::NotFollowed)?;
        if std::mem::take(&mut self.is_due) {
            return Ok(true);
        }
        watch.wait(timeout).ok_or(SourceError::Ended)
    }

    /// The files as they are now. A folder that was not watched yet is looked at again once it is: what was put into it
    /// in between would be missed.
    fn look(&mut self) -> Tree {
        let mut tree = Tree::walk(&self.roots);
        let Some(watch) = &mut self.watch else { return tree };
        for _ in 0..LOOKS_MAX {
            let covered = watch.cover(&self.roots, &tree);
            if !covered.is_new {
                tree.problems.extend(covered.problems());
                break;
            }
            tree = Tree::walk(&self.roots);
        }
        tree
    }

    fn forget_all_but(&mut self, tree: &Tree) {
        let is_there = |file: &Path| tree.files.contains(file) || tree.is_unknown(file);
        let gone: Vec<_> = self.files.keys().filter(|file| !is_there(file)).cloned().collect();
        for file in gone {
            self.files.remove(&file);
            self.claims.withdraw(&file);
        }
    }

    fn read_all(&mut self, tree: &Tree) {
        let mut bytes_left = TOTAL_BYTES_MAX;
        for file in &tree.files {
            let stamp = Stamp::of(file);
            let bytes = stamp.as_ref().map_or(0, |stamp| stamp.bytes);
            if let Some(left) = bytes_left.checked_sub(bytes) {
                bytes_left = left;
                self.read_if_changed(file, stamp);
            } else {
                self.refuse(
                    file,
                    0,
                    &format!("is past the {} MiB read in all: give fewer files", TOTAL_BYTES_MAX >> 20),
                );
            }
        }
    }

    fn read_if_changed(&mut self, file: &Arc<Path>, stamp: Result<Stamp, Refusal>) {
        let known = self.files.get(file).and_then(|known| known.stamp.as_ref());
        match stamp {
            Ok(stamp) if known == Some(&stamp) => {}
            Ok(_) => self.read(file),
            Err(refusal) => self.refuse_to_read(file, &refusal),
        }
    }

    fn read(&mut self, file: &Arc<Path>) {
        match read::read(file, SystemTime::now()) {
            Ok((stamp, content)) => self.take(file, stamp, &content),
            Err(refusal) => self.refuse_to_read(file, &refusal),
        }
    }

    fn take(&mut self, file: &Arc<Path>, stamp: Option<Stamp>, content: &[u8]) {
        let digest = Some(self.hasher.hash_one(content));
        if self.files.get(file).is_none_or(|known| known.digest != digest) {
            self.understand(file, content);
        }
        let known = self.files.entry(Arc::clone(file)).or_default();
        known.digest = digest;
        known.stamp = stamp;
    }

    fn understand(&mut self, file: &Arc<Path>, content: &[u8]) {
        match read::text(content).map(|text| parse::parse(text, language(file))) {
            Ok(Ok(selection)) => self.accept(file, selection),
            Ok(Err(Failure { line, reason })) => self.refuse(file, line, &reason),
            Err(refusal) => self.refuse_to_read(file, &refusal),
        }
    }

    fn accept(&mut self, file: &Arc<Path>, selection: Selection) {
        let problems =
            selection.problems.into_iter().map(|(line, message)| problem(file, line, message)).collect();
        self.files.insert(Arc::clone(file), Known { problems, ..Known::default() });
        self.claims.replace(file, selection.objects);
    }

    fn refuse_to_read(&mut self, file: &Arc<Path>, refusal: &Refusal) {
        self.refuse(file, refusal.line(), &refusal.to_string());
    }

    /// The file is out; what it last held stays in force.
    fn refuse(&mut self, file: &Arc<Path>, line: usize, reason: &str) {
        let holds = self.claims.holds(file);
        let outcome =
            if holds { "its last good content stays in force" } else { "nothing of it is in force" };
        let problems = vec![problem(file, line, format!("{reason}; {outcome}"))];
        self.files.insert(Arc::clone(file), Known { problems, is_refused: true, ..Known::default() });
    }

    fn problems(&self, tree: Tree) -> Vec<Problem> {
        let left_out = tree.unknown.iter().map(|(folder, reason)| self.left_out(folder, reason));
        let mut problems: Vec<Problem> = left_out.collect();
        problems.extend(tree.problems);
        problems.extend(self.files.values().flat_map(|known| known.problems.iter().cloned()));
        problems.extend(self.claims.problems());
        problems.sort();
        problems.dedup();
        problems
    }

    fn left_out(&self, folder: &Path, reason: &str) -> Problem {
        let outcome = if self.claims.holds_below(folder) {
            "what was read from it before stays in force"
        } else {
            "nothing of it is in force"
        };
        problem(&folder.into(), 0, format!("{reason}; {outcome}"))
    }

    fn unwatchable(&self, folder: Option<PathBuf>, error: &notify::Error) -> SourceError {
        let path = folder.or_else(|| self.roots.first().cloned()).unwrap_or_default();
        SourceError::Unwatchable { path, reason: watch::explain(error) }
    }
}

fn check_root(path: &Path) -> Result<(), SourceError> {
    match fs::symlink_metadata(path) {
        Ok(_) => Ok(()),
        Err(reason) if reason.kind() == io::ErrorKind::NotFound => {
            Err(SourceError::Missing { path: path.into() })
        }
        Err(source) => Err(SourceError::Unreachable { path: path.into(), source }),
    }
}

fn language(file: &Path) -> Language {
    if file.extension().is_some_and(|extension| extension == "json") {
        Language::Json
    } else {
        Language::Yaml
    }
}

fn problem(file: &Arc<Path>, line: usize, message: String) -> Problem {
    Problem { origin: Origin { file: Arc::clone(file), line }, message }
}
