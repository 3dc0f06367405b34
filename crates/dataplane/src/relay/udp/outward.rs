//! Datagrams of endpoints, on their way to clients.

use std::os::fd::AsFd as _;
use std::time::Instant;

use kernel::socket::BATCH;

use super::Udp;
use super::inward::is_absence;
use super::session::Line;
use crate::relay::worker::Slot;

impl Udp {
    /// Is there something to do that no event will tell of?
    pub(in crate::relay) fn has_more(&self) -> bool {
        !self.again.is_empty()
    }

    /// Reads on where there was more.
    pub(in crate::relay) fn read_on(&mut self, now: Instant) {
        for slot in std::mem::take(&mut self.again) {
            self.session_event(slot, now);
        }
    }

    /// An endpoint has answered, or is not there.
    pub(in crate::relay) fn session_event(&mut self, slot: Slot, now: Instant) {
        let Some(session) = self.sessions.get_mut(slot) else { return };
        let Line::Up { socket, chosen } = &session.line else { return };
        let count = match self.inbox.receive(socket.as_fd()) {
            Ok(count) => count,
            Err(error) if is_absence(&error) => return self.line_down(slot, now),
            Err(_) => return,
        };
        if count == BATCH {
            // There may be more, of which no event will tell. Others come first.
            self.again.push(slot);
        }
        let Some(clients) = self.listeners.get_mut(&session.listener) else { return };
        if session.answers == 0 {
            clients.listener.choice().succeeded(chosen.address);
        }
        session.last_used = now;
        session.answers += count as u64;
        if clients.answers.is_empty() {
            self.to_send.push(session.listener);
        }
        clients.answers.push(session.pair.client, session.local, &self.inbox, count);
        let bytes = (0..count).map(|i| self.inbox.get(i).bytes.len() as u64).sum();
        chosen.tally.carried(0, bytes);
        clients.listener.tally.carried(0, bytes);
        if clients.answers.is_full() {
            clients.send_answers();
        }
    }
}
