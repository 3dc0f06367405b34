//! Finds a port for a listener, and says in words why there is none.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::os::fd::OwnedFd;

use kernel::socket::{self, Kind};
use model::net::Protocol;

use super::listener::Socket;
use super::{At, RelayError};

/// Gives ports of a range in turn, so that a port that was just closed is not at once somebody else's: packets for the
/// old one may still be on their way.
#[derive(Debug)]
pub(super) struct Ports {
    range: Option<RangeInclusive<u16>>,
    next: u16,
}

impl Ports {
    pub(super) fn new(range: Option<RangeInclusive<u16>>) -> Self {
        let next = range.as_ref().map_or(0, |range| *range.start());
        Self { range, next }
    }

    /// A socket that listens where it is asked for.
    pub(super) fn bind(&mut self, protocol: Protocol, at: At) -> Result<Socket, RelayError> {
        match at {
            At::Exactly(at) => bind(protocol, at).map_err(|error| explain(protocol, at, &error)),
            At::Any { address, wish } => self.bind_any(protocol, address, wish),
        }
    }

    fn bind_any(
        &mut self,
        protocol: Protocol,
        address: IpAddr,
        wish: Option<u16>,
    ) -> Result<Socket, RelayError> {
        let wish = wish.filter(|port| self.range.as_ref().is_none_or(|range| range.contains(port)));
        // The wish may be somebody else's by now: then any other will do.
        if let Some(socket) = wish.and_then(|port| bind(protocol, SocketAddr::new(address, port)).ok()) {
            return Ok(socket);
        }
        match self.range.clone() {
            None => {
                let at = SocketAddr::new(address, 0);
                bind(protocol, at).map_err(|error| explain(protocol, at, &error))
            }
            Some(range) => self.bind_in(protocol, address, &range),
        }
    }

    fn bind_in(
        &mut self,
        protocol: Protocol,
        address: IpAddr,
        range: &RangeInclusive<u16>,
    ) -> Result<Socket, RelayError> {
        for port in (self.next..=*range.end()).chain(*range.start()..self.next) {
            let at = SocketAddr::new(address, port);
            match bind(protocol, at) {
                Ok(socket) => {
                    self.next = if port == *range.end() { *range.start() } else { port + 1 };
                    return Ok(socket);
                }
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
                Err(error) => return Err(explain(protocol, at, &error)),
            }
        }
        Err(RelayError::RangeExhausted { protocol, address, range: range.clone() })
    }
}

/// Takes a port and does nothing with it.
pub(super) fn hold(protocol: Protocol, at: SocketAddr) -> Result<OwnedFd, RelayError> {
    let kind = match protocol {
        Protocol::Tcp => Kind::Stream,
        Protocol::Udp => Kind::Datagram,
        Protocol::Sctp => return Err(RelayError::Sctp),
    };
    socket::hold(at, kind).map_err(|error| explain(protocol, at, &error))
}

fn bind(protocol: Protocol, at: SocketAddr) -> io::Result<Socket> {
    match protocol {
        Protocol::Tcp => socket::listen_tcp(at).map(Socket::Tcp),
        Protocol::Udp => socket::listen_udp(at).map(Socket::Udp),
        Protocol::Sctp => Err(io::ErrorKind::Unsupported.into()),
    }
}

fn explain(protocol: Protocol, at: SocketAddr, error: &io::Error) -> RelayError {
    match error.raw_os_error() {
        Some(libc::EADDRINUSE) => RelayError::InUse { protocol, at },
        Some(libc::EADDRNOTAVAIL) => RelayError::NoSuchAddress { protocol, at },
        Some(libc::EACCES | libc::EPERM) => RelayError::NotAllowed { protocol, at },
        Some(libc::EMFILE | libc::ENFILE) => {
            RelayError::TooManyFiles { protocol, at, limit: kernel::limit::files() }
        }
        _ => RelayError::Refused { protocol, at, said: error.to_string() },
    }
}
