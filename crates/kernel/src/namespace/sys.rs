//! The system calls behind this folder, each in a function that keeps its rules.
//!
//! Everything `unsafe` of this folder is in this file.

use std::io;
use std::net::{Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use libc::{c_int, sockaddr, socklen_t};

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

/// Opens a socket that programs started later do not inherit.
#[expect(unsafe_code, reason = "socket(2) and taking ownership of what it returns")]
pub(super) fn socket(family: c_int, kind: c_int, protocol: c_int) -> io::Result<OwnedFd> {
    // SAFETY: socket takes plain numbers.
    let fd = check(unsafe { libc::socket(family, kind | libc::SOCK_CLOEXEC, protocol) })?;
    // SAFETY: the kernel has just given us this descriptor; nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Gives a socket its own address.
#[expect(unsafe_code, reason = "bind(2) takes a raw address")]
pub(super) fn bind(fd: BorrowedFd<'_>, address: SocketAddr) -> io::Result<()> {
    with_raw(address, |raw, size| {
        // SAFETY: `with_raw` lends an address of exactly `size` bytes for the length of the call.
        check(unsafe { libc::bind(fd.as_raw_fd(), raw, size) }).map(drop)
    })
}

/// Has a stream socket take connections.
#[expect(unsafe_code, reason = "listen(2)")]
pub(super) fn listen(fd: BorrowedFd<'_>, queue: c_int) -> io::Result<()> {
    // SAFETY: listen takes plain numbers; the descriptor is open while borrowed.
    check(unsafe { libc::listen(fd.as_raw_fd(), queue) }).map(drop)
}

/// Connects a socket; a stream waits as long as its send timeout says.
#[expect(unsafe_code, reason = "connect(2) takes a raw address")]
pub(super) fn connect(fd: BorrowedFd<'_>, address: SocketAddr) -> io::Result<()> {
    with_raw(address, |raw, size| {
        // SAFETY: `with_raw` lends an address of exactly `size` bytes for the length of the call.
        check(unsafe { libc::connect(fd.as_raw_fd(), raw, size) }).map(drop)
    })
}

/// Sets an option whose value is a number.
pub(super) fn set_number(fd: BorrowedFd<'_>, level: c_int, option: c_int, value: c_int) -> io::Result<()> {
    set_option(fd, level, option, &value)
}

/// Sets how long closing waits for unsent bytes; zero seconds means: do not wait, reset.
pub(super) fn set_linger(fd: BorrowedFd<'_>, seconds: c_int) -> io::Result<()> {
    let linger = libc::linger { l_onoff: 1, l_linger: seconds };
    set_option(fd, libc::SOL_SOCKET, libc::SO_LINGER, &linger)
}

#[expect(unsafe_code, reason = "setsockopt(2) takes a raw pointer to the value")]
#[expect(clippy::cast_possible_truncation, reason = "the size of an integer, or of two")]
fn set_option<T: Copy>(fd: BorrowedFd<'_>, level: c_int, option: c_int, value: &T) -> io::Result<()> {
    let (pointer, size) = (std::ptr::from_ref(value).cast(), size_of::<T>() as socklen_t);
    // SAFETY: the pointer is to a value of exactly the size given, alive during the call.
    check(unsafe { libc::setsockopt(fd.as_raw_fd(), level, option, pointer, size) }).map(drop)
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

/// Lends the kernel's form of an address.
#[expect(
    clippy::cast_possible_truncation,
    reason = "the sizes of small structs, and the numbers of families"
)]
fn with_raw<T>(address: SocketAddr, call: impl FnOnce(*const sockaddr, socklen_t) -> T) -> T {
    match address {
        SocketAddr::V4(address) => {
            let raw = libc::sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: address.port().to_be(),
                sin_addr: libc::in_addr { s_addr: u32::from(*address.ip()).to_be() },
                sin_zero: [0; 8],
            };
            call((&raw const raw).cast(), size_of_val(&raw) as socklen_t)
        }
        SocketAddr::V6(address) => {
            let raw = libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as libc::sa_family_t,
                sin6_port: address.port().to_be(),
                sin6_flowinfo: address.flowinfo(),
                sin6_addr: libc::in6_addr { s6_addr: Ipv6Addr::octets(address.ip()) },
                sin6_scope_id: address.scope_id(),
            };
            call((&raw const raw).cast(), size_of_val(&raw) as socklen_t)
        }
    }
}

fn check(returned: c_int) -> io::Result<c_int> {
    if returned < 0 { Err(io::Error::last_os_error()) } else { Ok(returned) }
}
