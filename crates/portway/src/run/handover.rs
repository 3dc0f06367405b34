//! How one portway goes on in the place of another, without a moment in which nobody could write.
//!
//! ```text
//!   new: probes the kernel, opens its files      old: serves
//!   new: "hand over" ──────────────────────────► old: ends what it is writing
//!                    ◄───────────── closed ────── old: lets go of both locks, stands by
//!   new: takes both locks, adopts the rules, serves
//! ```
//!
//! The rules are in the kernel all the while. The old process does not end: a supervisor would start it again, and that one
//! would take over in turn. It stands by, holding nothing, until it is told to end; and if the new one dies without having
//! handed over to anybody, it goes on.
//!
//! The call goes to the name that stands for the network namespace, so it needs no common folder. Only root, or the user
//! that the old portway runs as, is listened to.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::{Duration, Instant};

use kernel::signal::Termination;

use super::RunError;
use super::lock::{NamespaceLock, RunDir};

/// The one thing that can be said.
const WISH: &str = "hand over\n";
/// The old portway may be writing; that long it may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// A caller says what it wants at once.
const CALLER_PATIENCE: Duration = Duration::from_secs(1);
/// How often a portway that stands by looks whether it is needed.
const LOOK: Duration = Duration::from_millis(200);

/// What to do where another portway is there already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Arrival {
    /// Refuse to run.
    #[default]
    Refuse,
    /// Ask it to give way.
    TakeOver,
    /// Wait until it is gone.
    StandBy,
}

/// Both locks of a running portway.
#[derive(Debug)]
pub(super) struct Locks {
    pub(super) run_dir: RunDir,
    pub(super) namespace: NamespaceLock,
}

impl Locks {
    /// Takes both locks in the way that was chosen. `None` if the process was told to end while it waited.
    pub(super) fn take(
        arrival: Arrival,
        run_dir: &Path,
        termination: &Termination,
    ) -> Result<Option<Self>, RunError> {
        match arrival {
            Arrival::Refuse => Self::try_take(run_dir).map(Some),
            Arrival::TakeOver => Self::take_over(run_dir).map(Some),
            Arrival::StandBy => Self::wait(run_dir, termination),
        }
    }

    fn try_take(run_dir: &Path) -> Result<Self, RunError> {
        let run_dir = RunDir::take(run_dir)?;
        let namespace = NamespaceLock::take(run_dir.path())?;
        Ok(Self { run_dir, namespace })
    }

    fn take_over(run_dir: &Path) -> Result<Self, RunError> {
        let deadline = Instant::now() + PATIENCE;
        let refused = |error: io::Error| RunError::NotHandedOver { reason: error.to_string() };
        match NamespaceLock::call().map_err(refused)? {
            Some(stream) => ask(stream).map_err(refused)?,
            None => return Self::try_take(run_dir),
        }
        loop {
            match Self::try_take(run_dir) {
                Err(RunError::Busy { .. } | RunError::NamespaceBusy { .. }) if Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(5));
                }
                other => return other,
            }
        }
    }

    fn wait(run_dir: &Path, termination: &Termination) -> Result<Option<Self>, RunError> {
        let mut has_told = false;
        loop {
            match Self::try_take(run_dir) {
                Err(error @ (RunError::Busy { .. } | RunError::NamespaceBusy { .. })) => {
                    if !std::mem::replace(&mut has_told, true) {
                        tracing::info!("standing by: {}", holder(&error));
                    }
                }
                other => return other.map(Some),
            }
            let heard = termination.wait_at_most(LOOK);
            if heard.map_err(|source| RunError::System { action: "hear signals", source })?.is_some() {
                return Ok(None);
            }
        }
    }
}

fn holder(error: &RunError) -> String {
    match error {
        RunError::Busy { pid, .. } => format!("process {pid} keeps this node in step"),
        _ => "another portway keeps this network namespace in step".to_owned(),
    }
}

/// Says what we want, and waits until the other end lets go.
fn ask(mut stream: UnixStream) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(WISH.as_bytes())?;
    let mut answer = String::new();
    match stream.take(1024).read_to_string(&mut answer) {
        Ok(0) => Ok(()),
        Ok(_) => Err(io::Error::other(answer.trim().to_owned())),
        // It ended with our words unread: gone is gone.
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            Err(io::Error::other(format!("it gave no sign for {} s", PATIENCE.as_secs())))
        }
        Err(error) => Err(error),
    }
}

/// Another portway that wants our place. It waits until this, and with it the line, is gone.
#[derive(Debug)]
pub struct Successor {
    /// Its process.
    pub process: u32,
    _line: Option<UnixStream>,
}

impl Successor {
    /// One that nobody waits for.
    pub fn of_process(process: u32) -> Self {
        Self { process, _line: None }
    }
}

/// Where another portway asks for our place.
#[derive(Debug)]
pub(super) struct Door {
    listener: UnixListener,
}

impl Door {
    pub(super) fn new(listener: UnixListener) -> Self {
        Self { listener }
    }

    /// Waits for the next portway that wants our place. `None` when nobody can ask any more.
    pub(super) fn wait(&self) -> Option<Successor> {
        loop {
            let (stream, _) = match self.listener.accept() {
                Ok(accepted) => accepted,
                Err(error) if is_passing(&error) => continue,
                Err(_) => return None,
            };
            match hear(&stream) {
                Ok(process) => return Some(Successor { process, _line: Some(stream) }),
                Err(error) => {
                    tracing::warn!(%error, "somebody knocked who may not take over, or did not say what it wants");
                    // Whoever does not want to hear why is gone.
                    let _ = (&stream).write_all(format!("{error}\n").as_bytes());
                }
            }
        }
    }
}

fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted)
}

fn hear(stream: &UnixStream) -> io::Result<u32> {
    let peer = kernel::peer::of(stream)?;
    if peer.user != 0 && peer.user != kernel::peer::own_user() {
        return Err(io::Error::other("only root may take over"));
    }
    stream.set_read_timeout(Some(CALLER_PATIENCE))?;
    let mut line = String::new();
    BufReader::new(stream).take(64).read_line(&mut line)?;
    if line == WISH { Ok(peer.process) } else { Err(io::Error::other("this is no wish that is known here")) }
}
