//! The system calls that netlink needs, each in the smallest function that can hold it.
//!
//! Everything `unsafe` of this folder is in this file.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use super::{Errno, Error, Result};

const NETLINK_ADD_MEMBERSHIP: libc::c_int = 1;
const SOL_NETLINK: libc::c_int = 270;

fn check(action: &'static str, value: isize) -> Result<usize> {
    usize::try_from(value).map_err(|_| Error::System { action, errno: Errno::last() })
}

/// Opens a netlink socket that does not block and is not inherited by child processes.
#[expect(unsafe_code, reason = "socket(2) and taking ownership of what it returns")]
pub(super) fn socket(protocol: libc::c_int) -> Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: socket(2) takes plain numbers.
    let fd = unsafe { libc::socket(libc::AF_NETLINK, kind, protocol) };
    check("open a netlink socket", fd as isize)?;
    // SAFETY: the kernel has just given us this descriptor, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Lets the kernel choose a port for the socket, and returns it.
#[expect(unsafe_code, reason = "bind(2) and getsockname(2) take raw addresses")]
#[expect(clippy::cast_possible_truncation, reason = "the size of a small struct")]
pub(super) fn bind(fd: &OwnedFd) -> Result<u32> {
    const SIZE: libc::socklen_t = size_of::<libc::sockaddr_nl>() as libc::socklen_t;
    // SAFETY: all zeroes is a valid sockaddr_nl: it holds nothing but integers.
    let mut address: libc::sockaddr_nl = unsafe { std::mem::zeroed() };
    address.nl_family = libc::sa_family_t::try_from(libc::AF_NETLINK).unwrap_or_default();
    let pointer: *mut libc::sockaddr_nl = &raw mut address;
    // SAFETY: `pointer` is valid for reads of SIZE bytes during the call.
    let bound = unsafe { libc::bind(fd.as_raw_fd(), pointer.cast(), SIZE) };
    check("bind a netlink socket", bound as isize)?;
    let mut size = SIZE;
    // SAFETY: `pointer` is valid for writes of `size` bytes, and `size` lives during the call.
    let named = unsafe { libc::getsockname(fd.as_raw_fd(), pointer.cast(), &raw mut size) };
    check("ask for the port of a netlink socket", named as isize)?;
    Ok(address.nl_pid)
}

/// Sets one integer option of a socket.
#[expect(unsafe_code, reason = "setsockopt(2) takes a raw pointer to the value")]
#[expect(clippy::cast_possible_truncation, reason = "the size of an integer")]
fn set_option(fd: &OwnedFd, level: libc::c_int, option: libc::c_int, value: libc::c_int) -> Result<()> {
    const SIZE: libc::socklen_t = size_of::<libc::c_int>() as libc::socklen_t;
    let pointer: *const libc::c_int = &raw const value;
    // SAFETY: `pointer` is valid for reads of SIZE bytes during the call.
    let set = unsafe { libc::setsockopt(fd.as_raw_fd(), level, option, pointer.cast(), SIZE) };
    check("set an option of a netlink socket", set as isize).map(drop)
}

/// Turns on an option of the netlink layer.
pub(super) fn enable(fd: &OwnedFd, option: libc::c_int) -> Result<()> {
    set_option(fd, SOL_NETLINK, option, 1)
}

/// Hears what the kernel multicasts to this group.
pub(super) fn join(fd: &OwnedFd, group: u32) -> Result<()> {
    set_option(fd, SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, group.cast_signed())
}

/// Drops, before they are queued, the datagrams whose first message was caused by the socket of this port.
#[expect(unsafe_code, reason = "setsockopt(2) takes a raw pointer to a program")]
#[expect(clippy::cast_possible_truncation, reason = "the size of a small struct")]
pub(super) fn ignore(fd: &OwnedFd, port: u32) -> Result<()> {
    const SIZE: libc::socklen_t = size_of::<libc::sock_fprog>() as libc::socklen_t;
    const LOAD_WORD: u16 = 0x20;
    const JUMP_IF_EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    /// Where the port stands in a netlink header.
    const PORT_AT: u32 = 12;
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    // Such programs read words as big-endian; the header has them in the machine's order.
    let port = u32::from_be_bytes(port.to_ne_bytes());
    let mut steps = [
        step(LOAD_WORD, 0, 0, PORT_AT),
        step(JUMP_IF_EQUAL, 0, 1, port),
        step(RETURN, 0, 0, 0),
        step(RETURN, 0, 0, u32::MAX),
    ];
    let program = libc::sock_fprog { len: steps.len() as libc::c_ushort, filter: steps.as_mut_ptr() };
    let pointer: *const libc::sock_fprog = &raw const program;
    // SAFETY: `pointer` is valid for reads of SIZE bytes, and so are the steps that it names, during the call.
    let set = unsafe {
        libc::setsockopt(fd.as_raw_fd(), libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, pointer.cast(), SIZE)
    };
    check("filter a netlink socket", set as isize).map(drop)
}

/// Asks for a send or receive buffer. The forced form passes the system's limit but needs privilege.
pub(super) fn set_buffer(fd: &OwnedFd, forced: libc::c_int, plain: libc::c_int, bytes: usize) -> Result<()> {
    let bytes = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    set_option(fd, libc::SOL_SOCKET, forced, bytes)
        .or_else(|_| set_option(fd, libc::SOL_SOCKET, plain, bytes))
}

/// Sends all bytes as one datagram.
#[expect(unsafe_code, reason = "send(2) takes a raw buffer")]
pub(super) fn send(fd: &OwnedFd, bytes: &[u8]) -> Result<usize> {
    // SAFETY: pointer and length describe a slice that lives during the call.
    let sent = unsafe { libc::send(fd.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), 0) };
    check("send a netlink message", sent)
}

/// Receives one datagram and returns its true length, which may exceed the buffer.
#[expect(unsafe_code, reason = "recv(2) takes a raw buffer")]
pub(super) fn receive(fd: &OwnedFd, buffer: &mut [u8]) -> Result<usize> {
    // SAFETY: pointer and length describe a slice that lives during the call and is ours to write.
    let received =
        unsafe { libc::recv(fd.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), libc::MSG_TRUNC) };
    check("receive a netlink message", received)
}

/// Waits until the socket has something to read; false when the time is over. `None` waits for ever.
#[expect(unsafe_code, reason = "poll(2) takes a raw array")]
pub(super) fn wait_readable(fd: &OwnedFd, milliseconds: Option<u32>) -> Result<bool> {
    let timeout = milliseconds.map_or(-1, |ms| libc::c_int::try_from(ms).unwrap_or(libc::c_int::MAX));
    let mut polled = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: the array is the one `polled`, which lives during the call.
    let ready = unsafe { libc::poll(&raw mut polled, 1, timeout) };
    match check("wait for a netlink message", ready as isize) {
        Err(Error::System { errno: Errno(libc::EINTR), .. }) => Ok(false),
        other => other.map(|count| count > 0),
    }
}
