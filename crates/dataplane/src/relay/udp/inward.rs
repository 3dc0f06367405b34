//! Datagrams of clients, on their way to endpoints.

use std::io;
use std::net::UdpSocket;
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use kernel::poll::Interest;
use kernel::socket::{self, Datagram, Inbox, Outgoing};

use super::session::{Line, Pair, Session};
use super::{Clients, Udp, burst};
use crate::relay::choose::{Chosen, Tried};
use crate::relay::listener::Open;
use crate::relay::options::Trouble;
use crate::relay::worker::{Due, Slot, Timers, Token};

/// So many batches are read before others have their turn.
const BATCHES_AT_ONCE: usize = 4;

impl Udp {
    /// Datagrams wait at a listener.
    pub(in crate::relay) fn listener_event(
        &mut self,
        listener: &Arc<Open>,
        now: Instant,
        timers: &mut Timers,
    ) {
        // Taken out while its datagrams are looked at, and the rest of us changes.
        let mut inbox = std::mem::take(&mut self.inbox);
        for _ in 0..BATCHES_AT_ONCE {
            let received = match listener.socket().as_ref() {
                Some(socket) => inbox.receive(socket.as_fd()),
                None => break,
            };
            // An error is about a datagram that we sent before; the next call is about others.
            let Ok(count) = received else { break };
            self.pass_on(listener, &inbox, count, now, timers);
            if count < socket::BATCH {
                break;
            }
        }
        self.inbox = inbox;
    }

    /// Passes a batch on: datagrams of one client that came together go together.
    fn pass_on(
        &mut self,
        listener: &Arc<Open>,
        inbox: &Inbox,
        count: usize,
        now: Instant,
        timers: &mut Timers,
    ) {
        let mut start = 0;
        while start < count {
            let Some(pair) = pair(inbox.get(start)) else {
                start += 1;
                continue;
            };
            let end = (start + 1..count).find(|i| self::pair(inbox.get(*i)) != Some(pair)).unwrap_or(count);
            if let Some(slot) = self.session(listener, pair, inbox.get(start), now, timers) {
                self.send(slot, inbox, start..end, now);
            }
            start = end;
        }
    }

    /// The session of a client, new if need be; `None` where there is no room for one.
    fn session(
        &mut self,
        listener: &Arc<Open>,
        pair: Pair,
        first: Datagram<'_>,
        now: Instant,
        timers: &mut Timers,
    ) -> Option<Slot> {
        let clients =
            self.listeners.entry(listener.key).or_insert_with(|| Clients::new(Arc::clone(listener)));
        if let Some(slot) = clients.slots.get(&pair) {
            return Some(*slot);
        }
        if clients.slots.len() >= self.shared.options.udp_sessions {
            self.evict(listener.key);
        }
        let file = self.shared.files.take(1).or_else(|| {
            self.evict(listener.key);
            self.shared.files.take(1)
        });
        let Some(file) = file else {
            listener.refused.fetch_add(1, Relaxed);
            self.shared.tell(now, &Trouble::TooManyFiles { limit: self.shared.files.limit() });
            return None;
        };
        let session = Session {
            listener: listener.key,
            pair,
            local: first.to,
            line: Line::Down { tried: Vec::new() },
            last_used: now,
            questions: 0,
            answers: 0,
            _file: file,
        };
        listener.tally.opened();
        self.shared.mailboxes[self.worker].sessions.fetch_add(1, Relaxed);
        let slot = self.sessions.insert(session);
        self.expect_end(listener.key, pair, slot, now, timers);
        Some(slot)
    }

    fn send(&mut self, slot: Slot, inbox: &Inbox, which: std::ops::Range<usize>, now: Instant) {
        let Some(session) = self.sessions.get_mut(slot) else { return };
        session.last_used = now;
        session.questions += which.len() as u64;
        for _ in 0..self.shared.options.dial_timeouts.len() {
            if !self.connect(slot, now) {
                return;
            }
            match self.try_send(slot, inbox, which.clone()) {
                Err(error) if is_absence(&error) => self.line_down(slot, now),
                _ => return,
            }
        }
    }

    /// Sees to it that the session has an endpoint.
    fn connect(&mut self, slot: Slot, now: Instant) -> bool {
        let Some(session) = self.sessions.get_mut(slot) else { return false };
        let Line::Down { tried } = &mut session.line else { return true };
        let Some(clients) = self.listeners.get(&session.listener) else { return false };
        let client = session.pair.client.ip();
        let Some(chosen) = clients.listener.choice().choose(now, client, tried) else {
            // All were tried: the next datagram begins anew.
            tried.clear();
            return false;
        };
        if !tried.is_empty() {
            chosen.tally.retried();
            clients.listener.tally.retried();
        }
        match open(&self.shared.mailboxes[self.worker].poll, slot, &chosen) {
            Ok(socket) => {
                chosen.tally.opened();
                session.line = Line::Up { socket, chosen };
                true
            }
            Err(error) => {
                clients.listener.refused.fetch_add(1, Relaxed);
                if let Some(trouble) = Trouble::of(&error, self.shared.files.limit()) {
                    self.shared.tell(now, &trouble);
                }
                false
            }
        }
    }

    fn try_send(&mut self, slot: Slot, inbox: &Inbox, which: std::ops::Range<usize>) -> io::Result<()> {
        let Some(session) = self.sessions.get_mut(slot) else { return Ok(()) };
        let Line::Up { socket, chosen } = &session.line else { return Ok(()) };
        let mut bytes = 0;
        let mut start = which.start;
        while start < which.end {
            let count = burst::count((start..which.end).map(|i| inbox.get(i).bytes.len()));
            if count == 1 {
                bytes += socket.send(inbox.get(start).bytes)?;
            } else {
                self.together.clear();
                (start..start + count).for_each(|i| self.together.extend_from_slice(inbox.get(i).bytes));
                let segment = u16::try_from(inbox.get(start).bytes.len()).unwrap_or(0);
                let all = [Outgoing { to: None, from: None, bytes: &self.together, segment }];
                burst::send_all(socket.as_fd(), &all)?;
                bytes += self.together.len();
            }
            start += count;
        }
        chosen.tally.carried(bytes as u64, 0);
        if let Some(clients) = self.listeners.get(&session.listener) {
            clients.listener.tally.carried(bytes as u64, 0);
        }
        Ok(())
    }

    /// The endpoint of a session is not there: the next datagram goes to another.
    pub(super) fn line_down(&mut self, slot: Slot, now: Instant) {
        let Some(session) = self.sessions.get_mut(slot) else { return };
        let Line::Up { chosen, .. } = &session.line else { return };
        let address = chosen.address;
        chosen.tally.dial_failed();
        chosen.tally.closed();
        if let Some(clients) = self.listeners.get(&session.listener) {
            clients.listener.tally.dial_failed();
            clients.listener.choice().failed(now, session.pair.client.ip(), address);
        }
        session.line = Line::Down { tried: vec![Tried { address, was_silent: false }] };
    }

    pub(super) fn expect_end(&mut self, key: u32, pair: Pair, slot: Slot, now: Instant, timers: &mut Timers) {
        let ends = now + self.shared.options.udp_idle_answered.min(self.shared.options.udp_idle);
        let Some(clients) = self.listeners.get_mut(&key) else { return };
        clients.slots.insert(pair, slot);
        if !clients.is_timed {
            clients.is_timed = true;
            timers.add(ends, Due::Sessions(key));
        }
        clients.ends.push(std::cmp::Reverse((ends, slot)));
    }
}

fn pair(datagram: Datagram<'_>) -> Option<Pair> {
    Some(Pair { client: datagram.from?, dialled: datagram.to.map(|local| local.address) })
}

fn open(poll: &kernel::poll::Poll, slot: Slot, chosen: &Chosen) -> io::Result<UdpSocket> {
    let socket = socket::dial_udp(chosen.address)?;
    poll.add(socket.as_fd(), Token::Session(slot).number(), Interest::Readable)?;
    Ok(socket)
}

/// Does it mean that nobody is there?
pub(super) fn is_absence(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::ECONNREFUSED | libc::EHOSTUNREACH | libc::ENETUNREACH | libc::EHOSTDOWN | libc::ENETDOWN)
    )
}
