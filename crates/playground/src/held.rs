//! A connection that stays, to see what a change of rules does to it.
//!
//! TCP needs a server port that holds connections ([`crate::Ports::held`]); for UDP it is one socket, so the
//! same flow each time.

use std::io::{self, BufReader, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use model::Protocol;

use crate::client::{Ask, ask_datagram, connect_here, no_sctp, read_line, udp_here};
use crate::patience::patient;
use crate::place::Place;
use crate::reply::{Outcome, Reply};

/// A connection or a UDP flow that is kept.
#[derive(Debug)]
pub struct Held {
    wire: Wire,
    first: Option<Reply>,
}

#[derive(Debug)]
enum Wire {
    Tcp(BufReader<TcpStream>),
    Udp(UdpSocket),
}

impl Held {
    /// Opens it and asks once; when that fails, the error is how it ended.
    pub fn open(
        from: &Place,
        protocol: Protocol,
        destination: SocketAddr,
        how: &Ask,
    ) -> Result<Self, Box<Outcome>> {
        let start = Instant::now();
        let opened = from.run(|| Wire::open(protocol, destination, how));
        let wire = opened
            .map_err(|error| Outcome::Broken { what: error.to_string() })?
            .map_err(|error| Outcome::of_error(&error, start.elapsed()))?;
        let mut held = Self { wire, first: None };
        // A TCP server speaks first; over UDP the client does.
        let first = held.timed(|wire| match wire {
            Wire::Tcp(stream) => listen(stream, how.limit),
            Wire::Udp(socket) => ask_datagram(socket, how.limit),
        });
        held.first = first.reply().cloned();
        if held.first.is_some() { Ok(held) } else { Err(first.into()) }
    }

    /// What the server said at first.
    ///
    /// # Panics
    /// Never: one that was not answered is not held.
    pub fn reply(&self) -> &Reply {
        self.first.as_ref().expect("`open` returns only what was answered")
    }

    /// Asks again over the same connection.
    pub fn ping(&mut self, limit: Duration) -> Outcome {
        let limit = patient(limit);
        self.timed(|wire| match wire {
            Wire::Tcp(stream) => {
                stream.get_mut().write_all(b"who?\n")?;
                listen(stream, limit)
            }
            Wire::Udp(socket) => ask_datagram(socket, limit),
        })
    }

    /// The client's own address and port, as the client knows it.
    pub fn local(&self) -> io::Result<SocketAddr> {
        match &self.wire {
            Wire::Tcp(stream) => stream.get_ref().local_addr(),
            Wire::Udp(socket) => socket.local_addr(),
        }
    }

    fn timed(&mut self, question: impl FnOnce(&mut Wire) -> io::Result<String>) -> Outcome {
        let start = Instant::now();
        match question(&mut self.wire) {
            Ok(line) => Outcome::of_line(line.trim_end(), start.elapsed()),
            Err(error) => Outcome::of_error(&error, start.elapsed()),
        }
    }
}

impl Wire {
    fn open(protocol: Protocol, destination: SocketAddr, how: &Ask) -> io::Result<Self> {
        Ok(match protocol {
            Protocol::Tcp => Self::Tcp(BufReader::new(connect_here(destination, how)?)),
            Protocol::Udp => Self::Udp(udp_here(destination, how)?),
            Protocol::Sctp => return Err(no_sctp()),
        })
    }
}

fn listen(stream: &mut BufReader<TcpStream>, limit: Duration) -> io::Result<String> {
    stream.get_ref().set_read_timeout(Some(limit))?;
    read_line(stream)
}
