//! SCTP by hand: the first two packets of an association, over raw IP sockets.
//!
//! NAT knows SCTP where the kernel has no sockets for it, so it can be tested all the same. The client sends
//! an INIT; the server's INIT-ACK carries its answer, the same line as over TCP, as its state cookie. The
//! client takes only an INIT-ACK that comes from the address it called and bears its own tag: so "answered"
//! means that the way back was translated too.
//!
//! Formats: RFC 9260, sections 3 and 3.3.2 to 3.3.7.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::namespace::socket::{Packet, RawSocket, wait_readable};

use crate::patience::patient;
use crate::place::Place;
use crate::plan::Family;
use crate::reply::{Outcome, Refusal};

/// SCTP's number as an IP protocol.
pub const PROTOCOL: u8 = 132;

const HEADER_SIZE: usize = 12;
const INIT: u8 = 1;
const INIT_ACK: u8 = 2;
const ABORT: u8 = 6;
/// Tag, window, streams out and in, first sequence number.
const INIT_FIXED_SIZE: usize = 16;
const STATE_COOKIE: u16 = 7;
const PARAMETER_HEADER_SIZE: usize = 4;
/// "Protocol unreachable" (IPv4, ENOPROTOOPT) and "unknown next header" (IPv6, EPROTO): the host is there,
/// but has nobody for SCTP.
const PROTOCOL_UNREACHABLE: [i32; 2] = [92, 71];

/// Sends an INIT and waits for the answer.
///
/// Refused with [`Refusal::Port`] by an ABORT or by ICMP port unreachable. An INIT-ACK from another address
/// than the one called is [`Outcome::Broken`], with that address.
pub fn sctp_init(from: &Place, destination: SocketAddr, limit: Duration) -> Outcome {
    let (local, limit) = (from.address(Family::of(destination.ip())), patient(limit));
    let asked = from.run(|| init_here(local, destination, limit));
    asked.unwrap_or_else(|error| Outcome::Broken { what: error.to_string() })
}

fn init_here(local: IpAddr, destination: SocketAddr, limit: Duration) -> Outcome {
    let start = Instant::now();
    match exchange(local, destination, start, limit) {
        Ok(Some(outcome)) => outcome,
        Ok(None) => Outcome::TimedOut,
        Err(error) if error.raw_os_error().is_some_and(|code| PROTOCOL_UNREACHABLE.contains(&code)) => {
            Outcome::Refused { refusal: Refusal::Unreachable, elapsed: start.elapsed() }
        }
        Err(error) => Outcome::of_error(&error, start.elapsed()),
    }
}

/// Two sockets: the connected one sends and hears of ICMP errors, the other hears answers from anywhere,
/// so that an untranslated one is noticed.
fn exchange(
    local: IpAddr,
    destination: SocketAddr,
    start: Instant,
    limit: Duration,
) -> io::Result<Option<Outcome>> {
    let (line, ear) = (RawSocket::open(PROTOCOL, local)?, RawSocket::open(PROTOCOL, local)?);
    line.connect(destination.ip())?;
    let init = Init::new(destination.port());
    line.send(&init.encode(), destination.ip())?;
    while let Some(left) = limit.checked_sub(start.elapsed()) {
        let ready = wait_readable(&[ear.as_fd(), line.as_fd()], Some(left))?;
        if let Some(packet) = if ready[0] { ear.receive(Duration::ZERO)? } else { None }
            && let Some(outcome) = init.judge(&packet, destination, start.elapsed())
        {
            return Ok(Some(outcome));
        }
        // Its packets have been heard by the other one; what matters here is an error.
        if ready[1] {
            line.receive(Duration::ZERO)?;
        }
    }
    Ok(None)
}

/// An INIT: what the client sends, and what the server makes of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Init {
    pub(crate) source_port: u16,
    pub(crate) destination_port: u16,
    /// The client's tag: each answer bears it.
    tag: u32,
}

impl Init {
    /// Each from a port and with a tag of its own, so that no two share a tracked connection.
    fn new(destination_port: u16) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let source_port = 20_000 + u16::try_from(count % 20_000).unwrap_or_default();
        Self { source_port, destination_port, tag: 0x5050_0001 + (count & 0xffff) }
    }

    fn encode(self) -> Vec<u8> {
        let chunk = chunk(INIT, &initiation(self.tag));
        packet(self.source_port, self.destination_port, 0, &chunk)
    }

    /// Reads an INIT; `None` for anything else and for a wrong checksum.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let (source_port, destination_port, _) = header(bytes)?;
        let (kind, value) = first_chunk(bytes)?;
        let tag = u32::from_be_bytes(value.first_chunk().copied()?);
        (kind == INIT).then_some(Self { source_port, destination_port, tag })
    }

    /// The INIT-ACK for it, with `cookie` inside.
    pub(crate) fn acknowledge(self, cookie: &str) -> Vec<u8> {
        let mut value = initiation(self.tag ^ 0xffff);
        value.extend(STATE_COOKIE.to_be_bytes());
        value.extend(length(PARAMETER_HEADER_SIZE + cookie.len()));
        value.extend(cookie.as_bytes());
        packet(self.destination_port, self.source_port, self.tag, &chunk(INIT_ACK, &value))
    }

    /// What a host says that has nobody on that port.
    pub(crate) fn abort(self) -> Vec<u8> {
        packet(self.destination_port, self.source_port, self.tag, &chunk(ABORT, &[]))
    }

    /// What a packet means to the client; `None` when it is not an answer to this INIT.
    fn judge(self, packet: &Packet, called: SocketAddr, elapsed: Duration) -> Option<Outcome> {
        let (source_port, destination_port, tag) = header(&packet.payload)?;
        if (destination_port, tag) != (self.source_port, self.tag) {
            return None;
        }
        let from = SocketAddr::new(packet.source, source_port);
        if from != called {
            return Some(Outcome::Broken { what: format!("the answer came from {from}, not from {called}") });
        }
        match first_chunk(&packet.payload)? {
            (INIT_ACK, value) => Some(Outcome::of_line(&cookie(value)?, elapsed)),
            (ABORT, _) => Some(Outcome::Refused { refusal: Refusal::Port, elapsed }),
            _ => None,
        }
    }
}

/// The fixed part of INIT and INIT-ACK.
fn initiation(tag: u32) -> Vec<u8> {
    let (window, streams, first_number) = (65_536u32, [0u8, 1, 0, 1], 1u32);
    [&tag.to_be_bytes()[..], &window.to_be_bytes(), &streams, &first_number.to_be_bytes()].concat()
}

fn chunk(kind: u8, value: &[u8]) -> Vec<u8> {
    let mut chunk = vec![kind, 0];
    chunk.extend(length(4 + value.len()));
    chunk.extend(value);
    chunk.resize(chunk.len().next_multiple_of(4), 0);
    chunk
}

fn packet(source_port: u16, destination_port: u16, tag: u32, chunk: &[u8]) -> Vec<u8> {
    let ports = [source_port.to_be_bytes(), destination_port.to_be_bytes()].concat();
    let mut packet = [&ports[..], &tag.to_be_bytes(), &[0; 4], chunk].concat();
    let checksum = crc32c(&packet).to_le_bytes();
    packet[8..HEADER_SIZE].copy_from_slice(&checksum);
    packet
}

fn length(size: usize) -> [u8; 2] {
    u16::try_from(size).expect("what we put into a packet is short").to_be_bytes()
}

/// Source port, destination port and tag; `None` when cut short or when the checksum is wrong.
fn header(bytes: &[u8]) -> Option<(u16, u16, u32)> {
    let header: &[u8; HEADER_SIZE] = bytes.first_chunk()?;
    let [s0, s1, d0, d1, t0, t1, t2, t3, checksum @ ..] = *header;
    let zeroed = [&header[..8], &[0; 4], &bytes[HEADER_SIZE..]].concat();
    let right = u32::from_le_bytes(checksum) == crc32c(&zeroed);
    right.then_some((
        u16::from_be_bytes([s0, s1]),
        u16::from_be_bytes([d0, d1]),
        u32::from_be_bytes([t0, t1, t2, t3]),
    ))
}

/// Kind and value of the first chunk, which is the only one in these packets.
fn first_chunk(bytes: &[u8]) -> Option<(u8, &[u8])> {
    let [kind, _, high, low, ..] = *bytes.get(HEADER_SIZE..)? else { return None };
    let end = HEADER_SIZE + usize::from(u16::from_be_bytes([high, low]));
    Some((kind, bytes.get(HEADER_SIZE + 4..end)?))
}

/// The state cookie of an INIT-ACK, as text. It is the first parameter in ours.
fn cookie(value: &[u8]) -> Option<String> {
    let [t0, t1, high, low, ..] = *value.get(INIT_FIXED_SIZE..)? else { return None };
    let end = INIT_FIXED_SIZE + usize::from(u16::from_be_bytes([high, low]));
    let text = value.get(INIT_FIXED_SIZE + PARAMETER_HEADER_SIZE..end)?;
    (u16::from_be_bytes([t0, t1]) == STATE_COOKIE).then(|| String::from_utf8_lossy(text).into_owned())
}

/// CRC-32C (Castagnoli), bit by bit: short packets do not need a table.
fn crc32c(bytes: &[u8]) -> u32 {
    const REVERSED_POLYNOMIAL: u32 = 0x82f6_3b78;
    let step = |crc: u32| (crc >> 1) ^ if crc & 1 == 1 { REVERSED_POLYNOMIAL } else { 0 };
    !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), |crc, _| step(crc)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_castagnolis() {
        // RFC 3720, B.4, and the usual check value.
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
    }

    #[test]
    fn an_init_reads_as_it_was_written() {
        let init = Init::new(8080);
        assert_eq!(init.encode().len(), 32);
        assert_eq!(Init::read(&init.encode()), Some(init));
    }

    #[test]
    fn a_flipped_bit_or_a_cut_packet_is_no_init() {
        let whole = Init::new(8080).encode();
        for byte in 0..whole.len() {
            let mut flipped = whole.clone();
            flipped[byte] ^= 0x10;
            assert_eq!(Init::read(&flipped), None, "byte {byte}");
            assert_eq!(Init::read(&whole[..byte]), None, "cut at {byte}");
        }
    }

    #[test]
    fn only_the_called_address_with_our_tag_answers() {
        let called: SocketAddr = "10.96.0.1:80".parse().unwrap();
        let init = Init::new(called.port());
        let line = "web-a-0 10.244.1.10 saw 10.244.1.5:20000 to 10.244.1.10:8080";
        let judge = |source: &str, payload: Vec<u8>| {
            init.judge(&Packet { source: source.parse().unwrap(), payload }, called, Duration::ZERO)
        };
        let answer = judge("10.96.0.1", init.acknowledge(line)).unwrap();
        assert_eq!(answer.reply().unwrap().to_string(), line);
        assert!(judge("10.96.0.1", init.abort()).unwrap().is_refused());
        assert!(matches!(judge("10.244.1.10", init.acknowledge(line)), Some(Outcome::Broken { .. })));
        assert_eq!(judge("10.96.0.1", Init::new(80).acknowledge(line)), None);
        assert_eq!(judge("10.96.0.1", init.encode()), None);
    }
}
