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

pub use child::{close, terminate};

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};

/// The calling thread's namespace, as a file.
const CURRENT: &str = "/proc/thread-self/ns/net";

/// A network namespace, alive as long as a clone of this, a thread or a process inside it.
#[derive(Debug, Clone)]
pub struct Namespace {
    file: Arc<File>,
}

impl Namespace {
    /// Makes an empty namespace: a loopback link that is down, and nothing else. Needs root.
    #[expect(deprecated, reason = "it is unsafe for open files, which stay shared here")]
    pub fn create() -> io::Result<Self> {
        on_a_thread_of_its_own(|| {
            rustix::thread::unshare(UnshareFlags::NEWNET)?;
            Self::current()
        })
    }

    /// The same for a test, which is skipped where that cannot be: it prints why.
    #[expect(clippy::print_stderr, reason = "that is how a test says that it was skipped")]
    pub fn create_or_skip() -> Option<Self> {
        let skipped =
            |error: &io::Error| eprintln!("skipped: a network namespace of its own needs root: {error}");
        Self::create().inspect_err(skipped).ok()
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
        Ok(move_into_link_name_space(self.file.as_fd(), Some(LinkNameSpaceType::Network))?)
    }
}

/// Runs `work` where a change of namespace cannot spread to the caller.
fn on_a_thread_of_its_own<T: Send>(work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    thread::scope(|scope| {
        let worker = thread::Builder::new().name("namespace".into()).spawn_scoped(scope, work)?;
        worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;
    use std::time::{Duration, Instant};

    use super::*;

    fn namespace(test: &str) -> Option<Namespace> {
        let made = Namespace::create();
        made.inspect_err(|error| eprintln!("skipped: {test} needs root to make a namespace: {error}")).ok()
    }

    #[test]
    fn root_work_runs_inside_and_the_caller_stays_outside() {
        let Some(inside) = namespace("root_work_runs_inside") else { return };
        let here = || Namespace::current().unwrap().id().unwrap();
        let before = here();
        assert_ne!(inside.id().unwrap(), before);
        assert_eq!(inside.run(here).unwrap(), inside.id().unwrap());
        assert_eq!(inside.start("test", here).unwrap().join().unwrap().unwrap(), inside.id().unwrap());
        assert_eq!(here(), before);
        let links = inside.run(|| kernel::host::links().unwrap()).unwrap();
        assert_eq!(links.iter().map(|link| link.name.as_str()).collect::<Vec<_>>(), ["lo"]);
    }

    #[test]
    fn root_a_program_starts_inside_and_outlives_the_thread_that_asked_for_it() {
        let Some(inside) = namespace("root_a_program_starts_inside") else { return };
        let mut command = Command::new("sh");
        command.args(["-c", "readlink /proc/self/ns/net; exec sleep 100"]).stdout(Stdio::piped());
        let mut child = thread::scope(|scope| scope.spawn(|| inside.spawn(command)).join().unwrap()).unwrap();
        let mut line = String::new();
        let output = child.stdout.take().unwrap();
        io::BufRead::read_line(&mut io::BufReader::new(output), &mut line).unwrap();
        assert_eq!(line.trim_end(), format!("net:[{}]", inside.id().unwrap()));
        assert!(child.try_wait().unwrap().is_none());
        terminate(&mut child).unwrap();
        assert!(!child.wait().unwrap().success());
        // Nobody is asked any more.
        terminate(&mut child).unwrap();
    }

    #[test]
    #[should_panic(expected = "inside")]
    fn root_a_panic_inside_goes_on_outside() {
        match namespace("root_a_panic_inside") {
            Some(namespace) => namespace.run(|| panic!("inside")).unwrap(),
            None => panic!("inside: not run"),
        }
    }

    #[test]
    fn waiting_ends_with_its_limit() {
        let (reader, _writer) = io::pipe().unwrap();
        let (start, limit) = (Instant::now(), Duration::from_millis(3));
        assert_eq!(socket::wait_readable(&[reader.as_fd()], Some(limit)).unwrap(), [false]);
        assert!(start.elapsed() >= limit);
    }
}
