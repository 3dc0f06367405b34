//! ICMP echo, by a raw socket.

use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use crate::namespace::socket::RawSocket;

use crate::patience::patient;
use crate::place::Place;
use crate::plan::Family;

/// How a ping ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ping {
    /// It came back.
    Answered {
        /// There and back.
        elapsed: Duration,
    },
    /// Somebody on the way said that there is no way.
    Unreachable {
        /// How long that took.
        elapsed: Duration,
    },
    /// Nobody said anything.
    TimedOut,
    /// Something else went wrong here.
    Broken {
        /// What.
        what: String,
    },
}

/// The numbers that differ between the families.
struct Numbers {
    protocol: u8,
    request: u8,
    answer: u8,
}

impl Numbers {
    const fn of(family: Family) -> Self {
        match family {
            Family::V4 => Self { protocol: 1, request: 8, answer: 0 },
            Family::V6 => Self { protocol: 58, request: 128, answer: 129 },
        }
    }
}

/// Sends one echo request and waits for what comes of it.
pub fn ping(from: &Place, destination: IpAddr, limit: Duration) -> Ping {
    let (local, limit) = (from.address(Family::of(destination)), patient(limit));
    let start = Instant::now();
    let pinged = from.run(|| ping_here(local, destination, start, limit));
    match pinged {
        Ok(Ok(true)) => Ping::Answered { elapsed: start.elapsed() },
        Ok(Ok(false)) => Ping::TimedOut,
        Ok(Err(error)) if is_unreachable(&error) => Ping::Unreachable { elapsed: start.elapsed() },
        Ok(Err(error)) => Ping::Broken { what: error.to_string() },
        Err(error) => Ping::Broken { what: error.to_string() },
    }
}

fn ping_here(local: IpAddr, destination: IpAddr, start: Instant, limit: Duration) -> io::Result<bool> {
    static COUNT: AtomicU16 = AtomicU16::new(1);
    let numbers = Numbers::of(Family::of(destination));
    let identity = [std::process::id().to_be_bytes()[2..].to_vec(), count(&COUNT)].concat();
    let socket = RawSocket::open(numbers.protocol, local)?;
    socket.connect(destination)?;
    socket.send(&echo(numbers.request, &identity), destination)?;
    while let Some(left) = limit.checked_sub(start.elapsed()) {
        let Some(packet) = socket.receive(left)? else { continue };
        if packet.payload.first() == Some(&numbers.answer) && packet.payload.get(4..8) == Some(&identity[..])
        {
            return Ok(true);
        }
    }
    Ok(false)
}

fn count(counter: &AtomicU16) -> Vec<u8> {
    counter.fetch_add(1, Ordering::Relaxed).to_be_bytes().to_vec()
}

/// Type, code 0, checksum, identity and sequence. For IPv6 the kernel writes the checksum itself.
fn echo(kind: u8, identity: &[u8]) -> Vec<u8> {
    let mut message = [&[kind, 0, 0, 0][..], identity].concat();
    let checksum = internet_checksum(&message);
    message[2..4].copy_from_slice(&checksum.to_be_bytes());
    message
}

fn internet_checksum(bytes: &[u8]) -> u16 {
    let words =
        bytes.chunks(2).map(|word| u32::from(word[0]) << 8 | word.get(1).copied().map_or(0, u32::from));
    let sum = words.sum::<u32>();
    let folded = (sum & 0xffff) + (sum >> 16);
    !u16::try_from((folded & 0xffff) + (folded >> 16)).unwrap_or(u16::MAX)
}

fn is_unreachable(error: &io::Error) -> bool {
    use io::ErrorKind as Kind;
    matches!(
        error.kind(),
        Kind::ConnectionRefused | Kind::HostUnreachable | Kind::NetworkUnreachable | Kind::PermissionDenied
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_with_its_checksum_sums_to_nothing() {
        let message = echo(8, &[0x12, 0x34, 0xff, 0xfe]);
        assert_eq!(internet_checksum(&message), 0);
        // RFC 1071, section 3.
        assert_eq!(internet_checksum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), !0xddf2);
    }
}
