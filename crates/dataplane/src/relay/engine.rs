//! The relay itself: opens and closes listeners, and hands them to a successor. Its workers do the carrying.

use std::collections::btree_map::Entry as MapEntry;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use model::net::Protocol;
use model::{Pool, ServicePortId};

use super::choose::{Choice, Memory};
use super::counters::Counters;
use super::handover::{Handed, What};
use super::listener::{Open, Seat, Socket};
use super::options::Options;
use super::ports::{self, Ports};
use super::shared::Shared;
use super::worker::{Letter, Mailbox, Worker};
use super::{Listener, ListenerId, RelayError, Relays};

/// Workers take notice within this time.
const NOTICE: Duration = Duration::from_secs(1);

/// Carries connections, with threads of its own. When it is dropped all of them end.
pub struct Relay {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    open: BTreeMap<ListenerId, Entry>,
    /// Those that are closed, and may have connections.
    closing: Vec<(ListenerId, Arc<Open>)>,
    ended: Counters,
    /// Sockets of a predecessor that nobody has asked for yet: connections wait in their queues.
    inherited: BTreeMap<ListenerId, Socket>,
    held: BTreeMap<(SocketAddr, Protocol), OwnedFd>,
    /// The same of ports that a predecessor held.
    inherited_held: BTreeMap<(SocketAddr, Protocol), OwnedFd>,
    memories: BTreeMap<ServicePortId, Arc<Mutex<Memory>>>,
    ports: Ports,
    next_key: u32,
}

/// A listener, and what it was last brought to.
struct Entry {
    open: Arc<Open>,
    pool: Pool,
    affinity: Option<Duration>,
}

impl fmt::Debug for Relay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Relay").field("listeners", &self.open.keys()).finish_non_exhaustive()
    }
}

impl Relay {
    /// Starts the workers, and lets this process have as many files open as it may.
    pub fn start(options: Options) -> io::Result<Self> {
        let ports = Ports::new(options.ports.clone());
        let shared = Arc::new(Shared::new(options, kernel::limit::raise_files()?)?);
        let mut relay = Self {
            shared,
            threads: Vec::new(),
            open: BTreeMap::new(),
            closing: Vec::new(),
            ended: Counters::default(),
            inherited: BTreeMap::new(),
            held: BTreeMap::new(),
            inherited_held: BTreeMap::new(),
            memories: BTreeMap::new(),
            ports,
            next_key: 0,
        };
        for number in 0..relay.shared.mailboxes.len() {
            let worker = Worker::new(Arc::clone(&relay.shared), number);
            // If one cannot be started, dropping the relay ends the others.
            let thread = thread::Builder::new().name(format!("relay-{number}")).spawn(|| worker.run())?;
            relay.threads.push(thread);
        }
        Ok(relay)
    }

    /// What each listener has done, also those that are closed and have connections.
    pub fn counters(&self) -> Vec<(ListenerId, Counters)> {
        let open = self.open.iter().map(|(id, entry)| (id.clone(), entry.open.counters()));
        let closing = self.closing.iter().map(|(id, open)| (id.clone(), open.counters()));
        open.chain(closing.filter(|(_, counters)| counters.all.active > 0)).collect()
    }

    /// What listeners had done that are gone, in all.
    pub fn ended(&self) -> Counters {
        let mut ended = self.ended.clone();
        let gone = self.closing.iter().map(|(_, open)| open.counters());
        gone.filter(|counters| counters.all.active == 0).for_each(|counters| ended.add(&counters));
        ended
    }

    /// How many connections and sessions were taken in all, whether or not an endpoint could be reached for them. It never goes back.
    pub fn taken(&self) -> u64 {
        let open = self.open.values().map(|entry| entry.open.counters());
        let closing = self.closing.iter().map(|(_, open)| open.counters());
        let all = open.chain(closing).chain([self.ended.clone()]);
        all.map(|counters| counters.all.connections + counters.failed).sum()
    }

    /// How many connections and sessions there are now, also of listeners that are closed.
    pub fn active(&self) -> usize {
        let of = |mailbox: &Mailbox| mailbox.connections.load(Relaxed) + mailbox.sessions.load(Relaxed);
        self.shared.mailboxes.iter().map(of).sum()
    }

    /// The process was told to end: what comes from now on is served, and not waited for.
    pub fn begin_to_end(&self) {
        self.shared.is_ending.store(true, Relaxed);
    }

    /// How many connections there are that came before [`Self::begin_to_end`].
    pub fn active_before_the_end(&self) -> usize {
        let of =
            |mailbox: &Mailbox| mailbox.connections.load(Relaxed).saturating_sub(mailbox.late.load(Relaxed));
        self.shared.mailboxes.iter().map(of).sum()
    }

    /// Resets connections to these endpoints; how many of each there were.
    pub fn cut_to(&self, endpoints: BTreeSet<SocketAddr>) -> BTreeMap<SocketAddr, u64> {
        let (receipt, answers) = channel();
        let endpoints = Arc::new(endpoints);
        for mailbox in &self.shared.mailboxes {
            mailbox.send(Letter::CutTo(Arc::clone(&endpoints), receipt.clone()));
        }
        drop(receipt);
        let (until, mut cut) = (Instant::now() + NOTICE, BTreeMap::new());
        // It ends when the last worker has answered. One that hangs is not waited for.
        while let Ok(answer) = answers.recv_timeout(until.saturating_duration_since(Instant::now())) {
            for (endpoint, count) in answer {
                *cut.entry(endpoint).or_default() += count;
            }
        }
        cut
    }

    /// Resets all connections, so that no end takes a part for the whole.
    pub fn cut(&self) {
        for mailbox in &self.shared.mailboxes {
            mailbox.send(Letter::CutAll);
        }
        self.wait_for_workers();
    }

    /// Everything that a successor needs to go on in our place: the same sockets, so that no connection that waits is lost.
    pub fn listening(&self) -> io::Result<Vec<Handed>> {
        let mut list = Vec::new();
        for (id, entry) in &self.open {
            if let Some(socket) = entry.open.duplicate()? {
                list.push(Handed { what: What::Listener(id.clone()), socket });
            }
        }
        for (id, socket) in &self.inherited {
            let socket = socket.as_fd().try_clone_to_owned()?;
            list.push(Handed { what: What::Listener(id.clone()), socket });
        }
        for ((at, protocol), socket) in self.held.iter().chain(&self.inherited_held) {
            list.push(Handed { what: What::Held(*at, *protocol), socket: socket.try_clone()? });
        }
        Ok(list)
    }

    /// Takes over what a predecessor handed on: whoever is opened next gets its socket.
    pub fn adopt(&mut self, list: Vec<Handed>) {
        for Handed { what, socket } in list {
            match what {
                What::Listener(id) => {
                    let socket = match id.port.protocol {
                        Protocol::Udp => Socket::Udp(socket.into()),
                        _ => Socket::Tcp(socket.into()),
                    };
                    self.inherited.insert(id, socket);
                }
                What::Held(at, protocol) => drop(self.inherited_held.insert((at, protocol), socket)),
            }
        }
    }

    /// Closes what a predecessor handed on and nobody has asked for: nothing leads there any more.
    pub fn disinherit(&mut self) {
        self.inherited.clear();
        self.inherited_held.clear();
    }

    /// Lets go of all ports: a successor has them. Connections go on for at most the drain limit, and so do answers to
    /// datagrams that were passed on; new datagrams are the successor's.
    pub fn retire(&mut self) {
        let until = Instant::now() + self.shared.options.drain;
        for entry in std::mem::take(&mut self.open).into_values() {
            let is_udp = match &*entry.open.socket() {
                Some(socket @ Socket::Udp(_)) => {
                    self.shared.deafen(&entry.open, socket);
                    true
                }
                _ => false,
            };
            if !is_udp {
                self.shared.close(&entry.open);
            }
            self.forget(&entry.open, until);
        }
        self.disinherit();
        self.held.clear();
        self.memories.clear();
        self.wait_for_workers();
    }

    /// Waits until the workers have taken notice: a connection that one of them was just accepting is counted by then.
    fn wait_for_workers(&self) {
        let (receipt, all) = channel();
        for mailbox in &self.shared.mailboxes {
            mailbox.send(Letter::Read(receipt.clone()));
        }
        drop(receipt);
        // It ends when the last receipt is dropped. A worker that hangs is not waited for.
        let _ended = all.recv_timeout(NOTICE);
    }

    fn open_new(&mut self, id: &ListenerId, wanted: &Listener) -> Result<u16, RelayError> {
        let socket = match self.inherit(id, wanted) {
            Some(socket) => socket,
            None => self.ports.bind(wanted.protocol, wanted.at)?,
        };
        let refused = |at, error: &io::Error| RelayError::Refused {
            protocol: wanted.protocol,
            at,
            said: error.to_string(),
        };
        let bound = socket.address().map_err(|error| refused(SocketAddr::new([0; 4].into(), 0), &error))?;
        let memory = Arc::clone(self.memories.entry(id.port.clone()).or_default());
        let file = self.shared.files.take(1);
        let open = Arc::new(Open::new(self.seat(), socket, bound, Choice::new(memory), file));
        open.bring_to(wanted);
        self.shared.start(&open).map_err(|error| refused(bound, &error))?;
        self.open.insert(id.clone(), Entry { open, pool: wanted.pool.clone(), affinity: wanted.affinity });
        Ok(bound.port())
    }

    fn inherit(&mut self, id: &ListenerId, wanted: &Listener) -> Option<Socket> {
        let socket = self.inherited.remove(id)?;
        let suits = socket.address().is_ok_and(|bound| wanted.at.suits(bound));
        suits.then_some(socket)
    }

    fn seat(&mut self) -> Seat {
        let key = self.next_key;
        self.next_key = self.next_key.wrapping_add(1);
        Seat { key, home: key as usize % self.shared.mailboxes.len() }
    }

    /// Workers forget a listener, and cut what it has then.
    fn forget(&self, open: &Open, until: Instant) {
        self.shared.forget(open.key);
        for mailbox in &self.shared.mailboxes {
            mailbox.send(Letter::CutAt(open.key, until));
        }
    }
}

impl Relays for Relay {
    fn open(&mut self, id: &ListenerId, wanted: &Listener) -> Result<u16, RelayError> {
        if wanted.protocol == Protocol::Sctp {
            return Err(RelayError::Sctp);
        }
        let Some(entry) = self.open.get_mut(id) else { return self.open_new(id, wanted) };
        if !wanted.at.suits(entry.open.bound) {
            self.close(id);
            return self.open_new(id, wanted);
        }
        if (&entry.pool, entry.affinity) != (&wanted.pool, wanted.affinity) {
            entry.open.bring_to(wanted);
            (entry.pool, entry.affinity) = (wanted.pool.clone(), wanted.affinity);
            if wanted.protocol == Protocol::Udp {
                let letter = Letter::PoolChanged(Arc::clone(&entry.open));
                self.shared.mailboxes[entry.open.home].send(letter);
            }
        }
        Ok(entry.open.bound.port())
    }

    fn close(&mut self, id: &ListenerId) {
        self.inherited.remove(id);
        let Some(entry) = self.open.remove(id) else { return };
        self.shared.close(&entry.open);
        // A datagram's answer has no socket to leave by any more, so there is nothing to wait for.
        let patience =
            if id.port.protocol == Protocol::Udp { Duration::ZERO } else { self.shared.options.drain };
        self.forget(&entry.open, Instant::now() + patience);
        for (id, open) in std::mem::take(&mut self.closing) {
            match open.counters() {
                counters if counters.all.active == 0 => self.ended.add(&counters),
                _ => self.closing.push((id, open)),
            }
        }
        self.closing.push((id.clone(), entry.open));
        if !self.open.keys().any(|other| other.port == id.port) {
            self.memories.remove(&id.port);
        }
    }

    fn hold(&mut self, at: SocketAddr, protocol: Protocol) -> Result<(), RelayError> {
        if let MapEntry::Vacant(place) = self.held.entry((at, protocol)) {
            let socket = self.inherited_held.remove(&(at, protocol));
            place.insert(socket.map_or_else(|| ports::hold(protocol, at), Ok)?);
        }
        Ok(())
    }

    fn release(&mut self, at: SocketAddr, protocol: Protocol) {
        self.held.remove(&(at, protocol));
    }

    fn ids(&self) -> Vec<ListenerId> {
        let mut ids: Vec<ListenerId> = self.open.keys().chain(self.inherited.keys()).cloned().collect();
        ids.sort_unstable();
        ids
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        for mailbox in &self.shared.mailboxes {
            mailbox.send(Letter::Stop);
        }
        for thread in self.threads.drain(..) {
            // A worker that has panicked has said so already.
            let _panicked = thread.join();
        }
    }
}
