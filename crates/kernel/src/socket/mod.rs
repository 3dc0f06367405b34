//! TCP and UDP sockets as a proxy needs them: they never block, and say where a datagram was sent to.
//!
//! In: addresses. Out: std's own types, since std can use what it cannot open.
//!
//! Absent on purpose: who is listened for, and who is dialled.

mod address;
mod batch;
pub(crate) mod sys;

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketFlags, SocketType, acceptfrom_with, bind, connect, listen, socket_with, sockopt,
};

pub use batch::{BATCH, Datagram, Inbox, Local, Outgoing, send};

/// How many connections may wait to be accepted; the kernel caps it at `net.core.somaxconn`.
const QUEUE: i32 = 16_384;
/// What UDP sockets that hear many clients ask for; the kernel caps it at `net.core.rmem_max`.
const UDP_BUFFER_BYTES: usize = 4 << 20;
/// A silent peer is asked whether it is still there after so long, ...
const KEEPALIVE_IDLE: Duration = Duration::from_secs(60);
/// ... again after so long, ...
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
/// ... and is gone after so many questions.
const KEEPALIVE_PROBES: u32 = 6;

/// Listens for TCP connections.
///
/// A port whose old connections still linger can be taken; one where somebody listens cannot.
pub fn listen_tcp(at: SocketAddr) -> io::Result<TcpListener> {
    let fd = open(at, SocketType::STREAM)?;
    sockopt::set_socket_reuseaddr(&fd, true)?;
    // What is set here, connections inherit: four calls less for each of them.
    prepare_stream(fd.as_fd())?;
    bind(&fd, &at)?;
    listen(&fd, QUEUE)?;
    Ok(fd.into())
}

/// Takes a waiting connection; `WouldBlock` when there is none.
pub fn accept(listener: &TcpListener) -> io::Result<(TcpStream, SocketAddr)> {
    let (fd, from) = acceptfrom_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC)?;
    let from = from.and_then(|from| from.try_into().ok()).ok_or(io::ErrorKind::InvalidData)?;
    Ok((fd.into(), from))
}

/// Begins to connect. Once the socket can be written to, `take_error` tells whether it is connected.
pub fn dial_tcp(to: SocketAddr) -> io::Result<TcpStream> {
    let fd = open(to, SocketType::STREAM)?;
    prepare_stream(fd.as_fd())?;
    match connect(&fd, &to) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(fd.into()),
        Err(error) => Err(error.into()),
    }
}

/// Has a datagram socket report every ICMP error, also those that UDP by itself keeps to itself.
pub fn report_icmp_errors(socket: BorrowedFd<'_>, local: IpAddr) -> io::Result<()> {
    match local {
        IpAddr::V4(_) => sys::set_number(socket, libc::IPPROTO_IP, libc::IP_RECVERR, 1),
        IpAddr::V6(_) => sys::set_number(socket, libc::IPPROTO_IPV6, libc::IPV6_RECVERR, 1),
    }
}

/// Hears datagrams of many clients, and where they were sent to.
pub fn listen_udp(at: SocketAddr) -> io::Result<UdpSocket> {
    let fd = open(at, SocketType::DGRAM)?;
    tell_destination(fd.as_fd(), at)?;
    enlarge(fd.as_fd());
    bind(&fd, &at)?;
    Ok(fd.into())
}

/// A socket of its own for the datagrams between us and one peer.
pub fn dial_udp(to: SocketAddr) -> io::Result<UdpSocket> {
    let fd = open(to, SocketType::DGRAM)?;
    connect(&fd, &to)?;
    Ok(fd.into())
}

/// What kind of port is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// TCP.
    Stream,
    /// UDP.
    Datagram,
}

/// Takes a port and does nothing with it: nobody else can have it as long as this is open.
pub fn hold(at: SocketAddr, kind: Kind) -> io::Result<OwnedFd> {
    // SO_REUSEADDR would let others in who set it too, since nobody listens here.
    let fd = match kind {
        Kind::Stream => open(at, SocketType::STREAM)?,
        Kind::Datagram => {
            let fd = open(at, SocketType::DGRAM)?;
            // What strays here is never read: the kernel's smallest buffer will do.
            sockopt::set_socket_recv_buffer_size(&fd, 0)?;
            fd
        }
    };
    bind(&fd, &at)?;
    Ok(fd)
}

/// Has a connection end by a reset when it is closed, at both ends at once, so that neither they nor
/// connection tracking remember it: its ports can be used again at once.
pub fn reset_on_close(stream: &TcpStream) -> io::Result<()> {
    Ok(sockopt::set_socket_linger(stream, Some(Duration::ZERO))?)
}

/// A socket that does not block, and that hears one family only.
fn open(address: SocketAddr, kind: SocketType) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    if address.is_ipv4() {
        return Ok(socket_with(AddressFamily::INET, kind, flags, None)?);
    }
    let fd = socket_with(AddressFamily::INET6, kind, flags, None)?;
    if address.ip().is_unspecified() {
        sockopt::set_ipv6_v6only(&fd, true)?;
    }
    Ok(fd)
}

/// Small writes leave at once, and peers that vanish are noticed.
fn prepare_stream(fd: BorrowedFd<'_>) -> io::Result<()> {
    sockopt::set_tcp_nodelay(fd, true)?;
    sockopt::set_socket_keepalive(fd, true)?;
    sockopt::set_tcp_keepidle(fd, KEEPALIVE_IDLE)?;
    sockopt::set_tcp_keepintvl(fd, KEEPALIVE_INTERVAL)?;
    Ok(sockopt::set_tcp_keepcnt(fd, KEEPALIVE_PROBES)?)
}

fn tell_destination(fd: BorrowedFd<'_>, at: SocketAddr) -> io::Result<()> {
    match at {
        SocketAddr::V4(_) => sys::set_number(fd, libc::IPPROTO_IP, libc::IP_PKTINFO, 1),
        SocketAddr::V6(_) => sys::set_number(fd, libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, 1),
    }
}

/// Asks for large buffers. It is a wish: a burst that does not fit is lost, as on any link.
fn enlarge(fd: BorrowedFd<'_>) {
    let _wish = sockopt::set_socket_recv_buffer_size_force(fd, UDP_BUFFER_BYTES)
        .or_else(|_| sockopt::set_socket_recv_buffer_size(fd, UDP_BUFFER_BYTES));
    let _wish = sockopt::set_socket_send_buffer_size_force(fd, UDP_BUFFER_BYTES)
        .or_else(|_| sockopt::set_socket_send_buffer_size(fd, UDP_BUFFER_BYTES));
}

#[cfg(test)]
mod tests;
