//! What all workers and the relay itself share.

use std::collections::HashMap;
use std::io;
use std::os::fd::AsFd as _;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use kernel::poll::Interest;

use super::files::Files;
use super::listener::{Open, Socket};
use super::options::{Options, Trouble};
use super::worker::{Mailbox, Token};

/// Trouble is told at most once in this time.
const TELL_INTERVAL: Duration = Duration::from_secs(10);

/// What all workers and the relay itself share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) options: Options,
    pub(super) files: Arc<Files>,
    pub(super) mailboxes: Vec<Mailbox>,
    /// The process was told to end: what comes now is served, but not waited for.
    pub(super) is_ending: AtomicBool,
    listeners: RwLock<HashMap<u32, Arc<Open>>>,
    told: Mutex<Option<Instant>>,
}

impl Shared {
    pub(super) fn new(options: Options, limit: u64) -> io::Result<Self> {
        let mailboxes = (0..options.workers.max(1)).map(|_| Mailbox::new()).collect::<io::Result<_>>()?;
        Ok(Self {
            options,
            files: Arc::new(Files::new(limit)),
            mailboxes,
            is_ending: AtomicBool::new(false),
            listeners: RwLock::default(),
            told: Mutex::default(),
        })
    }

    /// Has the workers accept: all of them connections, one of them datagrams.
    pub(super) fn start(&self, listener: &Arc<Open>) -> io::Result<()> {
        self.listeners
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(listener.key, Arc::clone(listener));
        let socket = listener.socket();
        let Some(socket) = socket.as_ref() else { return Ok(()) };
        for mailbox in self.readers(listener, socket) {
            mailbox.poll.add(socket.as_fd(), Token::Listener(listener.key).number(), Interest::Shared)?;
        }
        Ok(())
    }

    /// No worker reads it any more once this returns.
    pub(super) fn deafen(&self, listener: &Open, socket: &Socket) {
        for mailbox in self.readers(listener, socket) {
            // It is not there while a worker has paused it.
            let _absent = mailbox.poll.remove(socket.as_fd());
        }
    }

    /// Closes it: nothing is accepted any more once this returns.
    pub(super) fn close(&self, listener: &Open) {
        // First taken away, so that no worker that had paused it can begin to wait for it again; then removed by hand,
        // because another process may have the same socket, and then the kernel would go on telling us of it.
        if let Some(socket) = listener.close() {
            self.deafen(listener, &socket);
        }
    }

    fn readers(&self, listener: &Open, socket: &Socket) -> &[Mailbox] {
        match socket {
            Socket::Tcp(_) => &self.mailboxes,
            Socket::Udp(_) => &self.mailboxes[listener.home..=listener.home],
        }
    }

    /// Workers find it no more.
    pub(super) fn forget(&self, key: u32) {
        self.listeners.write().unwrap_or_else(PoisonError::into_inner).remove(&key);
    }

    pub(super) fn listener(&self, key: u32) -> Option<Arc<Open>> {
        self.listeners.read().unwrap_or_else(PoisonError::into_inner).get(&key).cloned()
    }

    /// Tells of trouble, unless that was done a moment ago.
    pub(super) fn tell(&self, now: Instant, trouble: &Trouble) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.is_none_or(|last| now.saturating_duration_since(last) >= TELL_INTERVAL) {
            *told = Some(now);
            drop(told);
            (self.options.tell)(trouble);
        }
    }
}
