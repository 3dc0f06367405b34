//! The file: a first line that names the format, then one record per line, only ever appended to.
//!
//! A record counts when its line is whole and its checksum agrees. Whoever is killed while writing leaves a torn last
//! line, which nobody has acted upon: records are synced to the disk before anything is told to the outside.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use super::lock::is_read_only;
use super::record::{Record, decode_line, encode_line};
use crate::ipam::StoreError;

/// The name of the file.
pub(crate) const FILE_NAME: &str = "allocations.log";
const TEMPORARY_NAME: &str = "allocations.log.new";
const FORMAT: &str = "portway-allocations";
const VERSION: u32 = 1;

/// The open file.
#[derive(Debug)]
pub(crate) struct Log {
    path: PathBuf,
    file: File,
    /// How far it has been read or written: always the end of a good record.
    end: u64,
    /// How many records that is.
    pub(crate) record_count: usize,
    /// The number of the error for which it could be opened for reading only.
    read_only: Option<i32>,
}

/// What was read.
#[derive(Debug, Default)]
pub(crate) struct Content {
    /// The good records, in order.
    pub(crate) records: Vec<Record>,
    /// The lines that are damaged, counted from the first one read.
    pub(crate) damaged_lines: Vec<usize>,
}

impl Log {
    /// Opens the file of `dir` without reading it yet. `None` when there is none. One that cannot be written is opened for reading.
    pub(crate) fn open(dir: &Path, for_writing: bool) -> Result<Option<Self>, StoreError> {
        let path = dir.join(FILE_NAME);
        match fs::metadata(&path) {
            // Opening a FIFO would wait for somebody to write to it.
            Ok(found) if !found.is_file() => return Err(StoreError::NoFile { path }),
            Ok(_) => {}
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(StoreError::io("look at", path, e)),
        }
        let opened = OpenOptions::new().read(true).write(for_writing).open(&path);
        let (opened, read_only) = match opened {
            Err(error) if for_writing && is_read_only(&error) => (File::open(&path), error.raw_os_error()),
            opened => (opened, None),
        };
        let file = opened.map_err(|e| StoreError::io("open", &path, e))?;
        Ok(Some(Self { path, file, end: 0, record_count: 0, read_only }))
    }

    /// Writes a new file that holds exactly these records, and puts it in the place of any other in one step.
    pub(crate) fn create(dir: &Path, records: &[Record]) -> Result<Self, StoreError> {
        let (path, temporary) = (dir.join(FILE_NAME), dir.join(TEMPORARY_NAME));
        let text = encode_line(&format!("{FORMAT} {VERSION}")) + &encode(records);
        let write = || -> io::Result<File> {
            let mut file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o600)
                .open(&temporary)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&temporary, &path)?;
            File::open(dir)?.sync_all()?;
            Ok(file)
        };
        let file = write().map_err(|e| {
            // It holds nothing that is not elsewhere; on a full disk its room is wanted.
            let _ = fs::remove_file(&temporary);
            StoreError::io("write", &temporary, e)
        })?;
        Ok(Self { path, file, end: text.len() as u64, record_count: records.len(), read_only: None })
    }

    /// Could it be opened for reading only?
    pub(crate) fn is_read_only(&self) -> bool {
        self.read_only.is_some()
    }

    /// Is this still the file that has the name? Another process may have put a compacted one in its place.
    pub(crate) fn is_current(&self) -> bool {
        let identity = |found: fs::Metadata| (found.dev(), found.ino());
        match (fs::metadata(&self.path), self.file.metadata()) {
            (Ok(named), Ok(ours)) => identity(named) == identity(ours),
            _ => false,
        }
    }

    /// Reads what others appended since.
    pub(crate) fn read_on(&mut self) -> Result<Content, StoreError> {
        let mut bytes = Vec::new();
        let mut read = || {
            self.file.seek(SeekFrom::Start(self.end))?;
            self.file.read_to_end(&mut bytes)
        };
        read().map_err(|e| StoreError::io("read", &self.path, e))?;
        let content = if self.end == 0 { self.with_first_line(&bytes)? } else { parse(&bytes) };
        self.end += bytes.len() as u64;
        self.record_count += content.records.len();
        Ok(content)
    }

    /// Appends records, and returns when they are on the disk. After an error the file is as it was before.
    pub(crate) fn append(&mut self, records: &[Record]) -> Result<(), StoreError> {
        if let Some(errno) = self.read_only {
            return Err(StoreError::io("write", &self.path, io::Error::from_raw_os_error(errno)));
        }
        let text = encode(records);
        let mut write = || {
            self.file.seek(SeekFrom::Start(self.end))?;
            self.file.write_all(text.as_bytes())?;
            self.file.sync_data()
        };
        if let Err(e) = write() {
            // Where even this fails, the next reader finds a torn tail and sets it aside.
            let _ = self.file.set_len(self.end);
            return Err(StoreError::io("write", &self.path, e));
        }
        self.end += text.len() as u64;
        self.record_count += records.len();
        Ok(())
    }

    /// Gives the file a second name, under which it stays when a repaired one takes its place.
    pub(crate) fn keep_aside(&self) -> Result<PathBuf, StoreError> {
        for number in 1.. {
            let mut aside = self.path.clone().into_os_string();
            aside.push(format!(".damaged-{number}"));
            match fs::hard_link(&self.path, &aside) {
                Ok(()) => return Ok(aside.into()),
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                Err(e) => return Err(StoreError::io("keep a copy of", &self.path, e)),
            }
        }
        unreachable!("no folder holds so many files")
    }

    fn with_first_line(&self, bytes: &[u8]) -> Result<Content, StoreError> {
        let (first, rest) = match bytes.iter().position(|b| *b == b'\n') {
            Some(end) => (&bytes[..end], &bytes[end + 1..]),
            None => (&[][..], &[][..]),
        };
        let mut content = parse(rest);
        for line in &mut content.damaged_lines {
            *line += 1;
        }
        match decode_line(first).and_then(|line| line.strip_prefix(FORMAT)).map(str::trim_start) {
            None => content.damaged_lines.insert(0, 1),
            Some(version) if version.parse() == Ok(VERSION) => {}
            Some(version) => {
                let (path, found) = (self.path.clone(), version.to_owned());
                return Err(StoreError::Version { path, found, known: VERSION });
            }
        }
        Ok(content)
    }
}

fn encode(records: &[Record]) -> String {
    records.iter().map(Record::encode).collect()
}

fn parse(bytes: &[u8]) -> Content {
    let mut content = Content::default();
    for (index, line) in bytes.split_inclusive(|b| *b == b'\n').enumerate() {
        match line.strip_suffix(b"\n").and_then(Record::decode) {
            Some(record) => content.records.push(record),
            None => content.damaged_lines.push(index + 1),
        }
    }
    content
}

#[cfg(test)]
impl Log {
    /// A log on a device on which every write fails for want of room.
    pub(crate) fn full_disk(dir: &Path) -> Self {
        let file = OpenOptions::new().write(true).open("/dev/full").unwrap();
        Self { path: dir.join(FILE_NAME), file, end: 0, record_count: 0, read_only: None }
    }
}
