//! Sockets that std cannot make: raw IP, TCP from a chosen source, SCTP, and waiting for many at once.
//!
//! In: addresses and bytes. Out: std's own types where they fit, since std can use what it cannot open.
//!
//! Absent on purpose: protocols. What the bytes mean is the caller's business.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::num::NonZero;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::set_socket_reuseaddr;
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SocketFlags, SocketType, bind, connect, eth, ipproto, listen, recv,
    socket_with,
};

pub use kernel::socket::{report_icmp_errors, reset_on_close};

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
        let socket = Self::overhear(protocol, local)?;
        report_icmp_errors(socket.as_fd(), local)?;
        Ok(socket)
    }

    /// The same, but it hears of no errors: it only hears, beside whoever else does, what is delivered to `local`.
    pub fn overhear(protocol: u8, local: IpAddr) -> io::Result<Self> {
        let protocol = NonZero::new(u32::from(protocol)).map(Protocol::from_raw);
        let fd = open(family(local.is_ipv4()), SocketType::RAW, protocol)?;
        bind(&fd, &SocketAddr::new(local, 0))?;
        let socket = UdpSocket::from(fd);
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
        // Of both families, this protocol means that the header comes from the sender.
        let fd = open(family(is_ipv4), SocketType::RAW, Some(ipproto::RAW))?;
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
        let socket: UdpSocket = open(AddressFamily::PACKET, SocketType::DGRAM, Some(eth::ALL))?.into();
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
    connect_stream(None, source, destination, limit)
}

/// The same over SCTP: one association that reads and writes like a stream. A kernel without SCTP says `Unsupported`.
pub fn connect_sctp(source: SocketAddr, destination: SocketAddr, limit: Duration) -> io::Result<TcpStream> {
    connect_stream(Some(ipproto::SCTP), source, destination, limit).map_err(no_protocol_is_unsupported)
}

/// Takes SCTP associations, each of which reads and writes like a stream. A kernel without SCTP says `Unsupported`.
pub fn listen_sctp(local: SocketAddr) -> io::Result<TcpListener> {
    const QUEUE: i32 = 128;
    let fd = stream_at(Some(ipproto::SCTP), local).map_err(no_protocol_is_unsupported)?;
    listen(&fd, QUEUE)?;
    Ok(fd.into())
}

/// A stream socket of a protocol (`None` is TCP) with an address of its own.
fn stream_at(protocol: Option<Protocol>, local: SocketAddr) -> io::Result<OwnedFd> {
    let fd = open(family(local.is_ipv4()), SocketType::STREAM, protocol)?;
    set_socket_reuseaddr(&fd, true)?;
    bind(&fd, &local)?;
    Ok(fd)
}

fn open(family: AddressFamily, kind: SocketType, protocol: Option<Protocol>) -> io::Result<OwnedFd> {
    Ok(socket_with(family, kind, SocketFlags::CLOEXEC, protocol)?)
}

fn family(is_ipv4: bool) -> AddressFamily {
    if is_ipv4 { AddressFamily::INET } else { AddressFamily::INET6 }
}

fn connect_stream(
    protocol: Option<Protocol>,
    source: SocketAddr,
    destination: SocketAddr,
    limit: Duration,
) -> io::Result<TcpStream> {
    // std reads, writes and closes any kind of stream socket; only opening others than TCP is beyond it.
    let stream = TcpStream::from(stream_at(protocol, source)?);
    stream.set_write_timeout(Some(limit))?;
    connect(&stream, &destination).map_err(still_connecting_is_a_timeout)?;
    stream.set_write_timeout(None)?;
    Ok(stream)
}

/// Waits until something can be read (or has failed, or was closed); says for each whether it has.
/// Without a limit it waits for ever; all are `false` when the limit has passed or a signal came.
pub fn wait_readable(sources: &[BorrowedFd<'_>], limit: Option<Duration>) -> io::Result<Vec<bool>> {
    let mut polled: Vec<_> =
        sources.iter().map(|source| PollFd::from_borrowed_fd(*source, PollFlags::IN)).collect();
    let limit = limit.map(Timespec::try_from).transpose().map_err(|_| io::ErrorKind::InvalidInput)?;
    match poll(&mut polled, limit.as_ref()) {
        Err(Errno::INTR) => Ok(vec![false; sources.len()]),
        Err(error) => Err(error.into()),
        Ok(_) => Ok(polled.iter().map(|source| !source.revents().is_empty()).collect()),
    }
}

/// Forgets the ICMP errors that wait in a socket's error queue: while one does, poll calls the socket readable.
fn forget_errors(socket: BorrowedFd<'_>) {
    while recv(socket, &mut [0_u8], RecvFlags::ERRQUEUE | RecvFlags::DONTWAIT).is_ok() {}
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
fn still_connecting_is_a_timeout(error: Errno) -> io::Error {
    match error {
        Errno::INPROGRESS | Errno::AGAIN => io::ErrorKind::TimedOut.into(),
        _ => error.into(),
    }
}

/// A kernel without a protocol has several words for it.
fn no_protocol_is_unsupported(error: io::Error) -> io::Error {
    match Errno::from_io_error(&error) {
        Some(Errno::PROTONOSUPPORT | Errno::SOCKTNOSUPPORT) => io::ErrorKind::Unsupported.into(),
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
