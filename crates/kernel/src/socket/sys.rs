//! The system calls on sockets, in the words of whoever has plain numbers.

use std::io;
use std::num::NonZeroU32;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use libc::{c_int, socklen_t};
use rustix::net::{AddressFamily, Protocol, SocketFlags, SocketType, socket_with};

/// Opens a socket that programs started later do not inherit.
pub(crate) fn socket(family: c_int, kind: c_int, protocol: c_int) -> io::Result<OwnedFd> {
    let family = u16::try_from(family).map_err(|_| io::ErrorKind::InvalidInput)?;
    let protocol = NonZeroU32::new(protocol.cast_unsigned()).map(Protocol::from_raw);
    let kind = SocketType::from_raw(kind.cast_unsigned());
    Ok(socket_with(AddressFamily::from_raw(family), kind, SocketFlags::CLOEXEC, protocol)?)
}

/// Sets an option whose value is a number.
#[expect(unsafe_code, reason = "setsockopt(2) takes a raw pointer to the value")]
pub(crate) fn set_number(fd: BorrowedFd<'_>, level: c_int, option: c_int, value: c_int) -> io::Result<()> {
    #[expect(clippy::cast_possible_truncation, reason = "the size of an integer")]
    const SIZE: socklen_t = size_of::<c_int>() as socklen_t;
    let pointer = (&raw const value).cast();
    // SAFETY: the pointer is to a value of exactly the size given, alive during the call.
    check(unsafe { libc::setsockopt(fd.as_raw_fd(), level, option, pointer, SIZE) }).map(drop)
}

/// What a call returned, or why it failed.
pub(crate) fn check(returned: c_int) -> io::Result<c_int> {
    if returned < 0 { Err(io::Error::last_os_error()) } else { Ok(returned) }
}
