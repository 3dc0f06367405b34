//! Hears when this process is asked to end (SIGTERM, SIGINT) or to reload (SIGHUP), without a handler that interrupts anything; and ends
//! what it started.
//!
//! The signals are blocked and read from a descriptor instead. Threads inherit that, so [`Termination::block`] comes
//! before the first of them is started.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::time::Duration;

use libc::c_int;

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
#[expect(unsafe_code, reason = "kill(2) takes plain numbers")]
pub fn ask_again() {
    // SAFETY: both are plain numbers; the process is this one, which has blocked the signal.
    unsafe { libc::kill(libc::getpid(), libc::SIGTERM) };
}

/// Ends a child at once, with all that it started: those of its process group, which it must have been started as the leader of.
///
/// The child must not have been waited for yet: until then nobody else can have its number.
#[expect(unsafe_code, reason = "kill(2) takes plain numbers")]
pub fn kill_group_of(child: &Child) -> io::Result<()> {
    // 0 would be our own group, and 1 everybody.
    let leader = c_int::try_from(child.id()).ok().filter(|leader| *leader > 1);
    let leader = leader.ok_or(io::ErrorKind::InvalidInput)?;
    // SAFETY: both are plain numbers; a negative one is a group.
    match unsafe { libc::kill(-leader, libc::SIGKILL) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
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
    // SAFETY: all zeroes is a valid sigset_t: it holds nothing but integers.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a local that lives during the call and is ours to write.
    if unsafe { libc::sigpending(&raw mut set) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the set was filled by the kernel; the number is a signal.
    Ok(unsafe { libc::sigismember(&raw const set, signal) } == 1)
}

/// Whether there is something to read within this time.
#[expect(unsafe_code, reason = "poll(2) takes a raw array")]
fn is_readable(fd: &OwnedFd, limit: Duration) -> io::Result<bool> {
    let milliseconds = c_int::try_from(limit.as_millis()).unwrap_or(c_int::MAX);
    let mut polled = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: the array is the one `polled`, which lives during the call.
    match unsafe { libc::poll(&raw mut polled, 1, milliseconds) } {
        0.. => Ok(polled.revents != 0),
        _ => match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::Interrupted => Ok(false),
            error => Err(error),
        },
    }
}

/// The set of these signals.
#[expect(unsafe_code, reason = "sigemptyset(3) and sigaddset(3) fill a set through a pointer")]
fn set_of(signals: &[c_int]) -> libc::sigset_t {
    // SAFETY: all zeroes is a valid sigset_t: it holds nothing but integers.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a local that lives during the call.
    unsafe { libc::sigemptyset(&raw mut set) };
    for signal in signals {
        // SAFETY: the pointer is to a local that lives during the call; a number that is no signal is refused.
        unsafe { libc::sigaddset(&raw mut set, *signal) };
    }
    set
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
#[expect(unsafe_code, reason = "read(2) fills a struct through a pointer")]
fn read(fd: &OwnedFd) -> io::Result<c_int> {
    const SIZE: usize = size_of::<libc::signalfd_siginfo>();
    // SAFETY: all zeroes is a valid signalfd_siginfo: it holds nothing but integers.
    let mut heard: libc::signalfd_siginfo = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a local of SIZE bytes that lives during the call and is ours to write.
    let count = unsafe { libc::read(fd.as_raw_fd(), (&raw mut heard).cast(), SIZE) };
    if count < 0 {
        return Err(io::Error::last_os_error());
    }
    c_int::try_from(heard.ssi_signo).map_err(|_| io::ErrorKind::InvalidData.into())
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
