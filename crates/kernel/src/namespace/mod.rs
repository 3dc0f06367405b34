//! Network namespaces that vanish with their owner, and the sockets that std cannot make.
//!
//! A namespace here has no name and no mount: it is an open file. When the last one who holds it is gone,
//! by whatever death, the kernel takes its links, routes and rules away. So a killed test leaves nothing
//! behind, and nothing has to be swept up by the next one.
//!
//! In: closures and commands. Out: what they return, run inside. The calling thread itself never moves.
//!
//! Absent on purpose: links and addresses. Who makes a namespace furnishes it.

mod child;
pub mod socket;
mod sys;

pub use child::terminate;

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

/// The calling thread's namespace, as a file.
const CURRENT: &str = "/proc/thread-self/ns/net";

/// A network namespace, alive as long as a clone of this, a thread or a process inside it.
#[derive(Debug, Clone)]
pub struct Namespace {
    file: Arc<File>,
}

impl Namespace {
    /// Makes an empty namespace: a loopback link that is down, and nothing else. Needs root.
    pub fn create() -> io::Result<Self> {
        on_a_thread_of_its_own(|| sys::leave_network().and_then(|()| Self::current()))
    }

    /// The namespace that the calling thread is in.
    pub fn current() -> io::Result<Self> {
        Ok(Self { file: Arc::new(File::open(CURRENT)?) })
    }

    /// Runs `work` on a thread inside. Sockets that it opens stay inside, wherever they are used later.
    ///
    /// # Panics
    /// When `work` does: its panic goes on in the caller.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> io::Result<T> {
        on_a_thread_of_its_own(|| self.enter().map(|()| work()))
    }

    /// Starts a thread inside that outlives this call.
    pub fn start<T: Send + 'static>(
        &self,
        name: &str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<JoinHandle<io::Result<T>>> {
        let inside = self.clone();
        thread::Builder::new().name(name.into()).spawn(move || inside.enter().map(|()| work()))
    }

    /// Starts a program inside. It is killed when this process ends, however that happens.
    pub fn spawn(&self, command: Command) -> io::Result<Child> {
        child::spawn(self.clone(), command)
    }

    /// A path by which other programs of this machine can name it, as `ip … netns PATH` does.
    pub fn path(&self) -> PathBuf {
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd()).into()
    }

    /// The number that the kernel shows in `/proc/PID/ns/net`; unique among the living.
    pub fn id(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.ino())
    }

    /// Moves the calling thread. Private, since a thread that is not ours may be lent to others.
    fn enter(&self) -> io::Result<()> {
        sys::enter_network(self.file.as_fd())
    }
}

/// Runs `work` where a change of namespace cannot spread to the caller.
fn on_a_thread_of_its_own<T: Send>(work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    thread::scope(|scope| {
        let worker = thread::Builder::new().name("namespace".into()).spawn_scoped(scope, work)?;
        worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
