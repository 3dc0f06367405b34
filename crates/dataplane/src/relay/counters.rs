//! What is counted while connections are carried.
//!
//! Threads add to atomics; whoever asks reads them without stopping anybody, so figures of one moment may differ by a
//! connection that is just being made.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What a listener has done, in all and for each endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// In all, also for endpoints that are gone.
    pub all: Counts,
    /// For the endpoints of its pool, and those that still have connections.
    pub endpoints: Vec<(SocketAddr, Counts)>,
    /// Connections that were reset, or datagrams dropped, because a limit was reached.
    pub refused: u64,
    /// Connections that no endpoint could be found for, and that were reset.
    pub failed: u64,
    /// How often nothing was accepted for a moment because a limit was reached: those that came waited.
    pub pauses: u64,
    /// UDP sessions that had to end so that others could begin.
    pub evicted: u64,
}

impl Counters {
    /// Adds what another has done, in all.
    pub fn add(&mut self, other: &Self) {
        let (all, more) = (&mut self.all, &other.all);
        all.connections += more.connections;
        all.active += more.active;
        all.bytes_in += more.bytes_in;
        all.bytes_out += more.bytes_out;
        all.failed_dials += more.failed_dials;
        all.retries += more.retries;
        self.refused += other.refused;
        self.failed += other.failed;
        self.pauses += other.pauses;
        self.evicted += other.evicted;
    }
}

/// What was carried. A UDP session counts as a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Connections made.
    pub connections: u64,
    /// Those of them that are there now.
    pub active: u64,
    /// Bytes from clients.
    pub bytes_in: u64,
    /// Bytes to clients.
    pub bytes_out: u64,
    /// Dials that failed.
    pub failed_dials: u64,
    /// Dials made because another had failed.
    pub retries: u64,
}

/// The same, while threads add to it.
#[derive(Debug, Default)]
pub(super) struct Tally {
    connections: AtomicU64,
    closed: AtomicU64,
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
    failed_dials: AtomicU64,
    retries: AtomicU64,
}

impl Tally {
    pub(super) fn opened(&self) {
        self.connections.fetch_add(1, Relaxed);
    }

    pub(super) fn closed(&self) {
        self.closed.fetch_add(1, Relaxed);
    }

    pub(super) fn carried(&self, bytes_in: u64, bytes_out: u64) {
        if bytes_in > 0 {
            self.bytes_in.fetch_add(bytes_in, Relaxed);
        }
        if bytes_out > 0 {
            self.bytes_out.fetch_add(bytes_out, Relaxed);
        }
    }

    pub(super) fn dial_failed(&self) {
        self.failed_dials.fetch_add(1, Relaxed);
    }

    pub(super) fn retried(&self) {
        self.retries.fetch_add(1, Relaxed);
    }

    pub(super) fn read(&self) -> Counts {
        // What has been closed is read first: it was opened before, so the difference is never negative.
        let closed = self.closed.load(Relaxed);
        let connections = self.connections.load(Relaxed);
        Counts {
            connections,
            active: connections.saturating_sub(closed),
            bytes_in: self.bytes_in.load(Relaxed),
            bytes_out: self.bytes_out.load(Relaxed),
            failed_dials: self.failed_dials.load(Relaxed),
            retries: self.retries.load(Relaxed),
        }
    }
}
