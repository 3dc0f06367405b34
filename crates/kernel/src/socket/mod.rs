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

use libc::c_int;

pub use batch::{BATCH, Datagram, Inbox, Local, Outgoing, send};

/// How many connections may wait to be accepted; the kernel caps it at `net.core.somaxconn`.
const QUEUE: c_int = 16_384;
/// What UDP sockets that hear many clients ask for; the kernel caps it at `net.core.rmem_max`.
const UDP_BUFFER_BYTES: c_int = 4 << 20;
/// A silent peer is asked whether it is still there after so many seconds, ...
const KEEPALIVE_IDLE_SECONDS: c_int = 60;
/// ... again after so many, ...
const KEEPALIVE_INTERVAL_SECONDS: c_int = 10;
/// ... and is gone after so many questions.
const KEEPALIVE_PROBES: c_int = 6;

/// Listens for TCP connections.
///
/// A port whose old connections still linger can be taken; one where somebody listens cannot.
pub fn listen_tcp(at: SocketAddr) -> io::Result<TcpListener> {
    let fd = open(at, libc::SOCK_STREAM)?;
    sys::set_number(fd.as_fd(), libc::SOL_SOCKET, libc::SO_REUSEADDR, 1)?;
    // What is set here, connections inherit: four calls less for each of them.
    prepare_stream(fd.as_fd())?;
    sys::bind(fd.as_fd(), at)?;
    sys::listen(fd.as_fd(), QUEUE)?;
    Ok(fd.into())
}

/// Takes a waiting connection; `WouldBlock` when there is none.
pub fn accept(listener: &TcpListener) -> io::Result<(TcpStream, SocketAddr)> {
    let (fd, from) = sys::accept(listener.as_fd())?;
    let from = from.read().ok_or(io::ErrorKind::InvalidData)?;
    Ok((fd.into(), from))
}

/// Begins to connect. Once the socket can be written to, `take_error` tells whether it is connected.
pub fn dial_tcp(to: SocketAddr) -> io::Result<TcpStream> {
    let fd = open(to, libc::SOCK_STREAM)?;
    prepare_stream(fd.as_fd())?;
    match sys::connect(fd.as_fd(), to) {
        Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => Err(error),
        _ => Ok(fd.into()),
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
    let fd = open(at, libc::SOCK_DGRAM)?;
    tell_destination(fd.as_fd(), at)?;
    enlarge(fd.as_fd());
    sys::bind(fd.as_fd(), at)?;
    Ok(fd.into())
}

/// A socket of its own for the datagrams between us and one peer.
pub fn dial_udp(to: SocketAddr) -> io::Result<UdpSocket> {
    let fd = open(to, libc::SOCK_DGRAM)?;
    sys::connect(fd.as_fd(), to)?;
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
        Kind::Stream => open(at, libc::SOCK_STREAM)?,
        Kind::Datagram => {
            let fd = open(at, libc::SOCK_DGRAM)?;
            // What strays here is never read: the kernel's smallest buffer will do.
            sys::set_number(fd.as_fd(), libc::SOL_SOCKET, libc::SO_RCVBUF, 0)?;
            fd
        }
    };
    sys::bind(fd.as_fd(), at)?;
    Ok(fd)
}

/// Has a connection end by a reset when it is closed, at both ends at once, so that neither they nor
/// connection tracking remember it: its ports can be used again at once.
pub fn reset_on_close(stream: &TcpStream) -> io::Result<()> {
    sys::set_linger(stream.as_fd(), 0)
}

/// A socket that does not block, and that hears one family only.
fn open(address: SocketAddr, kind: c_int) -> io::Result<OwnedFd> {
    let kind = kind | libc::SOCK_NONBLOCK;
    if address.is_ipv4() {
        return sys::socket(libc::AF_INET, kind, 0);
    }
    let fd = sys::socket(libc::AF_INET6, kind, 0)?;
    if address.ip().is_unspecified() {
        sys::set_number(fd.as_fd(), libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, 1)?;
    }
    Ok(fd)
}

/// Small writes leave at once, and peers that vanish are noticed.
fn prepare_stream(fd: BorrowedFd<'_>) -> io::Result<()> {
    sys::set_number(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1)?;
    sys::set_number(fd, libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1)?;
    sys::set_number(fd, libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, KEEPALIVE_IDLE_SECONDS)?;
    sys::set_number(fd, libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, KEEPALIVE_INTERVAL_SECONDS)?;
    sys::set_number(fd, libc::IPPROTO_TCP, libc::TCP_KEEPCNT, KEEPALIVE_PROBES)
}

fn tell_destination(fd: BorrowedFd<'_>, at: SocketAddr) -> io::Result<()> {
    match at {
        SocketAddr::V4(_) => sys::set_number(fd, libc::IPPROTO_IP, libc::IP_PKTINFO, 1),
        SocketAddr::V6(_) => sys::set_number(fd, libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, 1),
    }
}

/// Asks for large buffers. It is a wish: a burst that does not fit is lost, as on any link.
fn enlarge(fd: BorrowedFd<'_>) {
    for (beyond_the_cap, plain) in
        [(libc::SO_RCVBUFFORCE, libc::SO_RCVBUF), (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF)]
    {
        if sys::set_number(fd, libc::SOL_SOCKET, beyond_the_cap, UDP_BUFFER_BYTES).is_err() {
            let _wish = sys::set_number(fd, libc::SOL_SOCKET, plain, UDP_BUFFER_BYTES);
        }
    }
}

#[cfg(test)]
mod tests;
