//! The system calls on sockets, each in the smallest function that can hold it.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use libc::{c_int, socklen_t};

use super::address::RawAddress;

/// Opens a socket that programs started later do not inherit.
#[expect(unsafe_code, reason = "socket(2) and taking ownership of what it returns")]
pub(crate) fn socket(family: c_int, kind: c_int, protocol: c_int) -> io::Result<OwnedFd> {
    // SAFETY: socket takes plain numbers.
    let fd = check(unsafe { libc::socket(family, kind | libc::SOCK_CLOEXEC, protocol) })?;
    // SAFETY: the kernel has just given us this descriptor; nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Gives a socket its own address.
#[expect(unsafe_code, reason = "bind(2) takes a raw address")]
pub(crate) fn bind(fd: BorrowedFd<'_>, address: SocketAddr) -> io::Result<()> {
    let raw = RawAddress::from(address);
    // SAFETY: the address lives during the call and is of exactly the size given.
    check(unsafe { libc::bind(fd.as_raw_fd(), raw.pointer(), raw.size()) }).map(drop)
}

/// Has a stream socket take connections.
#[expect(unsafe_code, reason = "listen(2)")]
pub(crate) fn listen(fd: BorrowedFd<'_>, queue: c_int) -> io::Result<()> {
    // SAFETY: listen takes plain numbers; the descriptor is open while borrowed.
    check(unsafe { libc::listen(fd.as_raw_fd(), queue) }).map(drop)
}

/// Connects a socket; a stream waits as long as its send timeout says.
#[expect(unsafe_code, reason = "connect(2) takes a raw address")]
pub(crate) fn connect(fd: BorrowedFd<'_>, address: SocketAddr) -> io::Result<()> {
    let raw = RawAddress::from(address);
    // SAFETY: the address lives during the call and is of exactly the size given.
    check(unsafe { libc::connect(fd.as_raw_fd(), raw.pointer(), raw.size()) }).map(drop)
}

/// Sets an option whose value is a number.
pub(crate) fn set_number(fd: BorrowedFd<'_>, level: c_int, option: c_int, value: c_int) -> io::Result<()> {
    set_option(fd, level, option, &value)
}

/// Sets how long closing waits for unsent bytes; zero seconds means: do not wait, reset.
pub(crate) fn set_linger(fd: BorrowedFd<'_>, seconds: c_int) -> io::Result<()> {
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

/// Takes a waiting connection that does not block and that programs started later do not inherit.
#[expect(
    unsafe_code,
    reason = "accept4(2) fills an address through a pointer; taking ownership of what it returns"
)]
pub(super) fn accept(listener: BorrowedFd<'_>) -> io::Result<(OwnedFd, RawAddress)> {
    let mut from = RawAddress::empty();
    let mut size = RawAddress::CAPACITY;
    let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: the address has room for `size` bytes, and both live during the call.
    let fd = check(unsafe { libc::accept4(listener.as_raw_fd(), from.pointer_mut(), &raw mut size, flags) })?;
    from.set_size(size);
    // SAFETY: the kernel has just given us this descriptor; nobody else owns it.
    Ok((unsafe { OwnedFd::from_raw_fd(fd) }, from))
}

/// What a call returned, or why it failed.
pub(crate) fn check(returned: c_int) -> io::Result<c_int> {
    if returned < 0 { Err(io::Error::last_os_error()) } else { Ok(returned) }
}
