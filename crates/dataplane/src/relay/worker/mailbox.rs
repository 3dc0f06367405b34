//! How others reach a worker: letters, and a bell.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd as _;
use std::sync::atomic::AtomicUsize;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use kernel::poll::{Interest, Poll, Waker};

use super::token::Token;
use crate::relay::files::Permit;
use crate::relay::listener::Open;

/// What a worker is told.
#[derive(Debug)]
pub(in crate::relay) enum Letter {
    /// Carry this connection, which another worker has accepted.
    Carry(Arrival),
    /// A listener was closed: what it has goes on until then.
    CutAt(u32, Instant),
    /// The pool of a UDP listener has changed.
    PoolChanged(Arc<Open>),
    /// Reset connections to these endpoints, and tell how many of each there were.
    CutTo(Arc<BTreeSet<SocketAddr>>, Sender<BTreeMap<SocketAddr, u64>>),
    /// Reset all connections.
    CutAll,
    /// Drop this: all letters before it are read, and what was being accepted is counted.
    Read(Sender<()>),
    /// End at once.
    Stop,
}

/// A connection that was accepted.
#[derive(Debug)]
pub(in crate::relay) struct Arrival {
    pub(in crate::relay) stream: TcpStream,
    pub(in crate::relay) from: SocketAddr,
    pub(in crate::relay) listener: Arc<Open>,
    pub(in crate::relay) files: Permit,
}

/// Where letters for one worker arrive.
#[derive(Debug)]
pub(in crate::relay) struct Mailbox {
    pub(in crate::relay) poll: Poll,
    bell: Waker,
    letters: Mutex<Vec<Letter>>,
    /// How many connections the worker has.
    pub(in crate::relay) connections: AtomicUsize,
    /// How many of the connections were accepted after the process was told to end.
    pub(in crate::relay) late: AtomicUsize,
    /// How many UDP sessions it has.
    pub(in crate::relay) sessions: AtomicUsize,
}

impl Mailbox {
    pub(in crate::relay) fn new() -> io::Result<Self> {
        let (poll, bell) = (Poll::new()?, Waker::new()?);
        poll.add(bell.as_fd(), Token::Mail.number(), Interest::Readable)?;
        Ok(Self {
            poll,
            bell,
            letters: Mutex::default(),
            connections: AtomicUsize::new(0),
            late: AtomicUsize::new(0),
            sessions: AtomicUsize::new(0),
        })
    }

    pub(in crate::relay) fn send(&self, letter: Letter) {
        let mut letters = self.letters.lock().unwrap_or_else(PoisonError::into_inner);
        letters.push(letter);
        // With more than one the bell has rung already.
        let is_first = letters.len() == 1;
        drop(letters);
        if is_first {
            self.bell.wake();
        }
    }

    pub(super) fn take(&self) -> Vec<Letter> {
        std::mem::take(&mut *self.letters.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
