//! Chooses the endpoint of a connection.
//!
//! In: the pool, who comes, what was tried already, and the time. Out: an endpoint.
//!
//! A client that is remembered goes where it went; all others are spread by weight over the endpoints that are not known
//! to fail. Nothing here opens a socket or reads a clock.

mod affinity;
mod health;
mod spread;

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use model::Pool;

use super::counters::{Counts, Tally};
pub(super) use affinity::Memory;
use spread::Spread;

/// The choices of one listener.
#[derive(Debug)]
pub(super) struct Choice {
    spread: Spread,
    affinity: Option<Duration>,
    memory: Arc<Mutex<Memory>>,
}

/// An endpoint that was chosen.
#[derive(Clone, Debug)]
pub(super) struct Chosen {
    pub(super) address: SocketAddr,
    pub(super) tally: Arc<Tally>,
}

/// An endpoint that a connection was not able to reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tried {
    pub(super) address: SocketAddr,
    /// Silence may be a lost packet, so it can be dialled again where nothing else is left; a refusal is an answer.
    pub(super) was_silent: bool,
}

impl Choice {
    pub(super) fn new(memory: Arc<Mutex<Memory>>) -> Self {
        Self { spread: Spread::default(), affinity: None, memory }
    }

    /// From now on connections go to this pool.
    pub(super) fn bring_to(&mut self, pool: &Pool, affinity: Option<Duration>) {
        self.spread.bring_to(pool);
        self.affinity = affinity;
    }

    /// The endpoint for a connection of `client`; `None` when all have been tried.
    pub(super) fn choose(&mut self, now: Instant, client: IpAddr, tried: &[Tried]) -> Option<Chosen> {
        let remembered = if tried.is_empty() { self.remembered(now, client) } else { None };
        let chosen = remembered.or_else(|| self.spread.choose(now, tried))?;
        if let Some(timeout) = self.affinity {
            self.memory().remember(now, client, chosen.address, timeout);
        }
        Some(chosen)
    }

    fn remembered(&mut self, now: Instant, client: IpAddr) -> Option<Chosen> {
        self.affinity?;
        let address = self.memory().recall(now, client)?;
        self.spread.take(now, address)
    }

    /// A dial went through.
    pub(super) fn succeeded(&mut self, endpoint: SocketAddr) {
        self.spread.succeeded(endpoint);
    }

    /// A dial of `client` failed.
    pub(super) fn failed(&mut self, now: Instant, client: IpAddr, endpoint: SocketAddr) {
        self.spread.failed(now, endpoint);
        if self.affinity.is_some() {
            self.memory().forget(client, endpoint);
        }
    }

    /// May connections go there?
    pub(super) fn has(&self, endpoint: SocketAddr) -> bool {
        self.spread.has(endpoint)
    }

    /// What was counted for each endpoint.
    pub(super) fn counts(&mut self) -> Vec<(SocketAddr, Counts)> {
        self.spread.counts()
    }

    fn memory(&self) -> std::sync::MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
