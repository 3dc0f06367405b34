//! A thread that carries connections: waits for events, and does what each of them calls for.

mod mailbox;
mod slab;
mod timers;
mod token;

use std::sync::Arc;
use std::time::{Duration, Instant};

use kernel::poll::{Event, Events};

use super::listener::Socket;
use super::options::Trouble;
use super::shared::Shared;
use super::tcp::Tcp;
use super::udp::Udp;
pub(super) use mailbox::{Arrival, Letter, Mailbox};
pub(super) use slab::Slab;
pub(super) use timers::{Due, Timers};
pub(super) use token::{Slot, Token};

/// So many events are taken at once.
const EVENTS: usize = 256;

/// A thread that carries connections.
#[derive(Debug)]
pub(super) struct Worker {
    shared: Arc<Shared>,
    number: usize,
    tcp: Tcp,
    udp: Udp,
    timers: Timers,
    is_stopped: bool,
}

impl Worker {
    pub(super) fn new(shared: Arc<Shared>, number: usize) -> Self {
        Self {
            tcp: Tcp::new(Arc::clone(&shared), number),
            udp: Udp::new(Arc::clone(&shared), number),
            shared,
            number,
            timers: Timers::default(),
            is_stopped: false,
        }
    }

    /// Works until it is told to stop.
    pub(super) fn run(mut self) {
        let mut events = Events::with_room_for(EVENTS);
        let mut now = Instant::now();
        while !self.is_stopped {
            let has_more = self.tcp.has_more() || self.udp.has_more();
            let limit = if has_more { Some(Duration::ZERO) } else { self.timers.wait(now) };
            if let Err(error) = self.shared.mailboxes[self.number].poll.wait(&mut events, limit) {
                // Cannot happen with a valid descriptor. Going on would be a busy loop.
                return self.shared.tell(now, &Trouble::Broken { said: error.to_string() });
            }
            now = Instant::now();
            events.iter().for_each(|event| self.handle(event, now));
            self.tcp.continue_turns();
            self.udp.read_on(now);
            self.udp.send_answers();
            while let Some(due) = self.timers.pop(now) {
                self.due(due, now);
            }
        }
    }

    fn handle(&mut self, event: Event, now: Instant) {
        match Token::of(event.token) {
            Token::Mail => self.read_mail(now),
            Token::Listener(key) => self.listener_event(key, now),
            Token::Client(slot) => self.tcp.client_event(slot, event),
            Token::Endpoint(slot) => self.tcp.endpoint_event(slot, event, now, &mut self.timers),
            Token::Session(slot) => self.udp.session_event(slot, now),
        }
    }

    fn listener_event(&mut self, key: u32, now: Instant) {
        let Some(listener) = self.shared.listener(key) else { return };
        let is_udp = matches!(*listener.socket(), Some(Socket::Udp(_)));
        if is_udp {
            self.udp.listener_event(&listener, now, &mut self.timers);
        } else {
            self.tcp.accept(&listener, now, &mut self.timers);
        }
    }

    fn read_mail(&mut self, now: Instant) {
        for letter in self.shared.mailboxes[self.number].take() {
            match letter {
                Letter::Carry(arrival) => self.tcp.carry(arrival, now, &mut self.timers),
                Letter::CutAt(key, until) => self.timers.add(until, Due::Cut(key)),
                Letter::PoolChanged(listener) => self.udp.pool_changed(&listener),
                Letter::CutTo(endpoints, receipt) => {
                    // Who no longer waits for the number does not need it.
                    let _unheard = receipt.send(self.tcp.cut_to(&endpoints));
                }
                Letter::CutAll => self.tcp.cut_all(),
                Letter::Read(receipt) => drop(receipt),
                Letter::Stop => self.is_stopped = true,
            }
        }
    }

    fn due(&mut self, due: Due, now: Instant) {
        match due {
            Due::Dial(slot) => self.tcp.dial_due(slot, now, &mut self.timers),
            Due::Cut(key) => {
                self.tcp.cut(key);
                self.udp.cut(key);
            }
            Due::Sessions(key) => self.udp.sessions_due(key, now, &mut self.timers),
            Due::Resume => self.tcp.resume_after_pause(now, &mut self.timers),
        }
    }
}
