//! Single requests: many in one system call, or one that is answered with data.
//!
//! In: requests, each a head and a body. Out: the refusals, by the place of their request; or what an answer says.
//!
//! The kernel carries out the requests of one datagram in their order and goes on after one that it refuses. It answers refusals
//! always and success only when asked to, so only the last of a batch asks: when that is answered, so are all before it.

use super::socket::ANSWER_LIMIT;
use super::{Error, Header, Message, MessageWriter, Messages, Refusal, Result, Socket, flags};

/// How many requests are made by one system call. If all are refused, the refusals must fit into the socket's buffer.
const BATCH: usize = 256;
/// Room for as many refusals, with all that the kernel counts beside their bytes.
const RECEIVE_BUFFER: usize = 1 << 20;

impl Socket {
    /// Makes room for the refusals of a whole batch.
    pub fn expect_batches(&self) -> Result<()> {
        self.set_receive_buffer(RECEIVE_BUFFER)
    }

    /// Makes these requests. `head` gives the kind of one and the flags that it needs beside the usual ones. Returns the
    /// refusals, each with the place of its request; all others are done. On an error some of them may be.
    pub fn run_all<T>(
        &mut self,
        requests: &[T],
        head: impl Fn(&T) -> (u16, u16),
        body: impl Fn(&mut MessageWriter, &T),
    ) -> Result<Vec<(usize, Refusal)>> {
        let mut refusals = Vec::new();
        for (number, batch) in requests.chunks(BATCH).enumerate() {
            let sequences = self.send_batch(batch, &head, &body)?;
            self.hear_batch(&sequences, |at, refusal| refusals.push((number * BATCH + at, refusal)))?;
        }
        Ok(refusals)
    }

    /// Makes one request that is answered with data, which `decode` reads.
    pub fn ask<T>(
        &mut self,
        action: &str,
        kind: u16,
        body: impl FnOnce(&mut MessageWriter),
        mut decode: impl FnMut(&[u8]) -> Result<T>,
    ) -> Result<T> {
        let (sequence, mut writer) = (self.next_sequence(), MessageWriter::default());
        writer.message(Header { kind, flags: flags::REQUEST | flags::ACK, sequence, port: 0 }, body);
        self.send(writer.bytes())?;
        let mut answer = None;
        loop {
            for message in Messages::new(self.hear()?) {
                match message? {
                    Message::Data(head, body) if head.sequence == sequence => answer = Some(decode(body)),
                    Message::Ack(head) if head.sequence == sequence => {
                        let missing = Error::Malformed { what: "answer without data", offset: 0 };
                        return answer.unwrap_or(Err(missing));
                    }
                    Message::Refused(head, refusal) if head.sequence == sequence => {
                        return Err(Error::Refused { action: action.to_owned(), refusal });
                    }
                    Message::Overrun => return Err(Error::Lost),
                    // Left over from an earlier request that was given up.
                    _ => {}
                }
            }
        }
    }

    /// Returns the numbers by which they will be answered.
    fn send_batch<T>(
        &mut self,
        batch: &[T],
        head: impl Fn(&T) -> (u16, u16),
        body: impl Fn(&mut MessageWriter, &T),
    ) -> Result<Vec<u32>> {
        let (mut writer, mut sequences) = (MessageWriter::default(), Vec::with_capacity(batch.len()));
        for (at, request) in batch.iter().enumerate() {
            let ((kind, own), sequence) = (head(request), self.next_sequence());
            let last = if at + 1 == batch.len() { flags::ACK } else { 0 };
            let flags = flags::REQUEST | own | last;
            writer.message(Header { kind, flags, sequence, port: 0 }, |m| body(m, request));
            sequences.push(sequence);
        }
        self.send(writer.bytes())?;
        Ok(sequences)
    }

    /// Hears until the last of these is answered.
    fn hear_batch(&mut self, sequences: &[u32], mut refused: impl FnMut(usize, Refusal)) -> Result<()> {
        let last = sequences.last().copied();
        loop {
            for message in Messages::new(self.hear()?) {
                let answered = match message? {
                    Message::Ack(head) => head.sequence,
                    Message::Refused(head, refusal) => {
                        let at = sequences.iter().position(|sequence| *sequence == head.sequence);
                        if let Some(at) = at {
                            refused(at, refusal);
                        }
                        head.sequence
                    }
                    Message::Overrun => return Err(Error::Lost),
                    // Left over from an earlier request that was given up.
                    _ => continue,
                };
                if Some(answered) == last {
                    return Ok(());
                }
            }
        }
    }

    fn hear(&mut self) -> Result<&[u8]> {
        let silent = Error::Silent { milliseconds: ANSWER_LIMIT.as_millis() };
        self.receive(ANSWER_LIMIT)?.ok_or(silent)
    }
}
