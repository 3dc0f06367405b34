//! Asks a server one question, from any place, and tells how it ended.
//!
//! Absent on purpose: trying again, as a lost answer is what the tests look for; and SCTP, for which not every kernel has sockets: see
//! `sctp.rs`.

use std::io::{self, BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use model::Protocol;

use crate::namespace::socket::{connect_from, report_icmp_errors, reset_on_close};

use crate::patience::patient;
use crate::place::Place;
use crate::reply::Outcome;

/// How to ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ask {
    /// After this long without an answer it has timed out.
    pub limit: Duration,
    /// Ask from this address and port, where the kernel's choice will not do. Port 0 leaves the port open.
    pub source: Option<SocketAddr>,
}

impl Default for Ask {
    fn default() -> Self {
        Self { limit: patient(Duration::from_secs(2)), source: None }
    }
}

impl Ask {
    /// The usual way, but with this limit.
    pub fn within(limit: Duration) -> Self {
        Self { limit: patient(limit), ..Self::default() }
    }

    /// The usual way, but from this port.
    pub fn from_port(place: &Place, destination: SocketAddr, port: u16) -> Self {
        let family = crate::plan::Family::of(destination.ip());
        Self { source: Some(place.at(family, port)), ..Self::default() }
    }
}

/// Asks over TCP, the usual way.
pub fn tcp(from: &Place, destination: SocketAddr) -> Outcome {
    ask(from, Protocol::Tcp, destination, &Ask::default())
}

/// Asks over UDP, the usual way.
pub fn udp(from: &Place, destination: SocketAddr) -> Outcome {
    ask(from, Protocol::Udp, destination, &Ask::default())
}

/// Asks once, from a place.
pub fn ask(from: &Place, protocol: Protocol, destination: SocketAddr, how: &Ask) -> Outcome {
    let asked = from.run(|| ask_here(protocol, destination, how));
    asked.unwrap_or_else(|error| Outcome::Broken { what: error.to_string() })
}

/// Asks once, from the namespace that the calling thread is in.
pub(crate) fn ask_here(protocol: Protocol, destination: SocketAddr, how: &Ask) -> Outcome {
    let start = Instant::now();
    match protocol {
        Protocol::Tcp => ask_tcp(destination, how, start),
        Protocol::Udp => outcome(ask_udp(destination, how), start),
        Protocol::Sctp => Outcome::of_error(&no_sctp(), start.elapsed()),
    }
}

/// What SCTP is answered here: the playground has the first packets of an association and no socket.
pub(crate) fn no_sctp() -> io::Error {
    io::Error::new(
        io::ErrorKind::Unsupported,
        "SCTP is asked with `sctp_init` alone, once and without a connection",
    )
}

fn outcome(line: io::Result<String>, start: Instant) -> Outcome {
    match line {
        Ok(line) => Outcome::of_line(line.trim_end(), start.elapsed()),
        Err(error) => Outcome::of_error(&error, start.elapsed()),
    }
}

fn ask_tcp(destination: SocketAddr, how: &Ask, start: Instant) -> Outcome {
    let stream = match connect_here(destination, how) {
        Ok(stream) => stream,
        Err(error) => return Outcome::of_error(&error, start.elapsed()),
    };
    match outcome(listen(&stream, how, start), start) {
        Outcome::TimedOut => Outcome::Unanswered,
        other => other,
    }
}

fn listen(stream: &TcpStream, how: &Ask, start: Instant) -> io::Result<String> {
    reset_on_close(stream)?;
    stream.set_read_timeout(Some(left(how.limit, start)?))?;
    read_line(&mut BufReader::new(stream))
}

fn ask_udp(destination: SocketAddr, how: &Ask) -> io::Result<String> {
    let socket = udp_here(destination, how)?;
    ask_datagram(&socket, how.limit)
}

/// Opens a connection from the namespace that the calling thread is in.
pub(crate) fn connect_here(destination: SocketAddr, how: &Ask) -> io::Result<TcpStream> {
    match how.source {
        None => TcpStream::connect_timeout(&destination, how.limit),
        Some(source) => connect_from(source, destination, how.limit),
    }
}

/// Opens a UDP socket that hears `destination` alone, and of every refusal on the way there.
pub(crate) fn udp_here(destination: SocketAddr, how: &Ask) -> io::Result<UdpSocket> {
    let any: IpAddr =
        if destination.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind(how.source.unwrap_or(SocketAddr::new(any, 0)))?;
    report_icmp_errors(socket.as_fd(), any)?;
    socket.connect(destination)?;
    Ok(socket)
}

/// One datagram there, one back.
pub(crate) fn ask_datagram(socket: &UdpSocket, limit: Duration) -> io::Result<String> {
    socket.set_read_timeout(Some(limit))?;
    socket.send(b"who?\n")?;
    let mut answer = [0; 512];
    let size = socket.recv(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer[..size]).into_owned())
}

/// Reads one line; a connection that ends before it is an error.
pub(crate) fn read_line(reader: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    match reader.read_line(&mut line)? {
        0 => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "connected, but closed without an answer")),
        _ => Ok(line),
    }
}

/// What is left of the time; never zero, which would mean "for ever".
fn left(limit: Duration, start: Instant) -> io::Result<Duration> {
    let left = limit.saturating_sub(start.elapsed());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_over_sctp_is_told_what_to_use() {
        let there = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 80);
        let outcome = ask_here(Protocol::Sctp, there, &Ask::default());
        assert!(matches!(&outcome, Outcome::Broken { what } if what.contains("sctp_init")), "{outcome}");
    }
}
