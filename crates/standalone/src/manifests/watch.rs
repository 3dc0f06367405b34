//! Hears when files change.
//!
//! In: the folders and links of a [`Tree`]. Out: a signal that something may have changed; what did is found by reading.
//!
//! Folders are watched, never files: an editor that writes a new file and renames it over the old one leaves a watch on
//! the old one behind, deaf. A `ConfigMap` is swapped by renaming a link, which is heard in the folder of the link.
//!
//! The events themselves are not kept. A burst of any length is one signal, so that nothing here can overflow; and when
//! the kernel's own queue does, that too is a signal.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use notify::event::{AccessKind, AccessMode, ModifyKind};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};

use super::disk::{self, Identity};
use super::tree::Tree;
use super::{problem, way};
use crate::objects::Problem;

/// A burst is over when it was quiet for so long: an editor's write, rename and clean-up lie closer together.
const QUIET: Duration = Duration::from_millis(50);

/// A burst is taken as it is after so long, also when it goes on.
const BURST_MAX: Duration = Duration::from_millis(500);

/// Maximum number of closed files that are remembered. Of one that is forgotten, a change is taken in later.
const CLOSED_MAX: usize = 100_000;

/// A watch over folders.
#[derive(Debug)]
pub(super) struct Watch {
    watcher: RecommendedWatcher,
    signal: Receiver<()>,
    /// The other end of `signal`, which belongs to the listening thread.
    waker: Weak<SyncSender<()>>,
    heard: Arc<Mutex<Heard>>,
    /// The folders being watched, and which these are.
    watched: BTreeMap<PathBuf, Identity>,
}

/// What the listening thread knows.
#[derive(Debug, Default)]
struct Heard {
    interests: BTreeMap<PathBuf, Interest>,
    /// Folders that were deleted or moved, and their watches with them.
    lost: BTreeSet<PathBuf>,
    /// Files whose writer has closed them, and that were not written to since.
    closed: BTreeSet<PathBuf>,
}

/// What matters in a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Interest {
    /// Each entry.
    All,
    /// Entries of these names; the folder is only the place where a link or a named file stands.
    Names(BTreeSet<OsString>),
}

impl Watch {
    /// A watch over nothing yet.
    pub(super) fn new() -> notify::Result<Self> {
        let (sender, signal) = sync_channel(1);
        let sender = Arc::new(sender);
        let waker = Arc::downgrade(&sender);
        let heard = Arc::new(Mutex::new(Heard::default()));
        let listener = Arc::clone(&heard);
        let watcher = notify::recommended_watcher(move |event| listen(&listener, &sender, event))?;
        Ok(Self { watcher, signal, waker, heard, watched: BTreeMap::new() })
    }

    /// Ends a wait from another thread.
    pub(super) fn waker(&self) -> Weak<SyncSender<()>> {
        self.waker.clone()
    }

    /// Watches what the tree came by, and nothing else. Says whether that was more than before, and what failed.
    pub(super) fn cover(&mut self, roots: &[PathBuf], tree: &Tree) -> Covered {
        let interests = interests(roots, tree);
        for folder in self.hand_over(interests.clone()) {
            self.drop(&folder);
        }
        self.drop_all_but(&interests);
        let mut covered = Covered::default();
        for folder in interests.into_keys() {
            self.add(folder, &mut covered);
        }
        covered
    }

    /// Has the last writer of this file closed it, as far as was heard? The path is free of links.
    pub(super) fn is_closed(&self, file: &Path) -> bool {
        lock(&self.heard).closed.contains(file)
    }

    /// The content of this file was taken in.
    pub(super) fn forget_closed(&self, file: &Path) {
        lock(&self.heard).closed.remove(file);
    }

    /// Waits for a signal, then for the end of the burst. False at the timeout, `None` when nothing can come any more.
    pub(super) fn wait(&self, timeout: Duration) -> Option<bool> {
        match self.signal.recv_timeout(timeout) {
            Ok(()) => {
                self.outlast_burst();
                Some(true)
            }
            Err(RecvTimeoutError::Timeout) => Some(false),
            Err(RecvTimeoutError::Disconnected) => None,
        }
    }

    fn outlast_burst(&self) {
        let started = Instant::now();
        while started.elapsed() < BURST_MAX && self.signal.recv_timeout(QUIET).is_ok() {}
    }

    /// Tells the listening thread what matters now; returns the folders that it lost. The lock is not held while the
    /// watcher is told: it answers from that thread.
    fn hand_over(&self, interests: BTreeMap<PathBuf, Interest>) -> BTreeSet<PathBuf> {
        let mut heard = lock(&self.heard);
        heard.interests = interests;
        std::mem::take(&mut heard.lost)
    }

    fn drop_all_but(&mut self, interests: &BTreeMap<PathBuf, Interest>) {
        let gone: Vec<_> =
            self.watched.keys().filter(|folder| !interests.contains_key(*folder)).cloned().collect();
        for folder in gone {
            self.drop(&folder);
        }
    }

    fn drop(&mut self, folder: &Path) {
        if self.watched.remove(folder).is_some() {
            // A watch that is gone already needs no removal.
            let _ = self.watcher.unwatch(folder);
        }
    }

    fn add(&mut self, folder: PathBuf, covered: &mut Covered) {
        // What is not there cannot be watched; whoever creates it is heard in the folder above.
        let Ok(metadata) = fs::metadata(&folder) else { return };
        let identity = disk::identity(&metadata);
        if self.watched.get(&folder) == Some(&identity) {
            return;
        }
        self.drop(&folder);
        match self.watcher.watch(&folder, RecursiveMode::NonRecursive) {
            Ok(()) => {
                covered.is_new = true;
                self.watched.insert(folder, identity);
            }
            Err(error) => covered.failures.push((folder, error)),
        }
    }
}

/// What a watch covers.
#[derive(Debug, Default)]
pub(super) struct Covered {
    /// A folder is watched that was not before: what happened in it until now was not heard.
    pub(super) is_new: bool,
    /// Folders that cannot be watched.
    pub(super) failures: Vec<(PathBuf, notify::Error)>,
}

impl Covered {
    /// The failures, for people.
    pub(super) fn problems(self) -> impl Iterator<Item = Problem> {
        self.failures.into_iter().map(|(folder, error)| {
            let message = format!("changes in it are not seen: {}", explain(&error));
            problem(&folder.into(), 0, message)
        })
    }
}

/// Why a folder cannot be watched, and the way out.
pub(super) fn explain(error: &notify::Error) -> String {
    match &error.kind {
        notify::ErrorKind::MaxFilesWatch => {
            "all of this user's inotify watches are taken; raise `fs.inotify.max_user_watches` with sysctl".into()
        }
        notify::ErrorKind::Io(reason) if reason.raw_os_error() == Some(libc::EMFILE) => {
            "all of this user's inotify instances are taken; raise `fs.inotify.max_user_instances` with sysctl".into()
        }
        _ => error.to_string(),
    }
}

/// The folders to watch, each free of links: two names of one folder would be one watch, heard under one name only.
fn interests(roots: &[PathBuf], tree: &Tree) -> BTreeMap<PathBuf, Interest> {
    let mut interests = BTreeMap::new();
    for station in roots.iter().chain(&tree.links).flat_map(|path| way::stations(path)) {
        if let Interest::Names(names) =
            interests.entry(station.folder).or_insert_with(|| Interest::Names(BTreeSet::new()))
        {
            names.insert(station.name);
        }
    }
    for folder in tree.folders.iter().filter_map(|folder| folder.canonicalize().ok()) {
        interests.insert(folder, Interest::All);
    }
    interests
}

/// Runs on the watcher's thread for each event.
fn listen(heard: &Mutex<Heard>, signal: &SyncSender<()>, event: notify::Result<Event>) {
    // An error may hide an event.
    let matters = event.map_or(true, |event| lock(heard).matters(&event));
    if matters {
        // Full: a signal waits already, and one is enough.
        let _ = signal.try_send(());
    }
}

impl Heard {
    fn matters(&mut self, event: &Event) -> bool {
        if event.need_rescan() {
            return true;
        }
        if is_reading(event.kind) {
            return false;
        }
        self.note_lost(event);
        self.note_closed(event);
        event.paths.iter().any(|path| self.interests_in(path))
    }

    fn note_lost(&mut self, event: &Event) {
        if matches!(event.kind, EventKind::Remove(_) | EventKind::Modify(ModifyKind::Name(_))) {
            let lost = event.paths.iter().filter(|path| self.interests.contains_key(*path));
            self.lost.extend(lost.cloned());
        }
    }

    /// A file that is renamed to its place was closed before.
    fn note_closed(&mut self, event: &Event) {
        let is_closed = match event.kind {
            EventKind::Access(_) | EventKind::Modify(ModifyKind::Name(_)) => true,
            EventKind::Modify(ModifyKind::Data(_) | ModifyKind::Any) | EventKind::Create(_) => false,
            _ => return,
        };
        for path in &event.paths {
            if !is_closed {
                self.closed.remove(path);
            } else if self.interests_in(path) {
                if self.closed.len() >= CLOSED_MAX {
                    self.closed.clear();
                }
                self.closed.insert(path.clone());
            }
        }
    }

    fn interests_in(&self, path: &Path) -> bool {
        let of_parent = path.parent().and_then(|folder| self.interests.get(folder));
        let in_parent = match (of_parent, path.file_name()) {
            (Some(Interest::All), _) => true,
            (Some(Interest::Names(names)), Some(name)) => names.contains(name),
            _ => false,
        };
        in_parent || self.interests.get(path) == Some(&Interest::All)
    }
}

/// Did somebody only look? We do so ourselves, and would hear ourselves for ever.
fn is_reading(kind: EventKind) -> bool {
    match kind {
        EventKind::Access(access) => access != AccessKind::Close(AccessMode::Write),
        _ => false,
    }
}

/// Nothing that runs under this lock can leave it half-changed, so a panic elsewhere does not matter.
fn lock(heard: &Mutex<Heard>) -> MutexGuard<'_, Heard> {
    heard.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use notify::event::{CreateKind, Flag};

    use super::*;

    fn heard() -> Heard {
        let named = Interest::Names(BTreeSet::from(["a.yaml".into()]));
        let interests = BTreeMap::from([("/all".into(), Interest::All), ("/some".into(), named)]);
        Heard { interests, ..Heard::default() }
    }

    fn created(path: &str) -> Event {
        Event::new(EventKind::Create(CreateKind::File)).add_path(path.into())
    }

    #[test]
    fn only_what_matters_is_heard() {
        assert!(heard().matters(&created("/all/x")));
        assert!(heard().matters(&created("/some/a.yaml")));
        assert!(!heard().matters(&created("/some/other")));
        let opened = EventKind::Access(AccessKind::Open(AccessMode::Any));
        assert!(!heard().matters(&Event::new(opened).add_path("/all/x".into())));
        let written = EventKind::Access(AccessKind::Close(AccessMode::Write));
        assert!(heard().matters(&Event::new(written).add_path("/all/x".into())));
    }

    #[test]
    fn a_file_is_closed_from_its_close_or_rename_to_the_next_write() {
        let mut heard = heard();
        let written = EventKind::Modify(ModifyKind::Data(notify::event::DataChange::Any));
        let closed = EventKind::Access(AccessKind::Close(AccessMode::Write));
        let renamed = EventKind::Modify(ModifyKind::Name(notify::event::RenameMode::To));
        for (kind, is_closed) in [(written, false), (closed, true), (written, false), (renamed, true)] {
            heard.matters(&Event::new(kind).add_path("/all/x".into()));
            assert_eq!(heard.closed.contains(Path::new("/all/x")), is_closed, "{kind:?}");
        }
    }

    #[test]
    fn a_queue_that_overflowed_and_an_error_are_signals() {
        assert!(heard().matters(&Event::new(EventKind::Other).set_flag(Flag::Rescan)));
        let (sender, signal) = sync_channel(1);
        listen(&Mutex::new(heard()), &sender, Err(notify::Error::generic("lost")));
        assert!(signal.try_recv().is_ok());
    }
}
