//! Answers on their way to clients, sent many at a time.

use std::net::SocketAddr;
use std::ops::Range;
use std::os::fd::BorrowedFd;

use kernel::socket::{BATCH, Inbox, Local, Outgoing};

use super::burst;

/// Answers of one listener.
#[derive(Debug, Default)]
pub(super) struct Answers {
    bytes: Vec<u8>,
    list: Vec<Answer>,
}

#[derive(Debug)]
struct Answer {
    to: SocketAddr,
    from: Option<Local>,
    place: Range<usize>,
    segment: u16,
}

impl Answers {
    /// Adds what has arrived for a client; as few answers as can be.
    pub(super) fn push(&mut self, to: SocketAddr, from: Option<Local>, inbox: &Inbox, count: usize) {
        let mut i = 0;
        while i < count {
            let together = burst::count((i..count).map(|i| inbox.get(i).bytes.len()));
            let start = self.bytes.len();
            for i in i..i + together {
                self.bytes.extend_from_slice(inbox.get(i).bytes);
            }
            let segment = if together > 1 { inbox.get(i).bytes.len() } else { 0 };
            let segment = u16::try_from(segment).unwrap_or(0);
            self.list.push(Answer { to, from, place: start..self.bytes.len(), segment });
            i += together;
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Are there as many as one call sends?
    pub(super) fn is_full(&self) -> bool {
        self.list.len() >= BATCH
    }

    /// Sends them. What the kernel has no room for is lost, as on any link that is full.
    pub(super) fn send(&mut self, socket: BorrowedFd<'_>) {
        let all: Vec<Outgoing<'_>> = self
            .list
            .iter()
            .map(|answer| Outgoing {
                to: Some(answer.to),
                from: answer.from,
                bytes: &self.bytes[answer.place.clone()],
                segment: answer.segment,
            })
            .collect();
        let _lost = burst::send_all(socket, &all);
        self.list.clear();
        self.bytes.clear();
    }
}
