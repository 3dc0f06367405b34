//! Requests about single entries: many in one system call, each with an answer of its own.
//!
//! In: entries. Out: how many of them it worked for, or the first reason why it did not.

use std::collections::BTreeSet;
use std::time::Duration;

use super::error::Result;
use super::{Entry, wire};
use crate::netlink::{Errno, Error, Header, Message, MessageWriter, Messages, Refusal, Socket, flags};

/// How many requests are made by one system call. All answers must fit into the socket's buffer, of which even the default
/// size holds some hundred.
pub(super) const BATCH: usize = 64;
/// The kernel answers a request before `send` returns; this is for a kernel that does not.
const ANSWER_LIMIT: Duration = Duration::from_secs(20);

/// Deletes at most [`BATCH`] entries; says how many were there still. That one is not is no error: it ended by itself, or
/// somebody else was quicker.
pub(super) fn delete(socket: &mut Socket, entries: &[Entry]) -> Result<u64> {
    let waiting = send(socket, (wire::kind::DELETE, 0), entries, wire::name)?;
    let refusals =
        hear(socket, waiting, "delete a connection", |refusal| refusal.errno == Errno(libc::ENOENT))?;
    Ok(u64::try_from(entries.len()).unwrap_or(u64::MAX) - refusals)
}

/// Makes at most [`BATCH`] entries.
pub(super) fn create(socket: &mut Socket, entries: &[Entry], timeout_seconds: u32) -> Result<()> {
    let kind = (wire::kind::NEW, flags::CREATE | flags::EXCL);
    let waiting = send(socket, kind, entries, |m, entry| wire::new(m, entry, timeout_seconds))?;
    hear(socket, waiting, "make a connection", |_| false).map(drop)
}

/// Sends one request for each entry; returns the numbers by which they will be answered.
fn send(
    socket: &mut Socket,
    (kind, flags): (u16, u16),
    entries: &[Entry],
    write: impl Fn(&mut MessageWriter, &Entry),
) -> Result<BTreeSet<u32>> {
    let (mut writer, mut sequences) = (MessageWriter::default(), BTreeSet::new());
    for entry in entries {
        let (flags, sequence) = (flags | flags::REQUEST | flags::ACK, socket.next_sequence());
        writer.message(Header { kind, flags, sequence, port: 0 }, |m| write(m, entry));
        sequences.insert(sequence);
    }
    if !sequences.is_empty() {
        socket.send(writer.bytes())?;
    }
    Ok(sequences)
}

/// Hears the answers to all these requests; counts the refusals that are no error.
fn hear(
    socket: &mut Socket,
    mut waiting: BTreeSet<u32>,
    action: &str,
    is_fine: impl Fn(&Refusal) -> bool,
) -> Result<u64> {
    let mut refusals = 0;
    while !waiting.is_empty() {
        let silent = Error::Silent { milliseconds: ANSWER_LIMIT.as_millis() };
        let bytes = socket.receive(ANSWER_LIMIT)?.ok_or(silent)?;
        for message in Messages::new(bytes) {
            match message? {
                Message::Ack(head) => drop(waiting.remove(&head.sequence)),
                Message::Refused(head, refusal) if waiting.remove(&head.sequence) => {
                    if !is_fine(&refusal) {
                        return Err(Error::Refused { action: action.to_owned(), refusal }.into());
                    }
                    refusals += 1;
                }
                // Left over from an earlier request that was given up.
                _ => {}
            }
        }
    }
    Ok(refusals)
}
