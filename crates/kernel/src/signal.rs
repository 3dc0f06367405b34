//! Hears when this process is asked to end (SIGTERM, SIGINT) or to reload (SIGHUP), without a handler that interrupts anything; and ends
//! what it started.
//!
//! The signals are blocked and read from a descriptor instead. Threads inherit that, so [`Termination::block`] comes
//! before the first of them is started.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::time::Duration;

use libc::c_int;
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, getpid, kill_process, kill_process_group};

use crate::poll::timeout;

/// The wish that this process ends.
#[derive(Debug)]
pub struct Termination {
    fd: OwnedFd,
}

impl Termination {
    /// From now on SIGTERM and SIGINT no longer end the calling thread, nor threads that it starts: they are read here.
    pub fn block() -> io::Result<Self> {
        let signals = set_of(&[libc::SIGTERM, libc::SIGINT]);
        change_mask(libc::SIG_BLOCK, &signals)?;
        open(&signals).map(|fd| Self { fd })
    }

    /// Waits until the process is asked to end. Returns the name of the signal.
    pub fn wait(&self) -> io::Result<&'static str> {
        loop {
            match read(&self.fd) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(libc::SIGINT) => return Ok("SIGINT"),
                Ok(_) => return Ok("SIGTERM"),
                Err(error) => return Err(error),
            }
        }
    }
}

impl Termination {
    /// Waits likewise, but leaves the wish where it is: whoever looks next hears it too, also the program that this process may
    /// become.
    pub fn wait_and_leave(&self) -> io::Result<&'static str> {
        while !is_readable(&self.fd, FOREVER)? {}
        Ok(if is_pending(libc::SIGINT)? { "SIGINT" } else { "SIGTERM" })
    }

    /// The same, for so long at most; `None` if nothing was heard.
    pub fn wait_at_most(&self, limit: Duration) -> io::Result<Option<&'static str>> {
        if is_readable(&self.fd, limit)? { self.wait().map(Some) } else { Ok(None) }
    }
}

/// Requests to reload.
#[derive(Debug)]
pub struct Hangup {
    fd: OwnedFd,
}

impl Hangup {
    /// From now on SIGHUP no longer ends the calling thread, nor threads that it starts, nor the program that this process may
    /// become: it is kept until somebody waits for it. A process that may be asked to reload begins with this.
    pub fn hold() -> io::Result<()> {
        change_mask(libc::SIG_BLOCK, &set_of(&[libc::SIGHUP]))
    }

    /// SIGHUP ends the calling thread's process again, also one that was held.
    pub fn release() -> io::Result<()> {
        change_mask(libc::SIG_UNBLOCK, &set_of(&[libc::SIGHUP]))
    }

    /// Holds the signal, to read it here.
    pub fn block() -> io::Result<Self> {
        Self::hold()?;
        open(&set_of(&[libc::SIGHUP])).map(|fd| Self { fd })
    }

    /// Waits for the next request. Several that came meanwhile are one.
    pub fn wait(&self) -> io::Result<()> {
        loop {
            match read(&self.fd) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => return other.map(drop),
            }
        }
    }
}

/// Asks this process once more to end: for whoever has heard it, and goes on as another program that should hear it too.
pub fn ask_again() {
    // To this process, of the same user: it cannot fail.
    let _sent = kill_process(getpid(), Signal::TERM);
}

/// Ends a child at once, with all that it started: those of its process group, which it must have been started as the leader of.
///
/// The child must not have been waited for yet: until then nobody else can have its number.
pub fn kill_group_of(child: &Child) -> io::Result<()> {
    // 0 would be our own group, and 1 everybody.
    let leader = c_int::try_from(child.id()).ok().filter(|leader| *leader > 1).and_then(Pid::from_raw);
    Ok(kill_process_group(leader.ok_or(io::ErrorKind::InvalidInput)?, Signal::KILL)?)
}

/// Has the kernel kill the child when the thread that starts it ends.
#[expect(unsafe_code, reason = "prctl(2) between fork and exec")]
pub fn end_with_parent(command: &mut Command) -> &mut Command {
    let parent = std::process::id();
    let ask = move || {
        // SAFETY: this option takes plain numbers and touches only the calling process.
        if unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // The parent may have died before we asked.
        let orphaned = std::os::unix::process::parent_id() != parent;
        if orphaned { Err(io::ErrorKind::BrokenPipe.into()) } else { Ok(()) }
    };
    // SAFETY: between fork and exec only async-signal-safe calls are allowed: prctl and getppid are, and
    // neither error allocates, being a plain number or kind.
    unsafe { command.pre_exec(ask) }
}

/// As long as poll(2) can wait at once.
const FOREVER: Duration = Duration::from_millis(i32::MAX as u64);

/// Whether this signal waits to be heard.
#[expect(unsafe_code, reason = "sigpending(2) fills a set through a pointer")]
fn is_pending(signal: c_int) -> io::Result<bool> {
    let mut set = MaybeUninit::uninit();
    // SAFETY: the pointers are to a local that lives during the calls, and that is read only once the kernel has filled it.
    unsafe {
        if libc::sigpending(set.as_mut_ptr()) != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(libc::sigismember(set.as_ptr(), signal) == 1)
    }
}

/// Whether there is something to read within this time.
fn is_readable(fd: &OwnedFd, limit: Duration) -> io::Result<bool> {
    let mut polled = [PollFd::new(fd, PollFlags::IN)];
    match rustix::event::poll(&mut polled, Some(&timeout(limit))) {
        Ok(_) => Ok(!polled[0].revents().is_empty()),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// The set of these signals.
#[expect(unsafe_code, reason = "sigemptyset(3) and sigaddset(3) fill a set through a pointer")]
fn set_of(signals: &[c_int]) -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: the pointer is to a local that lives during the calls; sigemptyset fills all of it, and a number that is no
    // signal is refused.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in signals {
            libc::sigaddset(set.as_mut_ptr(), *signal);
        }
        set.assume_init()
    }
}

/// Blocks or unblocks signals in the calling thread.
#[expect(unsafe_code, reason = "pthread_sigmask(3) reads a set through a pointer")]
fn change_mask(how: c_int, signals: &libc::sigset_t) -> io::Result<()> {
    // SAFETY: the set lives during the call, and a null pointer says that the old mask is not wanted.
    match unsafe { libc::pthread_sigmask(how, signals, std::ptr::null_mut()) } {
        0 => Ok(()),
        number => Err(io::Error::from_raw_os_error(number)),
    }
}

#[expect(unsafe_code, reason = "signalfd(2) and taking ownership of what it returns")]
fn open(signals: &libc::sigset_t) -> io::Result<OwnedFd> {
    // SAFETY: the set lives during the call; -1 asks for a new descriptor.
    let fd = unsafe { libc::signalfd(-1, signals, libc::SFD_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just given us this descriptor; nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Waits for one signal and returns its number.
fn read(fd: &OwnedFd) -> io::Result<c_int> {
    const SIZE: usize = size_of::<libc::signalfd_siginfo>();
    let mut heard = [0; SIZE];
    rustix::io::read(fd, &mut heard)?;
    // The number comes first.
    let number = heard.first_chunk().copied().map_or(0, u32::from_ne_bytes);
    c_int::try_from(number).map_err(|_| io::ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::process::Stdio;
    use std::sync::mpsc::channel;
    use std::thread;

    use super::*;

    #[test]
    fn a_child_is_ended_with_what_it_started() {
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 1000 & echo; wait"]).stdout(Stdio::piped()).process_group(0);
        let mut child = command.spawn().unwrap();
        let mut out = child.stdout.take().unwrap();
        out.read_exact(&mut [0]).unwrap();
        kill_group_of(&child).unwrap();
        // Both hold it open: it ends when both are gone.
        let (sender, ended) = channel();
        thread::spawn(move || sender.send(out.read_to_end(&mut Vec::new()).unwrap()));
        assert_eq!(ended.recv_timeout(Duration::from_secs(10)), Ok(0), "what it started is still there");
        assert!(!child.wait().unwrap().success());
    }

    #[test]
    #[expect(unsafe_code, reason = "raise(3) sends a signal to this very thread")]
    fn a_signal_is_read_and_ends_nothing() {
        let termination = Termination::block().unwrap();
        for (signal, name) in [(libc::SIGTERM, "SIGTERM"), (libc::SIGINT, "SIGINT")] {
            // SAFETY: raise takes a plain number; the signal is blocked in this thread, to which alone it goes.
            assert_eq!(unsafe { libc::raise(signal) }, 0);
            assert_eq!(termination.wait().unwrap(), name);
            assert_eq!(termination.wait_at_most(Duration::ZERO).unwrap(), None);
        }
    }

    #[test]
    fn a_hangup_that_came_before_anybody_waited_is_kept_and_ends_nothing() {
        // The mask is the thread's own, and other tests have threads of theirs.
        thread::spawn(|| {
            Hangup::hold().unwrap();
            raise_hangup();
            let hangup = Hangup::block().unwrap();
            hangup.wait().unwrap();
            raise_hangup();
            raise_hangup();
            hangup.wait().unwrap();
            assert!(!is_readable(&hangup.fd, Duration::ZERO).unwrap(), "two that waited are one");
            Hangup::release().unwrap();
        })
        .join()
        .unwrap();
    }

    #[expect(unsafe_code, reason = "raise(3) sends a signal to this very thread")]
    fn raise_hangup() {
        // SAFETY: raise takes a plain number; the signal is blocked in this thread, to which alone it goes.
        assert_eq!(unsafe { libc::raise(libc::SIGHUP) }, 0);
    }
}
