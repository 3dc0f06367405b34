//! Accepts connections, gives each to the worker with least to do, and pauses where there is no room.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use kernel::poll::Interest;
use kernel::socket;

use super::Tcp;
use super::connection::{Connection, Dialling, Stage};
use super::direction::Direction;
use crate::relay::listener::{Open, Socket};
use crate::relay::options::Trouble;
use crate::relay::worker::{Arrival, Due, Letter, Slot, Timers, Token};

/// So many connections are accepted before others have their turn.
const ACCEPTED_AT_ONCE: usize = 32;
/// Where there was no room it is looked for again after this time; sooner when a connection of this worker ends.
const PAUSE: Duration = Duration::from_millis(100);
/// A worker keeps what it accepts unless it has more connections than another by more than this part.
const SLACK_PART: usize = 16;

impl Tcp {
    /// Connections wait to be accepted.
    pub(in crate::relay) fn accept(&mut self, listener: &Arc<Open>, now: Instant, timers: &mut Timers) {
        let mut arrivals = std::mem::take(&mut self.arrivals);
        let trouble = self.take_waiting(listener, &mut arrivals);
        if let Some(trouble) = trouble {
            self.shared.tell(now, &trouble);
            timers.add(now + PAUSE, Due::Resume);
        }
        // Only now that the listener's socket is not borrowed any more: ending a connection may borrow it again.
        arrivals.drain(..).for_each(|arrival| self.assign(arrival, now, timers));
        self.arrivals = arrivals;
    }

    /// Takes what waits, some at a time. Where there is no room nothing is accepted for a moment, and why is returned: those
    /// that come wait in the listener's queue.
    fn take_waiting(&mut self, listener: &Arc<Open>, arrivals: &mut Vec<Arrival>) -> Option<Trouble> {
        let guard = listener.socket();
        let Some(Socket::Tcp(socket)) = guard.as_ref() else { return None };
        let limit = self.shared.files.limit();
        for _ in 0..ACCEPTED_AT_ONCE {
            let Some(files) = self.shared.files.take(2) else {
                self.pause(listener, socket);
                return Some(Trouble::TooManyFiles { limit });
            };
            match socket::accept(socket) {
                Ok((stream, from)) => {
                    arrivals.push(Arrival { stream, from, listener: Arc::clone(listener), files });
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
                Err(error) => {
                    if let Some(trouble) = Trouble::of(&error, limit) {
                        self.pause(listener, socket);
                        return Some(trouble);
                    }
                    // One that went away while it waited. The next may be fine.
                }
            }
        }
        None
    }

    fn pause(&mut self, listener: &Arc<Open>, socket: &TcpListener) {
        if self.shared.mailboxes[self.worker].poll.remove(socket.as_fd()).is_ok() {
            listener.pauses.fetch_add(1, Relaxed);
            self.paused.push(Arc::clone(listener));
        }
    }

    /// Carries it here, or has a worker carry it that has less to do.
    fn assign(&mut self, arrival: Arrival, now: Instant, timers: &mut Timers) {
        let load = |worker: usize| self.shared.mailboxes[worker].connections.load(Relaxed);
        let mine = load(self.worker);
        let idlest =
            (0..self.shared.mailboxes.len()).min_by_key(|worker| load(*worker)).unwrap_or(self.worker);
        if mine > load(idlest) + mine / SLACK_PART {
            self.shared.mailboxes[idlest].connections.fetch_add(1, Relaxed);
            self.shared.mailboxes[idlest].send(Letter::Carry(arrival));
        } else {
            self.shared.mailboxes[self.worker].connections.fetch_add(1, Relaxed);
            self.carry(arrival, now, timers);
        }
    }

    /// Begins to carry a connection; it is part of this worker's load already.
    pub(in crate::relay) fn carry(&mut self, arrival: Arrival, now: Instant, timers: &mut Timers) {
        let Arrival { stream, from, listener, files } = arrival;
        let dialling = Dialling { current: None, deadline: now, tried: Vec::new() };
        let is_late = self.shared.is_ending.load(Relaxed);
        self.shared.mailboxes[self.worker].late.fetch_add(usize::from(is_late), Relaxed);
        let connection = Connection {
            listener,
            client: stream,
            client_address: SocketAddr::ip(&from),
            stage: Stage::Dialling(Box::new(dialling)),
            inward: Direction::default(),
            outward: Direction::default(),
            _files: files,
            is_late,
        };
        let slot = self.connections.insert(connection);
        let Some(connection) = self.connections.get_mut(slot) else { return };
        let token = Token::Client(slot).number();
        let poll = &self.shared.mailboxes[self.worker].poll;
        match poll.add(TcpStream::as_fd(&connection.client), token, Interest::Duplex) {
            Ok(()) => self.dial(slot, now, timers),
            Err(error) => self.refuse(slot, &error, now),
        }
    }

    /// Resets a connection that there is no room for.
    pub(super) fn refuse(&mut self, slot: Slot, error: &io::Error, now: Instant) {
        if let Some(connection) = self.connections.get_mut(slot) {
            connection.listener.refused.fetch_add(1, Relaxed);
        }
        if let Some(trouble) = Trouble::of(error, self.shared.files.limit()) {
            self.shared.tell(now, &trouble);
        }
        self.abort(slot);
    }

    /// Accepts again, if there is room.
    pub(in crate::relay) fn resume_after_pause(&mut self, now: Instant, timers: &mut Timers) {
        self.resume();
        if !self.paused.is_empty() {
            timers.add(now + PAUSE, Due::Resume);
        }
    }

    pub(super) fn resume(&mut self) {
        if !self.shared.files.has_room() {
            return;
        }
        let poll = &self.shared.mailboxes[self.worker].poll;
        self.paused.retain(|listener| {
            let socket = listener.socket();
            let Some(socket) = socket.as_ref() else { return false };
            poll.add(socket.as_fd(), Token::Listener(listener.key).number(), Interest::Shared).is_err()
        });
    }
}
