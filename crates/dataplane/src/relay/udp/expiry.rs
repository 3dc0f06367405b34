//! When sessions end: after silence, or to make room.

use std::cmp::Reverse;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use super::Udp;
use crate::relay::worker::{Due, Slot, Timers};

impl Udp {
    /// Ends the sessions of a listener that have been silent for too long.
    pub(in crate::relay) fn sessions_due(&mut self, key: u32, now: Instant, timers: &mut Timers) {
        while let Some(slot) = self.first_to_end(key, Some(now)) {
            self.end(slot);
        }
        let Some(clients) = self.listeners.get_mut(&key) else { return };
        clients.is_timed = !clients.ends.is_empty();
        if let Some(Reverse((at, _))) = clients.ends.peek() {
            timers.add(*at, Due::Sessions(key));
        }
    }

    /// Ends the session of a listener that has been silent for longest, about.
    pub(super) fn evict(&mut self, key: u32) {
        let Some(slot) = self.first_to_end(key, None) else { return };
        if let Some(clients) = self.listeners.get(&key) {
            clients.listener.evicted.fetch_add(1, Relaxed);
        }
        self.end(slot);
    }

    /// Takes the session out that ends first; with a time, only if it has come.
    fn first_to_end(&mut self, key: u32, now: Option<Instant>) -> Option<Slot> {
        let clients = self.listeners.get_mut(&key)?;
        loop {
            let Reverse((at, slot)) = *clients.ends.peek()?;
            if now.is_some_and(|now| at > now) {
                return None;
            }
            clients.ends.pop();
            let Some(session) = self.sessions.get_mut(slot) else { continue };
            let ends = session.ends(&self.shared.options);
            // It may have been used since it was last looked at.
            if ends <= at {
                return Some(slot);
            }
            clients.ends.push(Reverse((ends, slot)));
        }
    }
}
