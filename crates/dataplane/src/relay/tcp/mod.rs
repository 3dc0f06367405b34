//! TCP: accepts, dials, and carries bytes both ways.
//!
//! ```text
//!   accept ─► choose an endpoint ─► dial ──connected──► carry ─► both ends have ended: close
//!                   ▲                 │
//!                   └─ another one ◄──┴ refused, unreachable, too slow (250 ms, 500 ms, 1 s, 2 s); none left: reset
//! ```
//!
//! What the client sends while an endpoint is dialled waits in the kernel.

mod accept;
mod connection;
mod dial;
mod direction;
mod pipes;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use kernel::poll::Event;

use super::listener::Open;
use super::shared::Shared;
use super::worker::{Arrival, Slab, Slot, Timers};
use connection::{Connection, Next, Stage};
use direction::Tools;
use pipes::Pipes;

/// The buffer that all connections of a worker read into.
const BUFFER_BYTES: usize = 64 << 10;

/// The TCP part of a worker.
#[derive(Debug)]
pub(super) struct Tcp {
    shared: Arc<Shared>,
    worker: usize,
    connections: Slab<Connection>,
    tools: Tools,
    /// Connections that have more to do.
    again: Vec<Slot>,
    /// Listeners that wait for room.
    paused: Vec<Arc<Open>>,
    /// Connections that were just accepted; kept only so that its room is not asked for each time.
    arrivals: Vec<Arrival>,
}

impl Tcp {
    pub(super) fn new(shared: Arc<Shared>, worker: usize) -> Self {
        let pipes = Pipes::new(Arc::clone(&shared.files), shared.options.pipe_bytes);
        Self {
            shared,
            worker,
            connections: Slab::default(),
            tools: Tools { buffer: vec![0; BUFFER_BYTES].into(), pipes },
            again: Vec::new(),
            paused: Vec::new(),
            arrivals: Vec::new(),
        }
    }

    /// Something happened at a client's socket.
    pub(super) fn client_event(&mut self, slot: Slot, event: Event) {
        let Some(connection) = self.connections.get_mut(slot) else { return };
        connection.note_client(event);
        let is_dialling = matches!(connection.stage, Stage::Dialling(_));
        if event.is_failed() {
            // Nobody is there to be served. What it sent before is passed on as far as that goes at once.
            connection.turn(&mut self.tools);
            self.abort(slot);
        } else if !is_dialling {
            self.turn(slot);
        }
    }

    /// Something happened at an endpoint's socket.
    pub(super) fn endpoint_event(&mut self, slot: Slot, event: Event, now: Instant, timers: &mut Timers) {
        let Some(connection) = self.connections.get_mut(slot) else { return };
        if matches!(connection.stage, Stage::Dialling(_)) {
            self.dial_event(slot, event, now, timers);
        } else {
            connection.note_endpoint(event);
            self.turn(slot);
        }
    }

    /// Is there something to do that no event will tell of?
    pub(super) fn has_more(&self) -> bool {
        !self.again.is_empty()
    }

    /// Gives connections that had more to do another turn.
    pub(super) fn continue_turns(&mut self) {
        for slot in std::mem::take(&mut self.again) {
            self.turn(slot);
        }
    }

    /// Cuts all connections.
    pub(super) fn cut_all(&mut self) {
        let all: Vec<Slot> = self.connections.iter().map(|(slot, _)| slot).collect();
        for slot in all {
            self.abort(slot);
        }
    }

    /// Cuts the connections to these endpoints; how many of each.
    pub(super) fn cut_to(&mut self, endpoints: &BTreeSet<SocketAddr>) -> BTreeMap<SocketAddr, u64> {
        let led = self.connections.iter().filter_map(|(slot, connection)| match &connection.stage {
            Stage::Open { chosen, .. } => Some((slot, chosen.address)),
            Stage::Dialling(_) => None,
        });
        let meant: Vec<(Slot, SocketAddr)> =
            led.filter(|(_, endpoint)| endpoints.contains(endpoint)).collect();
        let mut cut = BTreeMap::new();
        for (slot, endpoint) in meant {
            self.abort(slot);
            *cut.entry(endpoint).or_default() += 1;
        }
        cut
    }

    /// Cuts the connections of a listener.
    pub(super) fn cut(&mut self, key: u32) {
        let of_listener = self.connections.iter().filter(|(_, connection)| connection.listener.key == key);
        let meant: Vec<Slot> = of_listener.map(|(slot, _)| slot).collect();
        for slot in meant {
            self.abort(slot);
        }
    }

    fn turn(&mut self, slot: Slot) {
        let Some(connection) = self.connections.get_mut(slot) else { return };
        match connection.turn(&mut self.tools) {
            Next::Wait => {}
            Next::Again => self.again.push(slot),
            Next::Close => self.remove(slot),
            Next::Abort => self.abort(slot),
        }
    }

    fn abort(&mut self, slot: Slot) {
        if let Some(connection) = self.connections.get_mut(slot) {
            connection.reset();
            self.remove(slot);
        }
    }

    fn remove(&mut self, slot: Slot) {
        let Some(mut connection) = self.connections.remove(slot) else { return };
        connection.inward.abandon(&mut self.tools);
        connection.outward.abandon(&mut self.tools);
        if let Stage::Open { chosen, .. } = &connection.stage {
            chosen.tally.closed();
            connection.listener.tally.closed();
        }
        let mailbox = &self.shared.mailboxes[self.worker];
        mailbox.late.fetch_sub(usize::from(connection.is_late), Relaxed);
        drop(connection);
        mailbox.connections.fetch_sub(1, Relaxed);
        if !self.paused.is_empty() {
            self.resume();
        }
    }
}
