//! How one portway goes on in the place of another, without a moment in which nobody could write.
//!
//! ```text
//!   new: probes the kernel, opens its files      old: serves
//!   new: "hand over" ──────────────────────────► old: ends what it is writing
//!                    ◄─── sockets, closed ─────── old: lets go of both locks, stands by
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
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use config::Arrival;
use dataplane::relay::{Handed, Heard};
use kernel::signal::Termination;

use super::lock::{NamespaceLock, RunDir};
use crate::error::RunError;

/// The one thing that can be said.
const WISH: &str = "hand over\n";
/// The old portway may be writing; that long it may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// A caller says what it wants at once.
const CALLER_PATIENCE: Duration = Duration::from_secs(1);
/// How often a portway that takes over tries.
const POLL: Duration = Duration::from_millis(5);
/// A successor that is gone, or that we cannot see, is waited for at least so long.
const GRACE: Duration = Duration::from_secs(2);
/// How often a portway that stands by looks whether it is needed.
const LOOK: Duration = Duration::from_millis(200);

/// Both locks of a running portway.
#[derive(Debug)]
pub(crate) struct Locks {
    pub(crate) run_dir: RunDir,
    pub(crate) namespace: NamespaceLock,
}

impl Locks {
    /// Takes both locks in the way that was chosen, and what the portway that held them hands on. `None` if the process was
    /// told to end while it waited.
    pub(crate) fn take(
        arrival: Arrival,
        run_dir: &Path,
        termination: &Termination,
    ) -> Result<Option<(Self, Inheritance)>, RunError> {
        let alone = |locks: Self| (locks, Inheritance::default());
        match arrival {
            Arrival::Refuse => Self::try_take(run_dir).map(|locks| Some(alone(locks))),
            Arrival::TakeOver => Self::take_over(run_dir, termination),
            Arrival::StandBy { for_process } => Ok(Self::wait(run_dir, for_process, termination)?.map(alone)),
        }
    }

    /// Lets go of both, while this process goes on with other things.
    pub(crate) fn let_go(self) {
        if let Err(error) = self.namespace.let_go() {
            tracing::warn!(%error, "the successor has to wait until this process ends");
        }
    }

    fn try_take(run_dir: &Path) -> Result<Self, RunError> {
        let run_dir = RunDir::take(run_dir)?;
        let namespace = NamespaceLock::take(run_dir.path())?;
        Ok(Self { run_dir, namespace })
    }

    /// Asks until it is ours. Whoever was asked may be busy writing, or somebody else may have been quicker; then that one is
    /// asked.
    fn take_over(run_dir: &Path, termination: &Termination) -> Result<Option<(Self, Inheritance)>, RunError> {
        let refused = |error: io::Error| RunError::NotHandedOver { reason: error.to_string() };
        let deadline = Instant::now() + PATIENCE;
        let (mut call, mut inheritance): (Option<Call>, _) = (None, Inheritance::default());
        loop {
            let busy = match Self::try_take(run_dir) {
                Err(error @ (RunError::Busy { .. } | RunError::NamespaceBusy { .. })) => error,
                other => {
                    inheritance.add(call.map(Call::last_words).unwrap_or_default());
                    return other.map(|locks| Some((locks, inheritance)));
                }
            };
            match &mut call {
                None => call = Call::begin(&busy).map_err(refused)?,
                Some(begun) => {
                    if let Some(sockets) = begun.end().map_err(refused)? {
                        inheritance.add(Inheritance {
                            sockets,
                            lines: call.take().map(|call| call.stream).into_iter().collect(),
                        });
                    }
                }
            }
            // Nobody answers for the network namespace: the folder is held by a portway of another one.
            if call.is_none() && matches!(busy, RunError::Busy { .. }) && !NamespaceLock::is_held() {
                return Err(busy);
            }
            if Instant::now() >= deadline {
                let reason = format!("it gave no sign for {} s", PATIENCE.as_secs());
                return Err(RunError::NotHandedOver { reason });
            }
            if heard(termination, POLL)? {
                return Ok(None);
            }
        }
    }

    fn wait(
        run_dir: &Path,
        for_process: Option<u32>,
        termination: &Termination,
    ) -> Result<Option<Self>, RunError> {
        if for_process.is_some_and(|process| leave_time_to(process, termination)) {
            return Ok(None);
        }
        // Between two holders there is a moment in which nobody is one. Who finds that twice is needed.
        let (mut is_tried, mut has_told) = (for_process.is_none(), for_process.is_some());
        if let Some(process) = for_process {
            tracing::info!("standing by: process {process} keeps this node in step");
        }
        loop {
            if is_tried {
                match Self::try_take(run_dir) {
                    Err(error @ (RunError::Busy { .. } | RunError::NamespaceBusy { .. })) => {
                        if !std::mem::replace(&mut has_told, true) {
                            tracing::info!("standing by: {}", holder(&error));
                        }
                    }
                    other => return other.map(Some),
                }
            }
            let was_free = !NamespaceLock::is_held();
            if heard(termination, LOOK)? {
                return Ok(None);
            }
            is_tried = was_free && !NamespaceLock::is_held();
        }
    }
}

/// A portway that has handed over leaves its successor some time to take what it let go of, as long as that one lives.
/// Returns whether it was told to end.
fn leave_time_to(successor: u32, termination: &Termination) -> bool {
    let begun = Instant::now();
    let process = PathBuf::from(format!("/proc/{successor}"));
    let is_due = || begun.elapsed() >= PATIENCE || begun.elapsed() >= GRACE && !process.exists();
    while !NamespaceLock::is_held() && !is_due() {
        // A signal that cannot be heard now is heard, or complained about, a little later.
        if heard(termination, POLL).unwrap_or_default() {
            return true;
        }
    }
    false
}

fn heard(termination: &Termination, limit: Duration) -> Result<bool, RunError> {
    let heard = termination.wait_at_most(limit);
    Ok(heard.map_err(|source| RunError::System { action: "hear signals", source })?.is_some())
}

fn holder(error: &RunError) -> String {
    match error {
        RunError::Busy { pid, .. } => format!("process {pid} keeps this node in step"),
        _ => "another portway keeps this network namespace in step".to_owned(),
    }
}

/// A wish that was said, and not answered yet.
#[derive(Debug)]
struct Call {
    stream: UnixStream,
    heard: Heard,
}

impl Call {
    /// Says what we want. `None` if nobody holds the network namespace any more.
    fn begin(busy: &RunError) -> io::Result<Option<Self>> {
        let Some(mut stream) = NamespaceLock::call()? else { return Ok(None) };
        tracing::info!("asking for its place: {}", holder(busy));
        stream.set_nonblocking(true)?;
        match stream.write_all(WISH.as_bytes()) {
            Ok(()) => Ok(Some(Self { stream, heard: Heard::default() })),
            // It let go in this very moment.
            Err(error) if is_gone(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// What the other end hands on, once all of it is said or it has let go. If it says something else, that is the reason why
    /// it does not.
    fn end(&mut self) -> io::Result<Option<Vec<Handed>>> {
        if self.heard.listen(&self.stream)? { self.understand().map(Some) } else { Ok(None) }
    }

    fn understand(&mut self) -> io::Result<Vec<Handed>> {
        let heard = std::mem::take(&mut self.heard);
        match heard.other_words() {
            Some(nothing) if nothing.is_empty() => Ok(Vec::new()),
            Some(reason) => Err(io::Error::other(reason)),
            // Sockets that we cannot read are opened anew; that is no reason not to go on.
            None => Ok(heard.understand().unwrap_or_else(|error| {
                tracing::warn!(%error, "its sockets are opened anew");
                Vec::new()
            })),
        }
    }

    /// The same where the other end has let go already: all is said, and only has to be read.
    fn last_words(mut self) -> Inheritance {
        let begun = Instant::now();
        let sockets = loop {
            match self.end() {
                Ok(Some(sockets)) => break sockets,
                Ok(None) if begun.elapsed() < CALLER_PATIENCE => std::thread::sleep(POLL),
                Ok(None) => break self.understand().unwrap_or_default(),
                Err(error) => {
                    tracing::warn!(%error, "its sockets are opened anew");
                    break Vec::new();
                }
            }
        };
        Inheritance { sockets, lines: vec![self.stream] }
    }
}

/// What a portway leaves to its successor.
#[derive(Debug, Default)]
pub(crate) struct Inheritance {
    /// Sockets that its relay listened on.
    pub(crate) sockets: Vec<Handed>,
    /// The line to it: it serves until this ends. Several, where one had just gone on in the place of another.
    pub(crate) lines: Vec<UnixStream>,
}

impl Inheritance {
    fn add(&mut self, mut other: Self) {
        self.sockets.append(&mut other.sockets);
        self.lines.append(&mut other.lines);
    }
}

fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe)
}

/// Another portway that wants our place. It waits until this, and with it the line, is gone.
#[derive(Debug)]
pub struct Successor {
    /// Its process.
    pub process: u32,
    line: Option<UnixStream>,
}

impl Successor {
    /// The line to it. When that ends it may go on.
    pub(crate) fn take_line(&mut self) -> Option<UnixStream> {
        self.line.take()
    }

    /// One that nobody waits for.
    pub fn of_process(process: u32) -> Self {
        Self { process, line: None }
    }
}

/// Where another portway asks for our place.
#[derive(Debug)]
pub(crate) struct Door {
    listener: UnixListener,
}

impl Door {
    pub(crate) fn new(listener: UnixListener) -> Self {
        Self { listener }
    }

    /// Waits for the next portway that wants our place. `None` when nobody can ask any more.
    pub(crate) fn wait(&self) -> Option<Successor> {
        loop {
            let (stream, _) = match self.listener.accept() {
                Ok(accepted) => accepted,
                Err(error) if is_passing(&error) => continue,
                Err(_) => return None,
            };
            match hear(&stream) {
                Ok(process) => return Some(Successor { process, line: Some(stream) }),
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
