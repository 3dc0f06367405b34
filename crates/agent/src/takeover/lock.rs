//! The folder of a running portway, and the lock in it that keeps a second one away.
//!
//! The lock is `flock`, which the kernel gives back when its holder dies, however it dies. The file stays; it holds the number
//! of the process, for people. A second portway with a folder of its own is kept away by a name in the network namespace.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::error::RunError;

/// The name of the file that is locked.
const LOCK_NAME: &str = "portway.pid";
/// The unix sockets of this thread's network namespace.
const UNIX_SOCKETS: &str = "/proc/thread-self/net/unix";
/// A lock whose holder is gone is free after this time.
const LEFT_WITHIN: Duration = Duration::from_secs(2);
const LOOK_AGAIN: Duration = Duration::from_millis(10);
/// The name that stands for the network namespace's tables.
const ABSTRACT_NAME: &str = "portway/kube-proxy";

/// The folder, held for as long as this lives.
#[derive(Debug)]
pub struct RunDir {
    path: PathBuf,
    _lock: File,
}

impl RunDir {
    /// Makes the folder where it is missing, and takes it.
    pub fn take(path: &Path) -> Result<Self, RunError> {
        let failed = |action| move |source| RunError::RunDir { action, path: path.into(), source };
        DirBuilder::new().recursive(true).mode(0o755).create(path).map_err(failed("make the folder"))?;
        let file = path.join(LOCK_NAME);
        let mut lock = open(&file).map_err(failed("open the lock in"))?;
        match try_lock(&mut lock, File::try_lock) {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(RunError::Busy { pid: holder(&mut lock), file }),
            Err(TryLockError::Error(source)) => return Err(failed("lock")(source)),
        }
        write_pid(&mut lock).map_err(failed("write into"))?;
        Ok(Self { path: path.into(), _lock: lock })
    }

    /// Refuses if somebody holds the folder.
    pub fn refuse_if_held(path: &Path) -> Result<(), RunError> {
        let file = path.join(LOCK_NAME);
        let Ok(mut lock) = File::open(&file) else { return Ok(()) };
        match try_lock(&mut lock, File::try_lock_shared) {
            Err(TryLockError::WouldBlock) => Err(RunError::Busy { pid: holder(&mut lock), file }),
            Ok(()) | Err(TryLockError::Error(_)) => Ok(()),
        }
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// This network namespace, whose tables have one writer, held for as long as this lives.
#[derive(Debug)]
pub(crate) struct NamespaceLock {
    name: UnixListener,
}

impl NamespaceLock {
    /// Takes it. An abstract socket name belongs to the network namespace, and goes with its holder however that dies.
    pub(crate) fn take(run_dir: &Path) -> Result<Self, RunError> {
        match name().and_then(|name| UnixListener::bind_addr(&name)) {
            Ok(name) => Ok(Self { name }),
            Err(e) if e.kind() == io::ErrorKind::AddrInUse => {
                Err(RunError::NamespaceBusy { run_dir: run_dir.into() })
            }
            Err(source) => Err(RunError::RunDir {
                action: "take the network namespace beside",
                path: run_dir.into(),
                source,
            }),
        }
    }

    /// The listener at which another portway can ask for our place.
    pub(crate) fn listener(&self) -> io::Result<UnixListener> {
        self.name.try_clone()
    }

    /// Lets go of it, also where somebody still waits at [`Self::listener`]: that one hears that nobody can ask any more.
    pub(crate) fn let_go(self) -> io::Result<()> {
        UnixStream::from(OwnedFd::from(self.name)).shutdown(Shutdown::Both)
    }

    /// A connection to whoever holds this network namespace; `None` if nobody does.
    pub(crate) fn call() -> io::Result<Option<UnixStream>> {
        match name().and_then(|name| UnixStream::connect_addr(&name)) {
            Ok(stream) => Ok(Some(stream)),
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl NamespaceLock {
    /// Does somebody hold this network namespace? Looking disturbs nobody.
    pub(crate) fn is_held() -> bool {
        let names = std::fs::read_to_string(UNIX_SOCKETS).unwrap_or_default();
        names.lines().any(|line| line.ends_with(&format!("@{ABSTRACT_NAME}")))
    }
}

fn name() -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(ABSTRACT_NAME)
}

/// A program that a killed portway was just starting has its lock for some milliseconds more: as long as its holder is no process, it is
/// waited for.
fn try_lock(lock: &mut File, once: impl Fn(&File) -> Result<(), TryLockError>) -> Result<(), TryLockError> {
    let begun = Instant::now();
    loop {
        match once(lock) {
            Err(TryLockError::WouldBlock) if begun.elapsed() < LEFT_WITHIN && is_gone(&holder(lock)) => {
                std::thread::sleep(LOOK_AGAIN);
            }
            result => return result,
        }
    }
}

/// Whether there is no such process.
fn is_gone(pid: &str) -> bool {
    pid.parse::<u32>().is_ok_and(|pid| !Path::new(&format!("/proc/{pid}")).exists())
}

fn open(file: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o644).open(file)
}

fn write_pid(lock: &mut File) -> io::Result<()> {
    lock.set_len(0)?;
    writeln!(lock, "{}", std::process::id())
}

/// The number in the file, which is only a number for people: nothing is done to that process.
fn holder(lock: &mut File) -> String {
    let mut text = String::new();
    if lock.rewind().is_err() {
        return "unknown".to_owned();
    }
    match lock.take(32).read_to_string(&mut text) {
        Ok(_) if text.trim().parse::<u32>().is_ok() => text.trim().to_owned(),
        _ => "unknown".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_has_one_holder_at_a_time() {
        let path = std::env::temp_dir().join(format!("portway-lock-{}", std::process::id()));
        RunDir::refuse_if_held(&path).unwrap();
        let held = RunDir::take(&path).unwrap();
        let refused = RunDir::take(&path).unwrap_err().to_string();
        assert!(refused.contains(&format!("process {}", std::process::id())), "{refused}");
        assert!(refused.contains("portway.pid"), "{refused}");
        RunDir::refuse_if_held(&path).unwrap_err();
        drop(held);
        RunDir::refuse_if_held(&path).unwrap();
        RunDir::take(&path).unwrap();
        std::fs::remove_dir_all(path).unwrap();
    }

    /// What the user saw: after a crash, the next start was refused by the number of a process that was gone.
    #[test]
    fn a_lock_whose_holder_is_gone_is_waited_for() {
        let path = std::env::temp_dir().join(format!("portway-lock-gone-{}", std::process::id()));
        let held = RunDir::take(&path).unwrap();
        // No process has such a number.
        std::fs::write(path.join(LOCK_NAME), "4194305\n").unwrap();
        let waiting = std::thread::spawn({
            let path = path.clone();
            move || RunDir::take(&path).map(drop)
        });
        std::thread::sleep(LOOK_AGAIN * 3);
        assert!(!waiting.is_finished(), "it was refused at once");
        drop(held);
        waiting.join().unwrap().unwrap();
        std::fs::remove_dir_all(path).unwrap();
    }
}
