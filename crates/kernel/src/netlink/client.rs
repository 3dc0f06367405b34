//! A connection to one subsystem: how it is asked, whatever it is.
//!
//! In: requests, each the number of its kind and a writer of its body. Out: what the answers say, or the refusals, each with its
//! request. The subsystem itself gives no more than those numbers, bytes and decoders, and its words for an [`Error`].
//!
//! The kernel carries out the requests of one datagram in their order and goes on after one that it refuses. It answers refusals
//! always and success only when asked to, so only the last of a batch asks: when that is answered, so are all before it.

use std::fmt;
use std::time::Duration;

use super::{
    Attributes, Errno, Error, Header, Message, MessageWriter, Messages, Refusal, Result, Socket, Subsystem,
    flags,
};

/// How often a listing is begun anew when others write meanwhile.
const LIST_ATTEMPTS: u32 = 20;
/// The kernel answers a request before `send` returns; this is for a kernel that does not.
const ANSWER_LIMIT: Duration = Duration::from_secs(20);
/// How many requests are made by one system call. If all are refused, the refusals must fit into the socket's buffer.
const BATCH: usize = 256;
/// Room for as many refusals, with all that the kernel counts beside their bytes.
const RECEIVE_BUFFER: usize = 1 << 20;

/// The controller of generic netlink, which knows the numbers of all families.
mod controller {
    pub(super) const KIND: u16 = 16;
    /// The command, its version, and two bytes that are not used.
    pub(super) const GET_FAMILY: [u8; FIXED] = [3, 1, 0, 0];
    pub(super) const FIXED: usize = 4;
    pub(super) const FAMILY_ID: u16 = 1;
    pub(super) const FAMILY_NAME: u16 = 2;
}

/// A connection to one subsystem.
#[derive(Debug)]
pub struct Client {
    socket: Socket,
    requests: u64,
    has_room: bool,
}

/// A request that the kernel refused. The others are done all the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused<R> {
    /// Which one of those that were given.
    pub at: usize,
    /// The request.
    pub request: R,
    /// What the kernel said.
    pub refusal: Refusal,
}

impl Client {
    /// Opens the connection, in this thread's network namespace. Needs no privilege; what is asked through it may.
    pub fn open(subsystem: Subsystem) -> Result<Self> {
        Ok(Self { socket: Socket::open(subsystem)?, requests: 0, has_room: false })
    }

    /// How many requests were made so far.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// The port that the kernel gave this connection; it marks our own changes in notifications.
    pub fn port(&self) -> u32 {
        self.socket.port()
    }

    /// The socket, for requests of another form.
    pub(crate) fn socket(&mut self) -> &mut Socket {
        &mut self.socket
    }

    /// The number of a family of generic netlink, as long as its module is loaded. `ENOENT` if there is no such family.
    pub fn family(&mut self, name: &str) -> Result<u16> {
        let request = |m: &mut MessageWriter| {
            m.raw(&controller::GET_FAMILY);
            m.text(controller::FAMILY_NAME, name);
        };
        self.ask(format_args!("name the family {name}"), controller::KIND, request, family_id)
    }

    /// Lists: sends `request` with the listing flags and decodes each answer with `decode`, which gives
    /// `None` for what does not interest. Begins anew when others write meanwhile.
    pub fn list<T>(
        &mut self,
        what: &'static str,
        kind: u16,
        request: impl Fn(&mut MessageWriter),
        mut decode: impl FnMut(Header, &[u8]) -> Result<Option<T>>,
    ) -> Result<Vec<T>> {
        for _ in 0..LIST_ATTEMPTS {
            let (mut found, mut interrupted) = (Vec::new(), false);
            let is_whole = self.list_once(what, kind, &request, &mut |head, body| {
                interrupted |= head.flags & flags::DUMP_INTERRUPTED != 0;
                if !interrupted {
                    found.extend(decode(head, body)?);
                }
                Ok(())
            })?;
            if is_whole {
                return Ok(found);
            }
        }
        Err(Error::Interrupted { what, attempts: LIST_ATTEMPTS })
    }

    /// Lists without keeping anything: `visit` gets each answer as it comes. When others write meanwhile, the listing is
    /// begun anew, so what `visit` sees twice must do no harm.
    pub fn visit(
        &mut self,
        what: &'static str,
        kind: u16,
        request: impl Fn(&mut MessageWriter),
        mut visit: impl FnMut(Header, &[u8]) -> Result<()>,
    ) -> Result<()> {
        for _ in 0..LIST_ATTEMPTS {
            if self.list_once(what, kind, &request, &mut visit)? {
                return Ok(());
            }
        }
        Err(Error::Interrupted { what, attempts: LIST_ATTEMPTS })
    }

    /// Makes one request that is answered with data, which `decode` reads.
    pub fn ask<T>(
        &mut self,
        action: impl fmt::Display,
        kind: u16,
        body: impl FnOnce(&mut MessageWriter),
        mut decode: impl FnMut(&[u8]) -> Result<T>,
    ) -> Result<T> {
        let sequence = self.send(kind, flags::ACK, body)?;
        let mut answer = None;
        self.hear(|message| match message {
            Message::Data(head, body) if head.sequence == sequence => {
                answer = Some(decode(body));
                Ok(None)
            }
            Message::Ack(head) if head.sequence == sequence => {
                let missing = Error::Malformed { what: "answer without data", offset: 0 };
                answer.take().unwrap_or(Err(missing)).map(Some)
            }
            Message::Refused(head, refusal) if head.sequence == sequence => {
                Err(Error::Refused { action: action.to_string(), refusal })
            }
            _ => Ok(None),
        })
    }

    /// Makes one request; a refusal is an error.
    pub fn run_one(
        &mut self,
        action: impl fmt::Display,
        (kind, own): (u16, u16),
        body: impl FnOnce(&mut MessageWriter),
    ) -> Result<()> {
        let sequence = self.send(kind, own | flags::ACK, body)?;
        self.hear(|message| match message {
            Message::Ack(head) if head.sequence == sequence => Ok(Some(())),
            Message::Refused(head, refusal) if head.sequence == sequence => {
                Err(Error::Refused { action: action.to_string(), refusal })
            }
            _ => Ok(None),
        })
    }

    /// Makes these requests. `head` gives the kind of one and the flags that it needs beside the usual ones. Returns those that
    /// were refused; all others are done. On an error some of them may be.
    pub fn run<R: Clone>(
        &mut self,
        requests: &[R],
        head: impl Fn(&R) -> (u16, u16),
        body: impl Fn(&mut MessageWriter, &R),
    ) -> Result<Vec<Refused<R>>> {
        if !self.has_room && requests.len() > 1 {
            self.socket.set_receive_buffer(RECEIVE_BUFFER)?;
            self.has_room = true;
        }
        let mut refused = Vec::new();
        for (number, batch) in requests.chunks(BATCH).enumerate() {
            let sequences = self.send_batch(batch, &head, &body)?;
            self.hear_batch(&sequences, |at, refusal| {
                refused.push(Refused { at: number * BATCH + at, request: batch[at].clone(), refusal });
            })?;
        }
        Ok(refused)
    }

    /// One listing, heard to its end, also when `visit` fails half way: until then the kernel takes no other one through this
    /// socket. False if it was interrupted.
    fn list_once(
        &mut self,
        what: &'static str,
        kind: u16,
        request: impl Fn(&mut MessageWriter),
        visit: &mut impl FnMut(Header, &[u8]) -> Result<()>,
    ) -> Result<bool> {
        let sequence = self.send(kind, flags::DUMP, request)?;
        let (mut result, mut interrupted) = (Ok(()), false);
        self.hear(|message| match message {
            Message::Data(head, body) if head.sequence == sequence => {
                interrupted |= head.flags & flags::DUMP_INTERRUPTED != 0;
                if result.is_ok() {
                    result = visit(head, body);
                }
                Ok(None)
            }
            Message::Done(head, errno) if head.sequence == sequence => {
                interrupted |= head.flags & flags::DUMP_INTERRUPTED != 0;
                match errno {
                    None => result.clone().map(|()| Some(!interrupted)),
                    Some(Errno(libc::EINTR)) => result.clone().map(|()| Some(false)),
                    Some(errno) => Err(Error::System { action: what, errno }),
                }
            }
            Message::Refused(head, refusal) if head.sequence == sequence => {
                Err(Error::Refused { action: format!("list {what}"), refusal })
            }
            _ => Ok(None),
        })
    }

    /// Sends one request; returns the number by which it will be answered.
    fn send(&mut self, kind: u16, own: u16, body: impl FnOnce(&mut MessageWriter)) -> Result<u32> {
        let (sequence, mut writer) = (self.socket.next_sequence(), MessageWriter::default());
        writer.message(Header { kind, flags: flags::REQUEST | own, sequence, port: 0 }, body);
        self.socket.send(writer.bytes())?;
        self.requests += 1;
        Ok(sequence)
    }

    /// Returns the numbers by which they will be answered.
    fn send_batch<R>(
        &mut self,
        batch: &[R],
        head: impl Fn(&R) -> (u16, u16),
        body: impl Fn(&mut MessageWriter, &R),
    ) -> Result<Vec<u32>> {
        let (mut writer, mut sequences) = (MessageWriter::default(), Vec::with_capacity(batch.len()));
        for (at, request) in batch.iter().enumerate() {
            let ((kind, own), sequence) = (head(request), self.socket.next_sequence());
            let last = if at + 1 == batch.len() { flags::ACK } else { 0 };
            let flags = flags::REQUEST | own | last;
            writer.message(Header { kind, flags, sequence, port: 0 }, |m| body(m, request));
            sequences.push(sequence);
        }
        self.socket.send(writer.bytes())?;
        self.requests += u64::try_from(batch.len()).unwrap_or(u64::MAX);
        Ok(sequences)
    }

    /// Hears until the last of these is answered.
    fn hear_batch(&mut self, sequences: &[u32], mut refused: impl FnMut(usize, Refusal)) -> Result<()> {
        let last = sequences.last().copied();
        self.hear(|message| {
            let answered = match message {
                Message::Ack(head) => head.sequence,
                Message::Refused(head, refusal) => {
                    if let Some(at) = sequences.iter().position(|sequence| *sequence == head.sequence) {
                        refused(at, refusal);
                    }
                    head.sequence
                }
                _ => return Ok(None),
            };
            Ok((Some(answered) == last).then_some(()))
        })
    }

    /// Hears messages until `take` has what it waits for. It passes over what is left from an earlier request that was given up.
    fn hear<T>(&mut self, mut take: impl FnMut(Message<'_>) -> Result<Option<T>>) -> Result<T> {
        loop {
            for message in Messages::new(self.socket.receive(ANSWER_LIMIT)?.ok_or_else(silent)?) {
                match message? {
                    Message::Overrun => return Err(Error::Lost),
                    message => {
                        if let Some(answer) = take(message)? {
                            return Ok(answer);
                        }
                    }
                }
            }
        }
    }
}

/// The kernel has not answered within the limit.
fn silent() -> Error {
    Error::Silent { milliseconds: ANSWER_LIMIT.as_millis() }
}

/// The number of a family, out of the controller's answer.
pub(crate) fn family_id(body: &[u8]) -> Result<u16> {
    let missing = Error::Malformed { what: "family without a number", offset: 0 };
    for attribute in Attributes::new(body.get(controller::FIXED..).unwrap_or_default()) {
        let attribute = attribute?;
        if attribute.kind == controller::FAMILY_ID {
            return attribute.u16();
        }
    }
    Err(missing)
}
