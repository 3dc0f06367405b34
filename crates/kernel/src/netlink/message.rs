//! Netlink messages: the header, how a request is built, how an answer is taken apart.
//!
//! [`MessageWriter`] appends messages and nested attributes to one buffer and fills in their lengths.
//! [`Messages`] walks received bytes; a length that leaves the bytes is an error, never a panic.

use super::{Attributes, Errno, Error, Refusal, Result};

/// Flags of a message header.
pub mod flags {
    /// It is a request.
    pub const REQUEST: u16 = 0x1;
    /// Answer even when all is well.
    pub const ACK: u16 = 0x4;
    /// List everything that matches.
    pub const DUMP: u16 = 0x300;
    /// Fail if it exists already.
    pub const EXCL: u16 = 0x200;
    /// Create it if it does not exist.
    pub const CREATE: u16 = 0x400;
    /// Add at the end.
    pub const APPEND: u16 = 0x800;
    /// Said by the kernel: the listing changed while you read it.
    pub const DUMP_INTERRUPTED: u16 = 0x10;
    /// Said by the kernel about an error: the request is not quoted in full.
    pub const CAPPED: u16 = 0x100;
    /// Said by the kernel about an error: attributes with its reasons follow.
    pub const ACK_ATTRIBUTES: u16 = 0x200;
}

const NOOP: u16 = 1;
const ERROR: u16 = 2;
const DONE: u16 = 3;
const OVERRUN: u16 = 4;
const HEADER: usize = 16;
const REASON_TEXT: u16 = 1;
const REASON_OFFSET: u16 = 2;

/// The head of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Which request or answer it is.
    pub kind: u16,
    /// See [`flags`].
    pub flags: u16,
    /// The number that the requester gave.
    pub sequence: u32,
    /// Whose message it is; 0 is the kernel's own.
    pub port: u32,
}

/// One received message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message<'a> {
    /// What a subsystem has to say.
    Data(Header, &'a [u8]),
    /// The request with this sequence number went well.
    Ack(Header),
    /// The request with this sequence number was refused.
    Refused(Header, Refusal),
    /// The listing is complete, or failed half way.
    Done(Header, Option<Errno>),
    /// Something was lost.
    Overrun,
}

/// The messages in some bytes, in order. Ends after the first error.
#[derive(Debug, Clone)]
pub struct Messages<'a> {
    bytes: &'a [u8],
    offset: usize,
}

impl<'a> Messages<'a> {
    /// Reads the messages that fill `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, offset: 0 }
    }

    fn read(&mut self) -> Result<Option<Message<'a>>> {
        let offset = self.offset;
        let malformed = |what| Error::Malformed { what, offset };
        let rest = self.bytes.get(offset..).unwrap_or_default();
        let head: &[u8; HEADER] = rest.first_chunk().ok_or_else(|| malformed("message header cut off"))?;
        let (length, header) = read_header(head);
        let body = rest.get(HEADER..length).ok_or_else(|| malformed("message length out of bounds"))?;
        self.offset += length.next_multiple_of(4);
        interpret(header, body)
    }
}

impl<'a> Iterator for Messages<'a> {
    type Item = Result<Message<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.offset < self.bytes.len() {
            match self.read() {
                Ok(None) => {}
                Ok(Some(message)) => return Some(Ok(message)),
                Err(error) => {
                    self.offset = self.bytes.len();
                    return Some(Err(error));
                }
            }
        }
        None
    }
}

fn read_header(head: &[u8; HEADER]) -> (usize, Header) {
    let word = |at: usize| u32::from_ne_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let half = |at: usize| u16::from_ne_bytes([head[at], head[at + 1]]);
    let header = Header { kind: half(4), flags: half(6), sequence: word(8), port: word(12) };
    (usize::try_from(word(0)).unwrap_or(usize::MAX), header)
}

fn interpret(header: Header, body: &[u8]) -> Result<Option<Message<'_>>> {
    Ok(Some(match header.kind {
        NOOP => return Ok(None),
        OVERRUN => Message::Overrun,
        DONE => Message::Done(header, done_errno(body)),
        ERROR => match error_number(body)? {
            0 => Message::Ack(header),
            number => Message::Refused(header, refusal(header, Errno(number.saturating_neg()), body)?),
        },
        _ => Message::Data(header, body),
    }))
}

/// The end of a listing carries an error number where the kernel gave up in the middle.
fn done_errno(body: &[u8]) -> Option<Errno> {
    match error_number(body) {
        Ok(number) if number < 0 => Some(Errno(number.saturating_neg())),
        _ => None,
    }
}

fn error_number(body: &[u8]) -> Result<i32> {
    let number = body.first_chunk().ok_or(Error::Malformed { what: "error number cut off", offset: 0 })?;
    Ok(i32::from_ne_bytes(*number))
}

fn refusal(header: Header, errno: Errno, body: &[u8]) -> Result<Refusal> {
    let mut refusal = Refusal { errno, text: None, offset: None };
    if header.flags & flags::ACK_ATTRIBUTES == 0 {
        return Ok(refusal);
    }
    for reason in Attributes::new(reasons(header, body)?) {
        let reason = reason?;
        match reason.kind {
            REASON_TEXT => refusal.text = Some(reason.text()),
            REASON_OFFSET => refusal.offset = Some(reason.u32()?),
            _ => {}
        }
    }
    Ok(refusal)
}

/// The reasons stand behind the quoted request, which is its header alone if it was capped.
fn reasons(header: Header, body: &[u8]) -> Result<&[u8]> {
    let malformed = Error::Malformed { what: "quoted request cut off", offset: 4 };
    let quoted: &[u8; HEADER] = body.get(4..).and_then(<[u8]>::first_chunk).ok_or(malformed.clone())?;
    let quoted_length = match header.flags & flags::CAPPED {
        0 => read_header(quoted).0.max(HEADER).next_multiple_of(4),
        _ => HEADER,
    };
    body.get(4usize.saturating_add(quoted_length)..).ok_or(malformed)
}

/// Builds requests, one behind the other, in one buffer.
#[derive(Debug, Default, Clone)]
pub struct MessageWriter {
    bytes: Vec<u8>,
}

impl MessageWriter {
    /// A writer with room for so many bytes.
    pub fn with_capacity(bytes: usize) -> Self {
        Self { bytes: Vec::with_capacity(bytes) }
    }

    /// Everything written so far.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// How many bytes were written so far.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether nothing was written yet.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Writes one message; `body` writes what follows its header.
    ///
    /// # Panics
    /// If the message reaches 4 GiB.
    pub fn message(&mut self, header: Header, body: impl FnOnce(&mut Self)) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 4]);
        self.bytes.extend_from_slice(&header.kind.to_ne_bytes());
        self.bytes.extend_from_slice(&header.flags.to_ne_bytes());
        self.bytes.extend_from_slice(&header.sequence.to_ne_bytes());
        self.bytes.extend_from_slice(&header.port.to_ne_bytes());
        body(self);
        let length = u32::try_from(self.bytes.len() - start).expect("a message is shorter than 4 GiB");
        self.bytes[start..start + 4].copy_from_slice(&length.to_ne_bytes());
        self.pad();
    }

    /// Adds flags to the message that begins at byte `start`.
    pub fn add_flags(&mut self, start: usize, flags: u16) {
        if let Some([low, high]) = self.bytes.get_mut(start + 6..start + 8) {
            [*low, *high] = (u16::from_ne_bytes([*low, *high]) | flags).to_ne_bytes();
        }
    }

    /// Writes bytes as they are: the fixed part of a message, before its attributes.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Writes an attribute of plain bytes.
    pub fn attribute(&mut self, kind: u16, value: &[u8]) {
        let start = self.open(kind);
        self.bytes.extend_from_slice(value);
        self.close(start);
    }

    /// Writes a 32-bit number in network byte order.
    pub fn u32_be(&mut self, kind: u16, value: u32) {
        self.attribute(kind, &value.to_be_bytes());
    }

    /// Writes a 64-bit number in network byte order.
    pub fn u64_be(&mut self, kind: u16, value: u64) {
        self.attribute(kind, &value.to_be_bytes());
    }

    /// Writes a text with its closing zero.
    pub fn text(&mut self, kind: u16, value: &str) {
        let start = self.open(kind);
        self.bytes.extend_from_slice(value.as_bytes());
        self.bytes.push(0);
        self.close(start);
    }

    /// Writes an attribute that holds attributes.
    pub fn nested(&mut self, kind: u16, inside: impl FnOnce(&mut Self)) {
        let start = self.open(kind | 0x8000);
        inside(self);
        self.close(start);
    }

    fn open(&mut self, kind: u16) -> usize {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 2]);
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        start
    }

    /// Fills in the length. Whoever nests without bound must split before 64 KiB; the assertion says so.
    fn close(&mut self, start: usize) {
        let length = u16::try_from(self.bytes.len() - start).expect("an attribute is shorter than 64 KiB");
        self.bytes[start..start + 2].copy_from_slice(&length.to_ne_bytes());
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: Header = Header { kind: 16, flags: flags::REQUEST, sequence: 7, port: 0 };

    #[test]
    fn what_is_written_is_read_back() {
        let mut writer = MessageWriter::default();
        writer.message(HEAD, |m| {
            m.text(1, "abc");
            m.nested(2, |m| m.u32_be(1, 9));
        });
        writer.message(HEAD, |_| ());
        let messages: Vec<_> = Messages::new(writer.bytes()).map(Result::unwrap).collect();
        let [Message::Data(head, body), Message::Data(_, [])] = &messages[..] else { panic!("{messages:?}") };
        assert_eq!(*head, HEAD);
        let attributes: Vec<_> = Attributes::new(body).map(Result::unwrap).collect();
        assert_eq!(attributes[0].text(), "abc");
        assert_eq!(attributes[1].nested().next().unwrap().unwrap().u32_be(), Ok(9));
    }

    #[test]
    fn a_refusal_carries_the_kernels_sentence() {
        let mut writer = MessageWriter::default();
        let flags = flags::CAPPED | flags::ACK_ATTRIBUTES;
        writer.message(Header { kind: ERROR, flags, ..HEAD }, |m| {
            m.raw(&(-libc::ENOENT).to_ne_bytes());
            m.raw(&[0; 16]);
            m.text(REASON_TEXT, "no such thing");
            m.attribute(REASON_OFFSET, &20u32.to_ne_bytes());
        });
        let message = Messages::new(writer.bytes()).next().unwrap().unwrap();
        let Message::Refused(_, refusal) = message else { panic!("{message:?}") };
        assert_eq!(refusal.errno, Errno(libc::ENOENT));
        assert_eq!(refusal.text.as_deref(), Some("no such thing"));
        assert_eq!(refusal.offset, Some(20));
    }

    #[test]
    fn a_length_beyond_the_bytes_is_an_error() {
        let mut bytes = vec![0; 16];
        bytes[0] = 17;
        assert!(matches!(Messages::new(&bytes).next(), Some(Err(Error::Malformed { .. }))));
        bytes[0] = 3;
        assert!(matches!(Messages::new(&bytes).next(), Some(Err(Error::Malformed { .. }))));
    }
}
