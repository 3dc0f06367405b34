//! Remembers who holds what, so that it survives restarts and kill -9 and is shared by processes.
//!
//! ```text
//!   begin ── lock, read what others appended ──► ledger ──decide──► records ──commit── append, sync ──► unlock
//! ```
//!
//! One Service costs a few lines at the end of the file. When most lines are history the file is written anew, once, and
//! put in place by a rename.
//!
//! A preview takes no lock and makes no file: it reads what is there, and what it gives stays in memory.
//!
//! A folder that cannot be written, for want of room or because it is read-only, can still be read: what is held stays held, and only
//! records wait.
//!
//! A damaged line costs only itself: the file is kept aside under another name, the good records go on in a new one, and
//! a report names both.

mod folder;
mod ledger;
mod lock;
mod log;
mod record;

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;

use model::{ObjectRef, Report, ServiceName};

pub(crate) use ledger::{Ledger, Tenant};
pub(crate) use lock::Turn;
use lock::{InUse, PAUSE};
use log::{Content, FILE_NAME, Log};
pub(crate) use record::{Record, Resource, Slot};

use super::StoreError;

/// History that is not worth writing a file anew for.
const SPARE_RECORDS: usize = 1024;
/// How often a damaged file is read without a lock before it counts as damaged: its last line may just be being written.
const MOST_READS: usize = 10;

/// The store.
#[derive(Debug)]
pub(crate) struct Store {
    dir: PathBuf,
    ledger: Ledger,
    /// None for a dry run, and before the first turn.
    log: Option<Log>,
    in_use: Option<InUse>,
    is_dry: bool,
    /// Why a dry run does not know what is remembered.
    unread: Option<StoreError>,
    /// The ledger holds what never reached the disk.
    is_stale: bool,
    /// Why nothing can be appended in this turn, though all could be read.
    unwritable: Option<StoreError>,
    reports: Vec<Report>,
    /// Every write fails with this number of an error.
    #[cfg(test)]
    pub(crate) fault: Option<i32>,
}

impl Store {
    /// Opens the store of a folder, which is made where it is missing. A dry run reads what is there, makes nothing and takes no lock; where
    /// the folder cannot be read, it begins with nothing ([`Store::unread`]).
    pub(crate) fn open(dir: &Path, is_dry: bool) -> Result<Self, StoreError> {
        let (ledger, reports) = (Ledger::default(), Vec::new());
        let mut store = Self {
            dir: dir.to_owned(),
            ledger,
            log: None,
            in_use: None,
            is_dry,
            unread: None,
            is_stale: false,
            unwritable: None,
            reports,
            #[cfg(test)]
            fault: None,
        };
        if is_dry {
            match store.read_only() {
                Err(error @ StoreError::Io { .. }) => store.unread = Some(error),
                read => drop(read?),
            }
        } else {
            match folder::prepare(dir) {
                Ok(report) => store.reports.extend(report),
                // The first turn fails for the same reason, and logs it.
                Err(error) if error.is_unwritable() => {}
                Err(error) => return Err(error),
            }
            store.begin_or_read()?;
        }
        Ok(store)
    }

    /// Where not even a turn can be had, what is there is read. Without a file no Service holds anything yet.
    fn begin_or_read(&mut self) -> Result<(), StoreError> {
        let Err(error) = self.begin() else { return Ok(()) };
        (self.ledger, self.log) = (Ledger::default(), None);
        match error {
            StoreError::Io { .. } if self.read_in_turn()? => {
                self.is_stale = false;
                tracing::warn!(%error, "the state folder can be read but not written: Services that hold their addresses are served");
                Ok(())
            }
            error if error.is_unwritable() => {
                self.is_stale = false;
                tracing::warn!(%error, "the state folder is empty and cannot be written: no Service gets an address until it can");
                Ok(())
            }
            error => Err(error),
        }
    }

    /// Waits for our turn, and catches up with what others did. Returns the Services whose holdings they changed.
    pub(crate) fn begin(&mut self) -> Result<(Turn, BTreeSet<ServiceName>), StoreError> {
        if self.is_dry {
            return Ok((Turn::alone(), BTreeSet::new()));
        }
        self.unwritable = None;
        folder::make(&self.dir)?;
        let turn = or_if_read_only(Turn::take(&self.dir), Turn::alone)?;
        if self.in_use.is_none() {
            self.in_use = or_if_read_only(InUse::declare(&self.dir, &turn).map(Some), || None)?;
        }
        let changed = self.catch_up()?;
        Ok((turn, changed))
    }

    /// Notes a record: in memory at once, on the disk by [`Store::commit`].
    pub(crate) fn note(&mut self, record: Record, batch: &mut Vec<Record>) {
        self.ledger.apply(&record);
        batch.push(record);
    }

    /// Writes what was noted during this turn, all of it in one go. After an error none of it counts: the ledger is again what is on the
    /// disk, unless that cannot be read either ([`Store::is_durable`]).
    pub(crate) fn commit(&mut self, turn: Turn, batch: &[Record]) -> Result<(), StoreError> {
        if !self.is_dry && !batch.is_empty() {
            self.is_stale = true;
            if let Err(error) = self.append(batch) {
                if let Err(unreadable) = self.reload() {
                    tracing::warn!(error = %unreadable, "the state folder cannot be read");
                }
                return Err(error);
            }
            self.is_stale = false;
            self.compact_if_worth_it();
        }
        drop(turn);
        Ok(())
    }

    fn append(&mut self, batch: &[Record]) -> Result<(), StoreError> {
        #[cfg(test)]
        if let Some(errno) = self.fault {
            let error = io::Error::from_raw_os_error(errno);
            return Err(StoreError::io("write", self.dir.join(FILE_NAME), error));
        }
        match (self.unwritable.take(), &mut self.log) {
            (Some(error), _) => Err(error),
            (None, Some(log)) => log.append(batch),
            (None, None) => {
                Err(StoreError::io("write", self.dir.join(FILE_NAME), io::ErrorKind::NotFound.into()))
            }
        }
    }

    /// Is everything in the ledger on the disk, too?
    pub(crate) fn is_durable(&self) -> bool {
        !self.is_stale
    }

    /// Is no other process relying upon the store? A dry run does not know.
    pub(crate) fn is_alone(&self, turn: &Turn) -> bool {
        !self.is_dry && self.in_use.as_ref().is_none_or(|in_use| in_use.is_alone(turn))
    }

    /// Who holds what.
    pub(crate) fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Is nothing ever written?
    pub(crate) fn is_dry(&self) -> bool {
        self.is_dry
    }

    /// Why a dry run could not read what is remembered.
    pub(crate) fn unread(&self) -> Option<&StoreError> {
        self.unread.as_ref()
    }

    /// What was found damaged.
    pub(crate) fn reports(&self) -> &[Report] {
        &self.reports
    }

    /// Reads what is there while nobody writes. Returns whether there is something.
    fn read_in_turn(&mut self) -> Result<bool, StoreError> {
        let _turn = Turn::to_read(&self.dir)?;
        self.read_only()
    }

    /// Reads what is there. Returns whether there is something.
    fn read_only(&mut self) -> Result<bool, StoreError> {
        let Some(content) = whole_content(&self.dir)? else { return Ok(false) };
        self.take(&content);
        if !content.damaged_lines.is_empty() {
            self.report_damage(&content, "the good lines count; the next real run sets the file aside");
        }
        Ok(true)
    }

    fn catch_up(&mut self) -> Result<BTreeSet<ServiceName>, StoreError> {
        // A read-only file may be writable by now.
        if self.is_stale || self.log.as_ref().is_none_or(|log| log.is_read_only() || !log.is_current()) {
            self.reload()
        } else {
            self.read_on()
        }
    }

    /// Reads everything anew. Where the file has vanished, what we remember is written down again.
    fn reload(&mut self) -> Result<BTreeSet<ServiceName>, StoreError> {
        let Some(log) = Log::open(&self.dir, true)? else {
            self.log = Some(Log::create(&self.dir, &self.ledger.records())?);
            self.is_stale = false;
            return Ok(BTreeSet::new());
        };
        let before = std::mem::take(&mut self.ledger);
        self.log = Some(log);
        self.is_stale = true;
        self.read_on()?;
        self.is_stale = false;
        Ok(self.ledger.changed_since(&before))
    }

    fn read_on(&mut self) -> Result<BTreeSet<ServiceName>, StoreError> {
        let Some(log) = &mut self.log else { return Ok(BTreeSet::new()) };
        let content = log.read_on()?;
        let changed = self.take(&content);
        if !content.damaged_lines.is_empty() {
            // Nothing may be appended to a torn line: unless recovery succeeds, the next turn starts over.
            if let Err(error) = self.recover(&content) {
                self.unwritable = Some(error);
                self.log = None;
            }
        }
        Ok(changed)
    }

    fn take(&mut self, content: &Content) -> BTreeSet<ServiceName> {
        content.records.iter().flat_map(|record| self.ledger.apply(record)).collect()
    }

    /// Sets the damaged file aside and goes on with a good one.
    fn recover(&mut self, content: &Content) -> Result<(), StoreError> {
        let Some(log) = &self.log else { return Ok(()) };
        let aside = log.keep_aside()?;
        self.log = Some(Log::create(&self.dir, &self.ledger.records())?);
        self.report_damage(
            content,
            &format!("the good lines were kept; the damaged file is {}", aside.display()),
        );
        Ok(())
    }

    fn report_damage(&mut self, content: &Content, what_now: &str) {
        let path = self.dir.join(FILE_NAME);
        let object = ObjectRef { kind: "Store", name: path.display().to_string().into() };
        let lines: Vec<_> = content.damaged_lines.iter().map(ToString::to_string).collect();
        let problem = format!(
            "torn or corrupt, as after a crash or a fault of the disk: {what_now}. A Service named only there may get \
             another address"
        );
        tracing::warn!(file = %path.display(), lines = lines.join(","), "the store was damaged: {what_now}");
        self.reports.push(Report::new(object, "line", &lines.join(", "), problem));
    }

    /// Writes the file anew when most of it is history. What is on the disk is whole, so a failure costs nothing now.
    fn compact_if_worth_it(&mut self) {
        let Some(log) = &self.log else { return };
        if log.record_count <= 2 * self.ledger.weight() + SPARE_RECORDS {
            return;
        }
        match Log::create(&self.dir, &self.ledger.records()) {
            Ok(log) => self.log = Some(log),
            Err(error) => tracing::warn!(%error, "the store could not be compacted; it goes on growing"),
        }
    }
}

/// What the file holds. A writer appends whole lines, and replaces the file in one step: what looks damaged may be a line that is being
/// written, and is read again.
fn whole_content(dir: &Path) -> Result<Option<Content>, StoreError> {
    let mut reads = 0;
    loop {
        let Some(mut log) = Log::open(dir, false)? else { return Ok(None) };
        let content = log.read_on()?;
        reads += 1;
        if content.damaged_lines.is_empty() || reads == MOST_READS {
            return Ok(Some(content));
        }
        thread::sleep(PAUSE);
    }
}

/// On a read-only file system nobody writes, so whoever reads needs no lock.
fn or_if_read_only<T>(result: Result<T, StoreError>, otherwise: fn() -> T) -> Result<T, StoreError> {
    match result {
        Err(StoreError::Io { source, .. }) if source.kind() == io::ErrorKind::ReadOnlyFilesystem => {
            Ok(otherwise())
        }
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Family;

    fn hold(name: &str, last: u8) -> Record {
        let resource = Resource::Address([10, 96, 0, last].into());
        Record::Hold {
            service: ServiceName::new("default", name),
            slot: Slot::ClusterIp(Family::V4),
            resource,
        }
    }

    fn address(last: u8) -> Resource {
        Resource::Address([10, 96, 0, last].into())
    }

    /// Writes one record, with another file in the place of the real one.
    fn write(store: &mut Store, record: Record, instead: Option<Log>) -> Result<(), StoreError> {
        let (turn, _) = store.begin().unwrap();
        if instead.is_some() {
            store.log = instead;
        }
        let mut batch = Vec::new();
        store.note(record, &mut batch);
        store.commit(turn, &batch)
    }

    #[test]
    fn what_could_not_be_written_was_never_given() {
        let dir = std::env::temp_dir().join(format!("portway-store-{}", std::process::id()));
        let mut store = Store::open(&dir, false).unwrap();
        write(&mut store, hold("a", 1), None).unwrap();
        let error = write(&mut store, hold("b", 2), Some(Log::full_disk(&dir))).unwrap_err().to_string();
        assert!(error.contains("make room on the disk"), "{error}");
        write(&mut store, hold("c", 2), None).unwrap();
        let read_only = Log::open(&dir, false).unwrap();
        write(&mut store, hold("d", 3), read_only).unwrap_err();
        drop(store.begin().unwrap());
        let fresh = Store::open(&dir, true).unwrap();
        for ledger in [store.ledger(), fresh.ledger()] {
            assert_eq!(ledger.holder(&address(1)), Some(&ServiceName::new("default", "a")));
            assert_eq!(ledger.holder(&address(2)), Some(&ServiceName::new("default", "c")));
            assert_eq!(ledger.holder(&address(3)), None);
        }
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
