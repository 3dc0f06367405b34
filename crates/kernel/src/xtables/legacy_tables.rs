//! The legacy tables, without their program: read and replaced through the kernel's own socket options.
//!
//! In: the network namespace of the calling thread. Out: the same text as the program prints, as far as `steps` can tell; and a text that only
//! removes is carried out, each table at once. It needs `CAP_NET_ADMIN`, and not `CAP_NET_RAW`, which the program needs for its socket.
//!
//! All programs that write legacy tables exchange them whole, and hold a lock meanwhile. So does this one, with the same lock.
//!
//! Absent on purpose: adding rules, which the program alone can.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::thread;
use std::time::{Duration, Instant};

use super::error::{Error, Result, lock_file};
use super::legacy::{add_counters, again, entries, replace};
use super::legacy_removal::{Block, Replacement};
use super::orders::{Orders, parse};
use super::programs::legacy_tables;
use super::{Family, Table, Variant, Xtables};

/// What is named where the programs are: the program that refuses.
const KERNEL: &str = "x_tables";
/// So long the lock is waited for, as the programs are told to.
const LOCK_WAIT: Duration = Duration::from_secs(5);
const LOCK_POLL: Duration = Duration::from_millis(20);

/// The legacy tables of one family.
#[derive(Debug, Clone, Copy)]
pub struct LegacyTables {
    family: Family,
}

impl LegacyTables {
    /// Those of this network namespace.
    pub fn new(family: Family) -> Self {
        Self { family }
    }

    fn carry_out(self, orders: &Orders<'_>) -> Result<()> {
        let table = orders.table.name();
        let (info, bytes) = again(|| entries(self.family, table)).map_err(|error| failed(&error))?;
        let block = Block::read(self.family, &info, &bytes).map_err(|error| failed(&error))?;
        let left = block.without(orders).map_err(|error| failed(&error))?.ok_or_else(changed)?;
        self.exchange(table, block.count(), &left).map_err(|error| failed(&error))
    }

    /// Rules that stay keep their counters.
    fn exchange(self, table: &str, old_count: usize, left: &Replacement) -> io::Result<()> {
        let Replacement { info, entries, kept } = left;
        let counters = replace(self.family, info, (entries, kept.len()), old_count)?;
        let counters: Vec<_> = kept.iter().filter_map(|entry| counters.get(*entry).copied()).collect();
        add_counters(self.family, table, &counters)
    }
}

impl Xtables for LegacyTables {
    fn variant(&self) -> Variant {
        Variant::Legacy
    }

    fn family(&self) -> Family {
        self.family
    }

    fn save(&mut self, table: Table) -> Result<Option<String>> {
        // Asking for a table that nobody has used would make it.
        if !legacy_tables(self.family)?.iter().any(|name| name == table.name()) {
            return Ok(None);
        }
        let text = again(|| entries(self.family, table.name()))
            .and_then(|(info, bytes)| Block::read(self.family, &info, &bytes)?.text(table.name()));
        text.map(Some).map_err(|error| failed(&error))
    }

    fn restore(&mut self, text: &str) -> Result<()> {
        let orders = parse(Variant::Legacy, text)?;
        let _lock = lock()?;
        orders.iter().try_for_each(|orders| self.carry_out(orders))
    }
}

/// The lock of all programs that write legacy tables; it goes with the file.
fn lock() -> Result<File> {
    let path = lock_file();
    let open = || match File::open(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            OpenOptions::new().append(true).create(true).mode(0o600).open(&path)
        }
        opened => opened,
    };
    let file = open().map_err(|error| Error::NotPermitted {
        program: format!("open {path}"),
        stderr: format!("the lock of the legacy programs: {error}"),
    })?;
    let begun = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if begun.elapsed() < LOCK_WAIT => thread::sleep(LOCK_POLL),
            Err(error) => {
                return Err(Error::Locked { program: KERNEL.to_owned(), stderr: error.to_string() });
            }
        }
    }
}

fn changed() -> Error {
    let stderr = "somebody else has changed the table meanwhile".to_owned();
    Error::Refused { program: KERNEL.to_owned(), line: None, stderr }
}

fn failed(error: &io::Error) -> Error {
    let (program, stderr) = (KERNEL.to_owned(), error.to_string());
    match error.kind() {
        io::ErrorKind::PermissionDenied => Error::NotPermitted { program, stderr },
        _ => Error::Refused { program, line: None, stderr },
    }
}
