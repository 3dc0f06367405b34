//! The system calls that netlink needs, and which of them failed.

use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, sockopt};

use super::{Errno, Error, Result};
use crate::poll::timeout;
use crate::socket::sys::{check, set_number};

const NETLINK_ADD_MEMBERSHIP: libc::c_int = 1;
const SOL_NETLINK: libc::c_int = 270;

/// Says what failed.
fn doing<E: Into<std::io::Error>>(action: &'static str) -> impl FnOnce(E) -> Error {
    move |error| Error::System { action, errno: Errno(error.into().raw_os_error().unwrap_or(0)) }
}

/// Opens a netlink socket that does not block and is not inherited by child processes.
pub(super) fn socket(protocol: Option<Protocol>) -> Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, protocol)
        .map_err(doing("open a netlink socket"))
}

/// Lets the kernel choose a port for the socket, and returns it.
pub(super) fn bind(fd: &OwnedFd) -> Result<u32> {
    rustix::net::bind(fd, &SocketAddrNetlink::new(0, 0)).map_err(doing("bind a netlink socket"))?;
    let named = rustix::net::getsockname(fd).and_then(SocketAddrNetlink::try_from);
    Ok(named.map_err(doing("ask for the port of a netlink socket"))?.pid())
}

/// Turns on an option of the netlink layer.
pub(super) fn enable(fd: &OwnedFd, option: libc::c_int) -> Result<()> {
    set_option(fd, option, 1)
}

/// Hears what the kernel multicasts to this group.
pub(super) fn join(fd: &OwnedFd, group: u32) -> Result<()> {
    set_option(fd, NETLINK_ADD_MEMBERSHIP, group.cast_signed())
}

fn set_option(fd: &OwnedFd, option: libc::c_int, value: libc::c_int) -> Result<()> {
    set_number(fd.as_fd(), SOL_NETLINK, option, value).map_err(doing("set an option of a netlink socket"))
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
    check(set).map(drop).map_err(doing("filter a netlink socket"))
}

/// Asks for a receive buffer. The forced form passes the system's limit but needs privilege.
pub(super) fn set_receive_buffer(fd: &OwnedFd, bytes: usize) -> Result<()> {
    let bytes = bytes.min(BUFFER_MAX);
    sockopt::set_socket_recv_buffer_size_force(fd, bytes)
        .or_else(|_| sockopt::set_socket_recv_buffer_size(fd, bytes))
        .map_err(doing("set an option of a netlink socket"))
}

/// The same for a send buffer.
pub(super) fn set_send_buffer(fd: &OwnedFd, bytes: usize) -> Result<()> {
    let bytes = bytes.min(BUFFER_MAX);
    sockopt::set_socket_send_buffer_size_force(fd, bytes)
        .or_else(|_| sockopt::set_socket_send_buffer_size(fd, bytes))
        .map_err(doing("set an option of a netlink socket"))
}

/// The kernel takes sizes as integers.
const BUFFER_MAX: usize = i32::MAX as usize;

/// Sends all bytes as one datagram.
pub(super) fn send(fd: &OwnedFd, bytes: &[u8]) -> Result<usize> {
    rustix::net::send(fd, bytes, SendFlags::empty()).map_err(doing("send a netlink message"))
}

/// Receives one datagram and returns its true length, which may exceed the buffer.
pub(super) fn receive(fd: &OwnedFd, buffer: &mut [u8]) -> Result<usize> {
    let received = rustix::net::recv(fd, buffer, RecvFlags::TRUNC);
    received.map(|(_, length)| length).map_err(doing("receive a netlink message"))
}

/// Waits until the socket has something to read, for so long at most. `None` waits for ever.
pub(super) fn wait_readable(fd: &OwnedFd, limit: Option<Duration>) -> Result<()> {
    match poll(&mut [PollFd::new(fd, PollFlags::IN)], limit.map(timeout).as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(doing("wait for a netlink message")(error)),
    }
}
