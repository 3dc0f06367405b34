//! A listener that is open: its socket, its choices and its figures, shared by all workers.

use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

use super::Listener;
use super::choose::Choice;
use super::counters::{Counters, Tally};
use super::files::Permit;

/// A listener that is open.
#[derive(Debug)]
pub(super) struct Open {
    /// Its number, by which workers find it.
    pub(super) key: u32,
    pub(super) bound: SocketAddr,
    /// The worker that reads it, where only one does (UDP).
    pub(super) home: usize,
    /// None once it is closed. Whoever accepts holds it for reading, so after closing it nobody accepts any more.
    socket: RwLock<Option<Socket>>,
    choice: Mutex<Choice>,
    pub(super) tally: Tally,
    pub(super) refused: AtomicU64,
    pub(super) failed: AtomicU64,
    pub(super) pauses: AtomicU64,
    pub(super) evicted: AtomicU64,
    _file: Option<Permit>,
}

/// The socket of a listener.
#[derive(Debug)]
pub(super) enum Socket {
    Tcp(TcpListener),
    Udp(UdpSocket),
}

impl Socket {
    pub(super) fn address(&self) -> std::io::Result<SocketAddr> {
        match self {
            Socket::Tcp(socket) => socket.local_addr(),
            Socket::Udp(socket) => socket.local_addr(),
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Socket::Tcp(socket) => socket.as_fd(),
            Socket::Udp(socket) => socket.as_fd(),
        }
    }
}

/// Where a listener belongs among the others.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seat {
    pub(super) key: u32,
    pub(super) home: usize,
}

impl Open {
    pub(super) fn new(
        seat: Seat,
        socket: Socket,
        bound: SocketAddr,
        choice: Choice,
        file: Option<Permit>,
    ) -> Self {
        Self {
            key: seat.key,
            bound,
            home: seat.home,
            socket: RwLock::new(Some(socket)),
            choice: Mutex::new(choice),
            tally: Tally::default(),
            refused: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            pauses: AtomicU64::new(0),
            evicted: AtomicU64::new(0),
            _file: file,
        }
    }

    /// From now on new connections go to what is wanted.
    pub(super) fn bring_to(&self, wanted: &Listener) {
        self.choice().bring_to(&wanted.pool, wanted.affinity);
    }

    pub(super) fn choice(&self) -> MutexGuard<'_, Choice> {
        self.choice.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The socket, for as long as it is borrowed.
    pub(super) fn socket(&self) -> RwLockReadGuard<'_, Option<Socket>> {
        self.socket.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the socket away: nobody accepts any more once this returns.
    pub(super) fn close(&self) -> Option<Socket> {
        self.socket.write().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Another descriptor of the same socket.
    pub(super) fn duplicate(&self) -> std::io::Result<Option<OwnedFd>> {
        self.socket().as_ref().map(|socket| socket.as_fd().try_clone_to_owned()).transpose()
    }

    pub(super) fn counters(&self) -> Counters {
        Counters {
            all: self.tally.read(),
            endpoints: self.choice().counts(),
            refused: self.refused.load(Relaxed),
            failed: self.failed.load(Relaxed),
            pauses: self.pauses.load(Relaxed),
            evicted: self.evicted.load(Relaxed),
        }
    }
}
