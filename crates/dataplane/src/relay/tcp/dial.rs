//! Dials endpoints until one answers.

use std::io;
use std::net::TcpStream;
use std::os::fd::AsFd as _;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use kernel::poll::{Event, Interest};
use kernel::socket;

use super::Tcp;
use super::connection::{Connection, Dialling, Stage};
use crate::relay::choose::{Chosen, Tried};
use crate::relay::options::Trouble;
use crate::relay::worker::{Due, Slot, Timers, Token};

impl Tcp {
    /// Dials the next endpoint; resets the client when there is none left to try.
    pub(super) fn dial(&mut self, slot: Slot, now: Instant, timers: &mut Timers) {
        while let Some((number, chosen)) = self.next_endpoint(slot, now) {
            match self.begin(slot, &chosen) {
                Ok(stream) => {
                    let timeout = self.shared.options.dial_timeouts[number];
                    return self.wait_for(slot, stream, chosen, now + timeout, timers);
                }
                Err(error) if Trouble::of(&error, 0).is_some() => return self.refuse(slot, &error, now),
                Err(error) => self.note_failure(slot, &chosen, Failure::of(&error), now),
            }
        }
        self.give_up(slot);
    }

    /// Which endpoint to dial now, and the number of the try.
    fn next_endpoint(&mut self, slot: Slot, now: Instant) -> Option<(usize, Chosen)> {
        let connection = self.connections.get_mut(slot)?;
        let Stage::Dialling(dialling) = &connection.stage else { return None };
        let number = dialling.tried.len();
        if number >= self.shared.options.dial_timeouts.len() {
            return None;
        }
        let chosen = connection.listener.choice().choose(now, connection.client_address, &dialling.tried)?;
        if number > 0 {
            chosen.tally.retried();
            connection.listener.tally.retried();
        }
        Some((number, chosen))
    }

    fn begin(&self, slot: Slot, chosen: &Chosen) -> io::Result<TcpStream> {
        let stream = socket::dial_tcp(chosen.address)?;
        let poll = &self.shared.mailboxes[self.worker].poll;
        poll.add(stream.as_fd(), Token::Endpoint(slot).number(), Interest::Duplex)?;
        Ok(stream)
    }

    fn wait_for(
        &mut self,
        slot: Slot,
        stream: TcpStream,
        chosen: Chosen,
        deadline: Instant,
        timers: &mut Timers,
    ) {
        if let Some(Connection { stage: Stage::Dialling(dialling), .. }) = self.connections.get_mut(slot) {
            dialling.current = Some((stream, chosen));
            dialling.deadline = deadline;
            timers.add(deadline, Due::Dial(slot));
        }
    }

    /// Something happened at the socket of a dial.
    pub(super) fn dial_event(&mut self, slot: Slot, event: Event, now: Instant, timers: &mut Timers) {
        let Some(connection) = self.connections.get_mut(slot) else { return };
        let Stage::Dialling(dialling) = &mut connection.stage else { return };
        if event.is_failed() {
            let error = dialling.current.as_ref().and_then(|(stream, _)| stream.take_error().ok().flatten());
            let failure = error.map_or(Failure::Refused, |error| Failure::of(&error));
            self.dial_failed(slot, failure, now, timers);
        } else if event.is_writable()
            && let Some((endpoint, chosen)) = dialling.current.take()
        {
            connection.listener.choice().succeeded(chosen.address);
            chosen.tally.opened();
            connection.listener.tally.opened();
            connection.stage = Stage::Open { endpoint, chosen };
            connection.note_endpoint(event);
            self.turn(slot);
        }
    }

    /// The time of a dial has come: it failed, unless it has ended before.
    pub(in crate::relay) fn dial_due(&mut self, slot: Slot, now: Instant, timers: &mut Timers) {
        let Some(connection) = self.connections.get_mut(slot) else { return };
        if matches!(&connection.stage, Stage::Dialling(dialling) if dialling.deadline <= now) {
            self.dial_failed(slot, Failure::Silent, now, timers);
        }
    }

    fn dial_failed(&mut self, slot: Slot, failure: Failure, now: Instant, timers: &mut Timers) {
        let Some(Connection { stage: Stage::Dialling(dialling), .. }) = self.connections.get_mut(slot) else {
            return;
        };
        // The socket is closed here, before the next is opened.
        let Some((_, chosen)) = dialling.current.take() else { return };
        self.note_failure(slot, &chosen, failure, now);
        self.dial(slot, now, timers);
    }

    fn note_failure(&mut self, slot: Slot, chosen: &Chosen, failure: Failure, now: Instant) {
        let Some(connection) = self.connections.get_mut(slot) else { return };
        chosen.tally.dial_failed();
        connection.listener.tally.dial_failed();
        if failure != Failure::Ours {
            connection.listener.choice().failed(now, connection.client_address, chosen.address);
        }
        if let Stage::Dialling(dialling) = &mut connection.stage {
            let Dialling { tried, .. } = &mut **dialling;
            tried.push(Tried { address: chosen.address, was_silent: failure == Failure::Silent });
        }
    }

    fn give_up(&mut self, slot: Slot) {
        if let Some(connection) = self.connections.get_mut(slot) {
            connection.listener.failed.fetch_add(1, Relaxed);
            self.abort(slot);
        }
    }
}

/// Why a dial failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failure {
    /// The endpoint, or the way to it, says no.
    Refused,
    /// Nothing was heard in time.
    Silent,
    /// It has to do with this node alone, such as that all local ports to that endpoint are in use.
    Ours,
}

impl Failure {
    fn of(error: &io::Error) -> Self {
        match error.raw_os_error() {
            Some(libc::EADDRNOTAVAIL | libc::EAGAIN) => Failure::Ours,
            Some(libc::ETIMEDOUT) => Failure::Silent,
            _ => Failure::Refused,
        }
    }
}
