//! UDP: a session for each client, with a socket of its own towards one endpoint.
//!
//! ```text
//!   client ──► listener ──recvmmsg──► session of (client, dialled address) ──send──► endpoint
//!   client ◄──sendmmsg, from the dialled address── answers of many sessions ◄──recvmmsg── endpoint
//! ```
//!
//! One worker reads a listener and all its sessions, so datagrams of a client are never reordered. Nothing waits for a
//! session: what its socket has no room for is lost, as on any link, and others go on.

mod answers;
mod burst;
mod expiry;
mod inward;
mod outward;
mod session;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use kernel::socket::Inbox;

use super::listener::Open;
use super::shared::Shared;
use super::worker::{Slab, Slot};
use answers::Answers;
use session::{Line, Pair, Session};

/// The UDP part of a worker.
#[derive(Debug)]
pub(super) struct Udp {
    shared: Arc<Shared>,
    worker: usize,
    sessions: Slab<Session>,
    listeners: HashMap<u32, Clients>,
    /// Listeners with answers to send.
    to_send: Vec<u32>,
    /// Sessions that may have more to read.
    again: Vec<Slot>,
    inbox: Inbox,
    /// Datagrams that leave as one; kept only so that its room is not asked for each time.
    together: Vec<u8>,
}

/// The sessions of one listener.
#[derive(Debug)]
struct Clients {
    listener: Arc<Open>,
    slots: HashMap<Pair, Slot>,
    /// When to look at a session next; the one that was idle for longest when it was last looked at is first.
    ends: BinaryHeap<Reverse<(Instant, Slot)>>,
    /// Whether there is a timer for the first of these.
    is_timed: bool,
    answers: Answers,
}

impl Udp {
    pub(super) fn new(shared: Arc<Shared>, worker: usize) -> Self {
        Self {
            shared,
            worker,
            sessions: Slab::default(),
            listeners: HashMap::new(),
            to_send: Vec::new(),
            again: Vec::new(),
            inbox: Inbox::default(),
            together: Vec::new(),
        }
    }

    /// Sends the answers that were collected.
    pub(super) fn send_answers(&mut self) {
        for key in std::mem::take(&mut self.to_send) {
            if let Some(clients) = self.listeners.get_mut(&key) {
                clients.send_answers();
            }
        }
    }

    /// Sessions to endpoints that left the pool end: the next datagram goes elsewhere.
    pub(super) fn pool_changed(&mut self, listener: &Open) {
        let Some(clients) = self.listeners.get(&listener.key) else { return };
        let choice = listener.choice();
        let mut gone = Vec::new();
        for slot in clients.slots.values() {
            let endpoint = self.sessions.get_mut(*slot).and_then(|session| session.endpoint());
            if endpoint.is_some_and(|endpoint| !choice.has(endpoint)) {
                gone.push(*slot);
            }
        }
        drop(choice);
        for slot in gone {
            self.end(slot);
        }
    }

    /// Ends all sessions of a listener.
    pub(super) fn cut(&mut self, key: u32) {
        let slots: Vec<Slot> = self
            .listeners
            .get(&key)
            .into_iter()
            .flat_map(|clients| clients.slots.values().copied())
            .collect();
        for slot in slots {
            self.end(slot);
        }
        self.listeners.remove(&key);
    }

    fn end(&mut self, slot: Slot) {
        let Some(session) = self.sessions.remove(slot) else { return };
        self.shared.mailboxes[self.worker].sessions.fetch_sub(1, Relaxed);
        if let Some(clients) = self.listeners.get_mut(&session.listener) {
            clients.slots.remove(&session.pair);
            clients.listener.tally.closed();
        }
        if let Line::Up { chosen, .. } = session.line {
            chosen.tally.closed();
        }
    }
}

impl Clients {
    fn new(listener: Arc<Open>) -> Self {
        Self {
            listener,
            slots: HashMap::new(),
            ends: BinaryHeap::new(),
            is_timed: false,
            answers: Answers::default(),
        }
    }

    fn send_answers(&mut self) {
        if let Some(socket) = self.listener.socket().as_ref() {
            self.answers.send(socket.as_fd());
        }
    }
}
