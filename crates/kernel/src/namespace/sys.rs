//! The system calls behind this folder, each in a function that keeps its rules.
//!
//! Everything `unsafe` of this folder is in this file.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use libc::c_int;

use crate::socket::sys::check;

/// Gives the calling thread a new, empty network namespace.
#[expect(unsafe_code, reason = "unshare(2)")]
pub(super) fn leave_network() -> io::Result<()> {
    // SAFETY: CLONE_NEWNET changes only which network the calling thread sees; no memory is concerned.
    check(unsafe { libc::unshare(libc::CLONE_NEWNET) }).map(drop)
}

/// Moves the calling thread into a namespace.
#[expect(unsafe_code, reason = "setns(2)")]
pub(super) fn enter_network(namespace: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: the descriptor is open while borrowed; a file that is no network namespace is refused.
    check(unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) }).map(drop)
}

/// Has the kernel kill the child when the thread that starts it ends.
#[expect(unsafe_code, reason = "prctl(2) between fork and exec")]
pub(super) fn end_with_parent(command: &mut Command) -> &mut Command {
    let parent = std::process::id();
    let ask = move || {
        // SAFETY: this option takes plain numbers and touches only the calling process.
        check(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) })?;
        // The parent may have died before we asked.
        let orphaned = std::os::unix::process::parent_id() != parent;
        if orphaned { Err(io::ErrorKind::BrokenPipe.into()) } else { Ok(()) }
    };
    // SAFETY: between fork and exec only async-signal-safe calls are allowed: prctl and getppid are, and
    // neither error allocates, being a plain number or kind.
    unsafe { command.pre_exec(ask) }
}

/// Sends SIGTERM.
#[expect(unsafe_code, reason = "kill(2)")]
pub(super) fn terminate(process: u32) -> io::Result<()> {
    let process = c_int::try_from(process).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    // SAFETY: kill takes plain numbers. The caller has a child that it has not yet waited for, so the
    // number is still that child's.
    check(unsafe { libc::kill(process, libc::SIGTERM) }).map(drop)
}

/// Forgets the ICMP errors that wait in a socket's error queue: while one does, poll calls the socket readable.
#[expect(unsafe_code, reason = "recv(2) takes a raw buffer")]
pub(super) fn forget_errors(fd: BorrowedFd<'_>) {
    let mut byte = 0_u8;
    let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
    // SAFETY: the buffer is one byte long, as the length says, and lives until the call returns.
    while unsafe { libc::recv(fd.as_raw_fd(), (&raw mut byte).cast(), 1, flags) } >= 0 {}
}

/// Waits until one of the descriptors has something to read or to report; says which have.
#[expect(unsafe_code, reason = "poll(2) takes a raw array")]
pub(super) fn poll(fds: &[BorrowedFd<'_>], limit: Option<Duration>) -> io::Result<Vec<bool>> {
    let mut polled: Vec<_> =
        fds.iter().map(|fd| libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 }).collect();
    // Rounded up, so that a wait that has run out has really lasted as long.
    let limit =
        limit.map_or(-1, |limit| c_int::try_from(limit.as_micros().div_ceil(1000)).unwrap_or(c_int::MAX));
    // SAFETY: the array has as many elements as its length says; the kernel writes only `revents` in it.
    let ready = check(unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, limit) });
    match ready {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(vec![false; fds.len()]),
        Err(error) => Err(error),
        Ok(_) => Ok(polled.iter().map(|fd| fd.revents != 0).collect()),
    }
}
