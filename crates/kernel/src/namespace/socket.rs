//! Sockets that std cannot make: raw IP, TCP from a chosen source, SCTP, and waiting for many at once.
//!
//! In: addresses and bytes. Out: std's own types where they fit, since std can use what it cannot open.
//!
//! Absent on purpose: protocols. What the bytes mean is the caller's business.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use super::sys::{forget_errors, poll};
use crate::socket::sys;

pub use crate::socket::reset_on_close;

/// The longest IP packet.
const PACKET_SIZE_MAX: usize = 65_536;
/// An IPv4 header without options.
const IPV4_HEADER_SIZE: usize = 20;

/// A raw IP socket of one protocol, bound to one address: it hears what is sent there, and sends from it.
#[derive(Debug)]
pub struct RawSocket {
    // std reads, writes and connects any kind of datagram socket; only opening a raw one is beyond it.
    socket: UdpSocket,
    local: IpAddr,
}

/// A packet as it arrived, without its IP header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packet {
    /// Who sent it, as seen here.
    pub source: IpAddr,
    /// The protocol's own bytes.
    pub payload: Vec<u8>,
}

impl RawSocket {
    /// Opens a socket for an IP protocol number in the calling thread's namespace. Needs root.
    ///
    /// Any ICMP error that answers a packet of ours comes back as an error of [`RawSocket::receive`] once
    /// [`RawSocket::connect`] has been called.
    pub fn open(protocol: u8, local: IpAddr) -> io::Result<Self> {
        let family = if local.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
        let fd = sys::socket(family, libc::SOCK_RAW, protocol.into())?;
        report_icmp_errors(fd.as_fd(), local)?;
        sys::bind(fd.as_fd(), SocketAddr::new(local, 0))?;
        Self::never_blocking(fd.into(), local)
    }

    /// The same, but it hears of no errors: it only hears, beside whoever else does, what is delivered to `local`.
    pub fn overhear(protocol: u8, local: IpAddr) -> io::Result<Self> {
        let family = if local.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
        let fd = sys::socket(family, libc::SOCK_RAW, protocol.into())?;
        sys::bind(fd.as_fd(), SocketAddr::new(local, 0))?;
        Self::never_blocking(fd.into(), local)
    }

    fn never_blocking(socket: UdpSocket, local: IpAddr) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        Ok(Self { socket, local })
    }

    /// The address that it is bound to.
    pub fn local(&self) -> IpAddr {
        self.local
    }

    /// From now on hears `peer` alone, and of errors on the way there.
    pub fn connect(&self, peer: IpAddr) -> io::Result<()> {
        self.socket.connect(SocketAddr::new(peer, 0))
    }

    /// Sends one packet; the kernel adds the IP header.
    pub fn send(&self, payload: &[u8], destination: IpAddr) -> io::Result<()> {
        self.socket.send_to(payload, SocketAddr::new(destination, 0)).map(drop)
    }

    /// Takes one packet, waiting up to `limit`; `None` when there is none.
    pub fn receive(&self, limit: Duration) -> io::Result<Option<Packet>> {
        let mut buffer = vec![0; PACKET_SIZE_MAX];
        let received = receive_within(self.as_fd(), limit, || self.socket.recv_from(&mut buffer))?;
        let Some((size, source)) = received else { return Ok(None) };
        buffer.truncate(size);
        Ok(Some(Packet { source: source.ip(), payload: without_header(buffer, self.local) }))
    }
}

/// Calls `receive` when the socket, which never blocks, is readable; `None` when nothing came within `limit`.
///
/// A socket that was readable may have nothing: a packet with a wrong checksum, or ICMP errors that were told already and still wait in its
/// error queue.
fn receive_within<T>(
    socket: BorrowedFd<'_>,
    limit: Duration,
    mut receive: impl FnMut() -> io::Result<T>,
) -> io::Result<Option<T>> {
    let deadline = Instant::now() + limit;
    while wait_readable(&[socket], Some(deadline.saturating_duration_since(Instant::now())))?[0] {
        match receive() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => forget_errors(socket),
            received => return received.map(Some),
        }
    }
    Ok(None)
}

impl AsFd for RawSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Sends whole packets of one family, IP header included: their source may be anybody's address.
#[derive(Debug)]
pub struct HeaderSocket {
    socket: UdpSocket,
}

impl HeaderSocket {
    /// Opens one in the calling thread's namespace. Needs root.
    pub fn open(is_ipv4: bool) -> io::Result<Self> {
        let family = if is_ipv4 { libc::AF_INET } else { libc::AF_INET6 };
        // Of both families, this protocol means that the header comes from the sender.
        let fd = sys::socket(family, libc::SOCK_RAW, libc::IPPROTO_RAW)?;
        Ok(Self { socket: fd.into() })
    }

    /// Sends one packet; `destination` is the one in its header.
    pub fn send(&self, packet: &[u8], destination: IpAddr) -> io::Result<()> {
        self.socket.send_to(packet, SocketAddr::new(destination, 0)).map(drop)
    }
}

/// Hears every packet that passes any link of a namespace, of any protocol, for whomever it is.
#[derive(Debug)]
pub struct LinkSocket {
    socket: UdpSocket,
}

impl LinkSocket {
    /// Opens one in the calling thread's namespace. Needs root.
    pub fn open() -> io::Result<Self> {
        let everything = u16::try_from(libc::ETH_P_ALL).unwrap_or_default().to_be();
        let socket: UdpSocket = sys::socket(libc::AF_PACKET, libc::SOCK_DGRAM, everything.into())?.into();
        socket.set_nonblocking(true)?;
        Ok(Self { socket })
    }

    /// Takes one packet, beginning with its IP header and waiting up to `limit`; `None` when there is none.
    pub fn receive(&self, limit: Duration) -> io::Result<Option<Vec<u8>>> {
        let mut buffer = vec![0; PACKET_SIZE_MAX];
        let received = receive_within(self.as_fd(), limit, || self.socket.recv(&mut buffer))?;
        Ok(received.map(|size| {
            buffer.truncate(size);
            buffer
        }))
    }
}

impl AsFd for LinkSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Connects from a source of the caller's choice; port 0 lets the kernel choose. Waits up to `limit`.
pub fn connect_from(source: SocketAddr, destination: SocketAddr, limit: Duration) -> io::Result<TcpStream> {
    connect_stream(0, source, destination, limit)
}

/// The same over SCTP: one association that reads and writes like a stream. A kernel without SCTP says `Unsupported`.
pub fn connect_sctp(source: SocketAddr, destination: SocketAddr, limit: Duration) -> io::Result<TcpStream> {
    connect_stream(libc::IPPROTO_SCTP, source, destination, limit).map_err(no_protocol_is_unsupported)
}

/// Takes SCTP associations, each of which reads and writes like a stream. A kernel without SCTP says `Unsupported`.
pub fn listen_sctp(local: SocketAddr) -> io::Result<TcpListener> {
    const QUEUE: libc::c_int = 128;
    let fd = stream_at(libc::IPPROTO_SCTP, local).map_err(no_protocol_is_unsupported)?;
    sys::listen(fd.as_fd(), QUEUE)?;
    Ok(fd.into())
}

/// A stream socket of a protocol (0 is TCP) with an address of its own.
fn stream_at(protocol: libc::c_int, local: SocketAddr) -> io::Result<OwnedFd> {
    let family = if local.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    let fd = sys::socket(family, libc::SOCK_STREAM, protocol)?;
    sys::set_number(fd.as_fd(), libc::SOL_SOCKET, libc::SO_REUSEADDR, 1)?;
    sys::bind(fd.as_fd(), local)?;
    Ok(fd)
}

fn connect_stream(
    protocol: libc::c_int,
    source: SocketAddr,
    destination: SocketAddr,
    limit: Duration,
) -> io::Result<TcpStream> {
    // std reads, writes and closes any kind of stream socket; only opening others than TCP is beyond it.
    let stream = TcpStream::from(stream_at(protocol, source)?);
    stream.set_write_timeout(Some(limit))?;
    sys::connect(stream.as_fd(), destination).map_err(still_connecting_is_a_timeout)?;
    stream.set_write_timeout(None)?;
    Ok(stream)
}

/// Has a datagram socket report every ICMP error, also those that UDP by itself keeps to itself.
pub fn report_icmp_errors(socket: BorrowedFd<'_>, local: IpAddr) -> io::Result<()> {
    match local {
        IpAddr::V4(_) => sys::set_number(socket, libc::IPPROTO_IP, libc::IP_RECVERR, 1),
        IpAddr::V6(_) => sys::set_number(socket, libc::IPPROTO_IPV6, libc::IPV6_RECVERR, 1),
    }
}

/// Waits until something can be read (or has failed, or was closed); says for each whether it has.
/// Without a limit it waits for ever; all are `false` when the limit has passed or a signal came.
pub fn wait_readable(sources: &[BorrowedFd<'_>], limit: Option<Duration>) -> io::Result<Vec<bool>> {
    poll(sources, limit)
}

/// IPv4 raw sockets hear the IP header too, IPv6 ones do not.
fn without_header(mut bytes: Vec<u8>, local: IpAddr) -> Vec<u8> {
    if local.is_ipv6() {
        return bytes;
    }
    let words = bytes.first().map_or(0, |first| usize::from(first & 0x0f));
    bytes.drain(..(words * 4).max(IPV4_HEADER_SIZE).min(bytes.len()));
    bytes
}

/// A blocking connect whose send timeout has passed says so in these words.
fn still_connecting_is_a_timeout(error: io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(libc::EINPROGRESS | libc::EAGAIN) => io::ErrorKind::TimedOut.into(),
        _ => error,
    }
}

/// A kernel without a protocol has several words for it.
fn no_protocol_is_unsupported(error: io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(libc::EPROTONOSUPPORT | libc::ESOCKTNOSUPPORT) => io::ErrorKind::Unsupported.into(),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ipv4_header_is_cut_off_whatever_its_length() {
        let local = IpAddr::from([10, 0, 0, 1]);
        let with_options = [&[0x46u8][..], &[0; 23], b"rest"].concat();
        assert_eq!(without_header(with_options, local), b"rest");
        assert_eq!(without_header([&[0x45u8][..], &[0; 19], b"rest"].concat(), local), b"rest");
        assert_eq!(without_header(vec![0x4f; 7], local), b"");
        assert_eq!(without_header(Vec::new(), local), b"");
    }
}
