//! A TCP segment by hand, far ahead of the window of a connection.
//!
//! A [`StraySender`] listens in the namespace of a server: from the segments that clients send there it learns the sequence numbers of
//! their connections. It then sends, in the server's name, one segment that is far ahead of the window, as a server does whose packets
//! were lost or reordered on the way. The acknowledgement number is right: if the client answers with a reset, the server accepts it.
//!
//! Format: RFC 9293, section 3.1.

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use crate::namespace::socket::{Packet, RawSocket};

use crate::error::Result;
use crate::patience::patient;
use crate::place::Place;
use crate::plan::Family;

/// TCP's number as an IP protocol.
const TCP: u8 = 6;
const HEADER_SIZE: usize = 20;
const PSH_ACK: u8 = 0x18;
/// Larger than any window.
const FAR_AHEAD: u32 = 1 << 29;

/// Sends stray segments in the name of one server port.
#[derive(Debug)]
pub struct StraySender {
    socket: RawSocket,
    port: u16,
}

/// What the last segment of a client says of its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seen {
    client: IpAddr,
    client_port: u16,
    /// The client's next byte.
    client_next: u32,
    /// The server's bytes that the client has.
    acknowledged: u32,
}

impl StraySender {
    /// Listens from now on. Needs root.
    pub fn listen(server: &Place, family: Family, port: u16) -> Result<io::Result<Self>> {
        let local = server.address(family);
        let opened = server.run(|| RawSocket::overhear(TCP, local))?;
        Ok(opened.map(|socket| Self { socket, port }))
    }

    /// Sends one stray segment to the client that was heard last. An error if none was heard within `limit`.
    pub fn send(&self, limit: Duration) -> io::Result<()> {
        let mut last = None;
        let mut limit = patient(limit);
        while let Some(packet) = self.socket.receive(limit)? {
            if let Some(seen) = Seen::read(&packet, self.port) {
                // One is enough; what else has come already is newer.
                (last, limit) = (Some(seen), Duration::ZERO);
            }
        }
        let seen =
            last.ok_or_else(|| io::Error::new(io::ErrorKind::TimedOut, "no segment of a client came"))?;
        self.socket.send(&seen.stray(self.socket.local(), self.port), seen.client)
    }
}

impl Seen {
    fn read(packet: &Packet, port: u16) -> Option<Self> {
        let bytes = &packet.payload;
        let half = |at: usize| bytes.get(at..at + 2)?.try_into().ok().map(u16::from_be_bytes);
        let word = |at: usize| bytes.get(at..at + 4)?.try_into().ok().map(u32::from_be_bytes);
        if half(2)? != port {
            return None;
        }
        let header = usize::from(bytes.get(12)? >> 4) * 4;
        let data = u32::try_from(bytes.len().checked_sub(header)?).ok()?;
        Some(Self {
            client: packet.source,
            client_port: half(0)?,
            client_next: word(4)?.wrapping_add(data),
            acknowledged: word(8)?,
        })
    }

    fn stray(&self, server: IpAddr, port: u16) -> Vec<u8> {
        let mut segment = Vec::with_capacity(HEADER_SIZE + 1);
        segment.extend(port.to_be_bytes());
        segment.extend(self.client_port.to_be_bytes());
        segment.extend(self.acknowledged.wrapping_add(FAR_AHEAD).to_be_bytes());
        segment.extend(self.client_next.to_be_bytes());
        segment.extend([0x50, PSH_ACK, 0x01, 0xf4, 0, 0, 0, 0, b'x']);
        let sum = checksum(server, self.client, &segment);
        segment[16..18].copy_from_slice(&sum.to_be_bytes());
        segment
    }
}

/// The checksum over the pseudo header and the segment, whose own checksum is still 0.
fn checksum(source: IpAddr, destination: IpAddr, segment: &[u8]) -> u16 {
    let octets = |ip: IpAddr| match ip {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    };
    let length = u16::try_from(segment.len()).unwrap_or(u16::MAX).to_be_bytes();
    let mut bytes = [octets(source), octets(destination), vec![0, TCP], length.to_vec()].concat();
    bytes.extend(segment);
    let word = |pair: &[u8]| u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0));
    let mut sum: u32 = bytes.chunks(2).map(word).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !u16::try_from(sum).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment_of_a_client(data: &[u8]) -> Packet {
        let mut payload =
            vec![0x9c, 0x40, 0x1f, 0x91, 0, 0, 0, 100, 0, 0, 0, 200, 0x50, PSH_ACK, 1, 0, 0, 0, 0, 0];
        payload.extend(data);
        Packet { source: "10.244.1.5".parse().unwrap(), payload }
    }

    #[test]
    fn the_stray_segment_is_ahead_of_the_server_and_acknowledges_all_of_the_client() {
        let seen = Seen::read(&segment_of_a_client(b"who?\n"), 8081).unwrap();
        assert_eq!((seen.client_port, seen.client_next, seen.acknowledged), (40_000, 105, 200));
        let stray = seen.stray("10.244.2.7".parse().unwrap(), 8081);
        assert_eq!(stray[4..8], (200 + FAR_AHEAD).to_be_bytes());
        assert_eq!(stray[8..12], 105_u32.to_be_bytes());
        // Over a segment with its right checksum, the sum is 0.
        assert_eq!(checksum("10.244.2.7".parse().unwrap(), seen.client, &stray), 0);
    }

    #[test]
    fn segments_for_other_ports_and_torn_ones_are_passed_over() {
        let packet = segment_of_a_client(b"");
        assert_eq!(Seen::read(&packet, 80), None);
        for length in 0..HEADER_SIZE {
            let torn = Packet { payload: packet.payload[..length].to_vec(), ..packet };
            assert_eq!(Seen::read(&torn, 8081), None, "{length} bytes");
        }
    }
}
