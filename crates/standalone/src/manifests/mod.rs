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
//! Five promises. What is wrong with one file never touches another. A file that cannot be read or parsed stays in force
//! as it last was, until it is deleted or right again: an editor that saves half of a file deletes no Service. So does an
//! object that a wrong value makes worse (`review`), a file while its writer has it open (`being_written`), and a folder
//! that was moved away or unmounted (`vanished`). And no file, whatever it holds, costs more than a second or its fair
//! share of memory to refuse.

mod arrivals;
mod being_written;
mod claims;
mod disk;
mod documents;
mod follower;
mod parse;
mod read;
mod reread;
mod review;
mod select;
mod tree;
mod value;
mod vanished;
mod watch;
mod way;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use model::Report;
use serde_json::Value;
use thiserror::Error;

use crate::objects::{Change, ObjectKey, Origin, Problem};
use arrivals::Arrivals;
use being_written::{BeingWritten, WriterLimits};
use claims::Claims;
use disk::Identity;
pub use follower::Follower;
use parse::{Failure, Language};
use read::{Content, Refusal, Stamp};
pub use reread::RereadRequest;
use review::Review;
use select::{Found, Misspelt, Selection};
use tree::Tree;
use vanished::Folders;
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
pub fn document(text: &str) -> Result<(serde_json::Value, Vec<String>), String> {
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
    /// Made by whoever wants all files to be read again.
    reread: RereadRequest,
    review: Review,
    folders: Folders,
    writer_limits: WriterLimits,
    /// An empty folder is meant.
    allows_empty: bool,
    /// Paths of `--from` that held no object, with the files that came since.
    filling: BTreeMap<PathBuf, Arrivals>,
}

/// What the files leave in doubt, so that rules of a previous process may still be needed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Doubts {
    /// Paths of `--from` without any object.
    pub empty: Vec<PathBuf>,
    /// Objects with wrong values, of which no version without them is known.
    pub objects: BTreeSet<ObjectKey>,
    /// Documents with a misspelt kind, version or name, of which no usable version is known.
    pub documents: BTreeSet<DoubtfulDocument>,
}

/// A document that may be an object, if it were spelt rightly.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DoubtfulDocument {
    /// Where it stands.
    pub origin: Origin,
    /// Where its object would be; empty for a file without any content, which may stand for objects anywhere.
    pub namespace: Box<str>,
}

impl Doubts {
    /// Is nothing in doubt?
    pub fn is_empty(&self) -> bool {
        self.empty.is_empty() && self.objects.is_empty() && self.documents.is_empty()
    }

    /// What is in doubt here or there.
    #[must_use]
    pub fn with(&self, other: &Self) -> Self {
        let mut both = self.clone();
        both.empty.extend(other.empty.iter().filter(|path| !self.empty.contains(path)).cloned());
        both.objects.extend(other.objects.iter().cloned());
        both.documents.extend(other.documents.iter().cloned());
        both
    }
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
    /// Which file was last read, and how long it was.
    identity: Option<Identity>,
    bytes: usize,
    /// Where it lies behind its links.
    place: Option<PathBuf>,
    /// Its content changed, and its writer has not closed it yet.
    being_written: Option<BeingWritten>,
    /// How many of its documents could not be used when nothing was missing from it.
    unusable: usize,
    /// Its objects with wrong values, of which no better version is known.
    doubtful: BTreeSet<ObjectKey>,
    /// Its documents that are misspelt, of which no better version is known.
    misspelt: BTreeSet<Misspelt>,
}

impl Known {
    fn doubtful_documents(&self, file: &Arc<Path>) -> impl Iterator<Item = DoubtfulDocument> {
        self.misspelt.iter().map(|Misspelt { line, namespace }| DoubtfulDocument {
            origin: Origin { file: Arc::clone(file), line: *line },
            namespace: namespace.clone(),
        })
    }
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
            reread: RereadRequest::default(),
            review: Review::default(),
            folders: Folders::default(),
            writer_limits: WriterLimits::default(),
            allows_empty: false,
            filling: BTreeMap::new(),
        })
    }

    /// Reads every file again, changed or not, whenever this request is made.
    pub fn reread_on(&mut self, request: &RereadRequest) {
        self.reread = request.clone();
        if let Some(watch) = &self.watch {
            self.reread.wake(watch.waker());
        }
    }

    /// A path without any object leaves nothing in doubt.
    pub fn allow_empty(&mut self) {
        self.allows_empty = true;
    }

    /// A node port outside of this range is a wrong value.
    pub fn limit_node_ports(&mut self, range: RangeInclusive<u16>) {
        self.review.node_ports = Some(range);
    }

    /// How long a changed file is left alone while its writer has it open: `quiet` after its last change, and `longest` in
    /// all where it is shorter than before. A folder that takes the place of another one is complete after `quiet`, too.
    pub fn limit_writers(&mut self, quiet: Duration, longest: Duration) {
        self.folders.quiet = quiet;
        self.writer_limits = WriterLimits { quiet, longest };
    }

    /// What changed since the last call, in the order of keys (the first call: everything), and all problems in force
    /// now. Costs one look at each file when nothing changed.
    pub fn changes(&mut self) -> (Vec<Change>, Vec<Problem>) {
        let mut tree = self.look();
        if self.reread.take() {
            // Who asks for it means the files as they are, also one whose writer was not heard to close it.
            self.files.values_mut().for_each(|known| (known.stamp, known.identity) = (None, None));
            self.folders.set_complete();
            self.filling.clear();
        }
        vanished::mark_missing(&mut tree, &self.files, &self.claims);
        self.read_all(&tree);
        self.folders.follow(&self.roots, &mut tree, &self.claims);
        self.forget_all_but(&tree);
        self.follow_filling();
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

    /// What the files leave in doubt.
    pub fn doubts(&self) -> Doubts {
        Doubts {
            empty: self.filling.keys().filter(|_| !self.allows_empty).cloned().collect(),
            objects: self.files.values().flat_map(|known| known.doubtful.iter().cloned()).collect(),
            documents: self.files.iter().flat_map(|(file, known)| known.doubtful_documents(file)).collect(),
        }
    }

    fn follow_filling(&mut self) {
        for root in self.roots.clone() {
            if self.is_empty(&root) {
                self.filling.insert(root, Arrivals::of(BTreeSet::new()));
            } else if let Some(arrivals) = self.filling.get_mut(&root) {
                arrivals.see(self.claims.files_below(&root).cloned().collect());
            }
        }
        self.filling.retain(|_, arrivals| !arrivals.is_complete(self.folders.quiet));
    }

    fn is_filled(&self) -> bool {
        self.filling.values().any(|arrivals| arrivals.is_complete(self.folders.quiet))
    }

    /// Was the path read, all of it, and no object found?
    fn is_empty(&self, root: &Path) -> bool {
        let is_read = self.folders.has(root) || self.files.contains_key(root);
        let mut below = self.files.iter().filter(|(file, _)| file.starts_with(root));
        is_read && !self.claims.holds_below(root) && !below.any(|(_, known)| known.is_refused)
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
        self.reread.wake(watch.waker());
        self.watch = Some(watch);
        self.is_due = true;
        Ok(())
    }

    /// Waits until something may have changed, and then for the end of the burst. False at the timeout.
    pub fn wait(&mut self, timeout: Duration) -> Result<bool, SourceError> {
        let watch = self.watch.as_ref().ok_or(SourceError::NotFollowed)?;
        if std::mem::take(&mut self.is_due) || self.reread.is_pending() {
            return Ok(true);
        }
        let deadline = Instant::now() + timeout;
        let writers = self.files.values().filter_map(|known| known.being_written.as_ref());
        let look_at = writers.map(|writer| writer.look_at).min();
        loop {
            let now = Instant::now();
            let until = deadline.min(look_at.unwrap_or(deadline)).min(now + vanished::PROBE_INTERVAL);
            if watch.wait(until.saturating_duration_since(now)).ok_or(SourceError::Ended)? {
                return Ok(true);
            }
            let now = Instant::now();
            if look_at.is_some_and(|at| at <= now) || self.folders.have_changed() || self.is_filled() {
                return Ok(true);
            }
            if deadline <= now {
                return Ok(false);
            }
        }
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
        // A device that is mounted again may have the numbers of the one before.
        let is_missing = |file: &Arc<Path>| tree.is_unknown(file) && !tree.files.contains(file);
        for (_, known) in self.files.iter_mut().filter(|(file, _)| is_missing(file)) {
            known.identity = None;
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
            Ok(content) => self.take(file, content),
            Err(refusal) => self.refuse_to_read(file, &refusal),
        }
    }

    fn take(&mut self, file: &Arc<Path>, Content { stamp, identity, bytes }: Content) {
        let digest = Some(self.hasher.hash_one(&bytes));
        let is_new = self.files.get(file).is_none_or(|known| known.digest != digest);
        if is_new && self.is_being_written(file, identity, digest, bytes.len()) {
            return;
        }
        if is_new {
            self.understand(file, &bytes);
        }
        let known = self.files.entry(Arc::clone(file)).or_default();
        (known.digest, known.stamp, known.being_written) = (digest, stamp, None);
        (known.identity, known.bytes) = (Some(identity), bytes.len());
        known.place = file.canonicalize().ok();
    }

    /// Is a changed content to be left alone, as its writer may not be done? If so, that is remembered.
    fn is_being_written(
        &mut self,
        file: &Arc<Path>,
        identity: Identity,
        digest: Option<u64>,
        bytes: usize,
    ) -> bool {
        let (Some(watch), Some(known)) = (&self.watch, self.files.get_mut(file)) else { return false };
        let Ok(place) = file.canonicalize() else { return false };
        if watch.is_closed(&place) {
            watch.forget_closed(&place);
            return false;
        }
        let (is_same, is_shorter) = (known.identity == Some(identity), bytes < known.bytes);
        // Another file that was put in this one's place was complete before; but one that is shorter may be about to be written there.
        let is_moved = known.place.as_ref().is_some_and(|before| *before != place);
        if !is_same && (!is_shorter || is_moved) {
            return false;
        }
        let before = known.being_written.take();
        let is_shorter = is_same && is_shorter;
        let writer = BeingWritten::of(before, digest, is_shorter, self.writer_limits, Instant::now());
        (known.being_written, known.stamp) = (writer, None);
        known.being_written.is_some()
    }

    fn understand(&mut self, file: &Arc<Path>, content: &[u8]) {
        match read::text(content).map(|text| parse::parse(text, language(file))) {
            Ok(Ok(mut selection)) => {
                // It may have been emptied to be written anew.
                if content.trim_ascii().is_empty() && !self.claims.holds(file) && !self.allows_empty {
                    selection.misspelt.insert(Misspelt { line: 1, namespace: "".into() });
                }
                self.accept(file, selection);
            }
            Ok(Err(Failure { line, reason })) => self.refuse(file, line, &reason),
            Err(refusal) => self.refuse_to_read(file, &refusal),
        }
    }

    fn accept(&mut self, file: &Arc<Path>, mut selection: Selection) {
        let held = self.claims.of_file(file);
        let was_doubtful = self.files.get(file).map(|known| known.doubtful.clone()).unwrap_or_default();
        let mut doubtful = BTreeSet::new();
        for found in &mut selection.objects {
            let before = held.iter().find(|held| held.key == found.key).map(|held| Arc::clone(&held.value));
            let before = before.or_else(|| self.claims.last_told(&found.key));
            let errors = self.review.errors(&found.key, &found.value);
            if !errors.is_empty() && (before.is_none() || was_doubtful.contains(&found.key)) {
                doubtful.insert(found.key.clone());
            }
            if let Some(complaint) =
                before.and_then(|before| keep_the_better(&self.review, found, before, errors))
            {
                selection.problems.push((found.line, complaint));
            }
        }
        let (mut unusable, mut misspelt) = (selection.unusable(), std::mem::take(&mut selection.misspelt));
        if let Some(before) =
            self.files.get(file).map(|known| known.unusable).filter(|known| *known < unusable)
            && keep_the_missing(held, &mut selection)
        {
            unusable = before;
            misspelt.clear();
        }
        let problems =
            selection.problems.into_iter().map(|(line, message)| problem(file, line, message)).collect();
        self.files
            .insert(Arc::clone(file), Known { problems, unusable, doubtful, misspelt, ..Known::default() });
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
        let known = self.files.remove(file).unwrap_or_default();
        let refused = Known {
            problems,
            is_refused: true,
            unusable: known.unusable,
            doubtful: known.doubtful,
            misspelt: known.misspelt,
            identity: known.identity,
            bytes: known.bytes,
            place: known.place,
            ..Known::default()
        };
        self.files.insert(Arc::clone(file), refused);
    }

    fn problems(&self, tree: Tree) -> Vec<Problem> {
        let left_out = tree.unknown.iter().map(|(folder, reason)| self.left_out(folder, reason));
        let mut problems: Vec<Problem> = left_out.collect();
        problems.extend(tree.problems);
        problems.extend(self.files.values().flat_map(|known| known.problems.iter().cloned()));
        let writers =
            self.files.iter().filter_map(|(file, known)| known.being_written.as_ref()?.problem(file));
        problems.extend(writers);
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

/// Where wrong values make an object worse than it was `before`, that version stays. The complaint says so.
fn keep_the_better(
    review: &Review,
    found: &mut Found,
    before: Arc<Value>,
    errors: Vec<Report>,
) -> Option<String> {
    if errors.is_empty() {
        return None;
    }
    let new = review.new_errors(&found.key, &before, errors);
    let first = new.first()?;
    let more = match new.len() - 1 {
        0 => String::new(),
        more => format!(" (and {more} more in this object)"),
    };
    found.value = before;
    Some(format!("{}{more}; its last good version stays in force", first.complaint()))
}

/// A document that became unusable, by a misspelt `kind` or name, may be an object that stood here before. Says whether one is kept.
fn keep_the_missing(held: Vec<Found>, selection: &mut Selection) -> bool {
    let there: BTreeSet<ObjectKey> = selection.objects.iter().map(|found| found.key.clone()).collect();
    let count = selection.objects.len();
    for found in held.into_iter().filter(|found| !there.contains(&found.key)) {
        let message = format!(
            "{} stood here before and stays in force as it was, until every document of this file can be used",
            found.key
        );
        selection.problems.push((0, message));
        selection.objects.push(found);
    }
    selection.objects.len() > count
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
