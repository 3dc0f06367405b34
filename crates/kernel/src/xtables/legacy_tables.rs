//! The legacy tables, without their program: read and replaced through the kernel's own socket options.
//!
//! In: the network namespace of the calling thread. Out: the same text as the program prints, as far as `iptables_text` can tell; and a text that only
//! removes is carried out, each table at once. It needs `CAP_NET_ADMIN`, and not `CAP_NET_RAW`, which the program needs for its socket.
//!
//! All programs that write legacy tables exchange them whole, and hold a lock meanwhile. So does this one, with the same lock.
//!
//! Absent on purpose: adding rules, which the program alone can.

use std::fs::{File, TryLockError};
use std::io;
use std::thread;
use std::time::{Duration, Instant};

use super::error::{Error, Result, lock_file};
use super::legacy::{Counters, add_counters, again, entries, replace};
use super::legacy_removal::{Block, Replacement, Unfit};
use super::orders::{Orders, parse};
use super::programs::legacy_tables;
use super::{Family, Table, Variant, Xtables};

/// What is named where the programs are: the program that refuses.
const KERNEL: &str = "x_tables";
/// So long the lock is waited for by those who have the time, as the programs are told to.
const LOCK_WAIT: Duration = Duration::from_secs(5);
const LOCK_POLL: Duration = Duration::from_millis(20);

/// The legacy tables of one family.
#[derive(Debug, Clone, Copy)]
pub struct LegacyTables {
    family: Family,
    /// So long the lock is waited for.
    lock_wait: Duration,
}

impl LegacyTables {
    /// Those of this network namespace. A lock that somebody holds is not waited for.
    pub fn new(family: Family) -> Self {
        Self { family, lock_wait: Duration::ZERO }
    }

    /// A lock that somebody holds is waited for, some seconds.
    pub fn wait_for_lock(&mut self) {
        self.lock_wait = LOCK_WAIT;
    }

    fn carry_out(self, orders: &Orders<'_>) -> Result<()> {
        let table = orders.table.name();
        let (info, bytes) = again(|| entries(self.family, table)).map_err(|error| failed(&error))?;
        let block = Block::read(self.family, &info, &bytes).map_err(|error| failed(&error))?;
        let left = block.without(orders).map_err(|unfit| refused(unfit, orders.table))?;
        let Replacement { info, entries, kept } = &left;
        let replaced = replace(self.family, info, (entries, kept.len()), block.count());
        exchanged(replaced, kept, |counters| add_counters(self.family, table, counters))
            .map_err(|error| failed(&error))
    }
}

/// Rules that stay keep their counters. Where those cannot be put back the table is exchanged all the same: they begin at 0 then.
fn exchanged(
    replaced: io::Result<Vec<Counters>>,
    kept: &[usize],
    add: impl FnOnce(&[Counters]) -> io::Result<()>,
) -> io::Result<()> {
    let counters = replaced?;
    let counters: Vec<_> = kept.iter().filter_map(|entry| counters.get(*entry).copied()).collect();
    let _ = add(&counters);
    Ok(())
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
        let _lock = lock(&lock_file(), self.lock_wait)?;
        orders.iter().try_for_each(|orders| self.carry_out(orders))
    }
}

/// The lock of all programs that write legacy tables; it goes with the file. It is not made here: whoever wrote legacy tables has made it, and
/// one of our own, where that of the host is not to be seen, would keep nobody out.
fn lock(path: &str, wait: Duration) -> Result<File> {
    let file = File::open(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Error::NoLock { path: path.to_owned() },
        _ => Error::NotPermitted {
            program: format!("open {path}"),
            stderr: format!("the lock of the legacy programs: {error}"),
        },
    })?;
    let begun = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if begun.elapsed() < wait => thread::sleep(LOCK_POLL),
            Err(error) => {
                return Err(Error::Locked { program: KERNEL.to_owned(), stderr: error.to_string() });
            }
        }
    }
}

fn refused(unfit: Unfit, table: Table) -> Error {
    let program = KERNEL.to_owned();
    match unfit {
        Unfit::Odd(error) => failed(&error),
        Unfit::Changed => changed(),
        Unfit::Used(chain) => Error::Refused {
            program,
            line: Some(format!("-X {chain}")),
            stderr: "rules of other programs lead to it".to_owned(),
        },
        Unfit::ForTheHost(option) => Error::ForTheHost { table, option },
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
        io::ErrorKind::WouldBlock => changed(),
        _ => Error::Refused { program, line: None, stderr },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Folder(std::path::PathBuf);

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn the_lock_is_neither_made_nor_waited_for() {
        let name = format!("portway-legacy-lock-{}", std::process::id());
        let folder = Folder(std::env::temp_dir().join(name));
        std::fs::create_dir_all(&folder.0).unwrap();
        let file = folder.0.join("xtables.lock");
        let path = file.display().to_string();
        let missing = lock(&path, Duration::ZERO).unwrap_err();
        assert!(!missing.retry_helps() && missing.to_string().contains("mount the host's"), "{missing}");
        assert!(!missing.to_string().contains("run as root"), "{missing}");
        assert!(!file.exists(), "one of our own would keep nobody out");
        let held = File::create(&file).unwrap();
        held.lock().unwrap();
        let tables = LegacyTables::new(Family::V4);
        let refused = lock(&path, tables.lock_wait).unwrap_err();
        assert!(matches!(refused, Error::Locked { .. }) && refused.retry_helps(), "{refused}");
        assert_eq!(tables.lock_wait, Duration::ZERO, "rules would wait meanwhile");
        drop(held);
        assert!(lock(&path, Duration::ZERO).is_ok());
    }

    #[test]
    fn a_table_is_exchanged_also_where_counters_cannot_be_put_back() {
        let os = io::Error::from_raw_os_error;
        let mut told = Vec::new();
        let counters = || Ok(vec![[1, 2], [3, 4], [5, 6]]);
        let done = exchanged(counters(), &[0, 2], |counters| {
            told.extend(counters.to_vec());
            Err(os(libc::EINVAL))
        });
        assert!(done.is_ok(), "{done:?}");
        assert_eq!(told, [[1, 2], [5, 6]], "those of the rules that stay");
        assert!(exchanged(Err(os(libc::EINVAL)), &[0], |_| Ok(())).is_err());
    }

    #[test]
    fn only_a_change_by_somebody_else_is_called_one() {
        let words = "somebody else has changed the table";
        let os = |number| failed(&io::Error::from_raw_os_error(number)).to_string();
        assert!(os(libc::EAGAIN).contains(words));
        assert!(refused(Unfit::Changed, Table::Nat).to_string().contains(words));
        for other in [
            os(libc::EINVAL),
            refused(Unfit::Used("KUBE-A".to_owned()), Table::Nat).to_string(),
            refused(Unfit::ForTheHost("-m cgroup --path"), Table::Nat).to_string(),
        ] {
            assert!(!other.contains(words), "{other}");
        }
    }
}
