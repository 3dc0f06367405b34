//! Carries connections itself: the TCP and UDP proxy of a mode that relays, and of node ports on localhost in every mode.
//!
//! In: listeners, each with the pool that its traffic is spread over. Out: the port that each of them listens on.
//!
//! The rules decide, the relay spreads: every distinct pool of a service port has a listener of its own, so nothing here
//! needs the address that a client dialled, and nothing here knows a policy. `README.md` tells the way of a connection.
//!
//! Absent on purpose: rules, traffic policies, source ranges, and SCTP.

mod choose;
mod counters;
mod engine;
mod error;
mod files;
mod handover;
mod listener;
mod options;
mod ports;
mod shared;
#[cfg(feature = "sim")]
mod simulated;
mod tcp;
mod udp;
mod worker;

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use model::net::{Family, Protocol};
use model::{Pool, ServicePortId};

pub use counters::{Counters, Counts};
pub use engine::Relay;
pub use error::RelayError;
pub use handover::{Handed, Heard, What, receive, send};
pub(crate) use options::parse_ports;
pub use options::{Options, PORTS_FLAG, Tell, Trouble, ports};
#[cfg(feature = "sim")]
pub use simulated::Simulated;

/// What carries connections.
pub trait Relays {
    /// Opens the listener, or brings an open one to this pool and affinity. Idempotent. Returns the port that it listens on.
    ///
    /// A listener that is open somewhere else than `wanted.at` asks for is closed, and opened there.
    fn open(&mut self, id: &ListenerId, wanted: &Listener) -> Result<u16, RelayError>;

    /// No new connections; established ones go on for at most the drain limit. Does nothing for an id that is not open.
    fn close(&mut self, id: &ListenerId);

    /// Holds a port so that no other program takes it: bound, never listening. Idempotent.
    fn hold(&mut self, at: SocketAddr, protocol: Protocol) -> Result<(), RelayError>;

    /// Lets go of a port that was held. Does nothing for one that was not.
    fn release(&mut self, at: SocketAddr, protocol: Protocol);

    /// The listeners that are open, in order.
    fn ids(&self) -> Vec<ListenerId>;
}

/// No relay, for those who compare and never sync: whatever is to be opened is refused.
#[derive(Clone, Copy, Debug)]
pub struct NoRelay;

impl Relays for NoRelay {
    fn open(&mut self, _: &ListenerId, wanted: &Listener) -> Result<u16, RelayError> {
        let at = match wanted.at {
            At::Any { address, .. } => SocketAddr::new(address, 0),
            At::Exactly(at) => at,
        };
        Err(no_relay(at, wanted.protocol))
    }

    fn close(&mut self, _: &ListenerId) {}

    fn hold(&mut self, at: SocketAddr, protocol: Protocol) -> Result<(), RelayError> {
        Err(no_relay(at, protocol))
    }

    fn release(&mut self, _: SocketAddr, _: Protocol) {}

    fn ids(&self) -> Vec<ListenerId> {
        Vec::new()
    }
}

fn no_relay(at: SocketAddr, protocol: Protocol) -> RelayError {
    RelayError::Refused { protocol, at, said: "this process has no relay".to_owned() }
}

/// One relay, for several who open listeners.
impl<R: Relays + ?Sized> Relays for Arc<Mutex<R>> {
    fn open(&mut self, id: &ListenerId, wanted: &Listener) -> Result<u16, RelayError> {
        lock(self).open(id, wanted)
    }

    fn close(&mut self, id: &ListenerId) {
        lock(self).close(id);
    }

    fn hold(&mut self, at: SocketAddr, protocol: Protocol) -> Result<(), RelayError> {
        lock(self).hold(at, protocol)
    }

    fn release(&mut self, at: SocketAddr, protocol: Protocol) {
        lock(self).release(at, protocol);
    }

    fn ids(&self) -> Vec<ListenerId> {
        lock(self).ids()
    }
}

/// Whoever panicked while it held the relay has changed one listener at most.
fn lock<R: ?Sized>(relay: &Mutex<R>) -> MutexGuard<'_, R> {
    relay.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Names a listener.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ListenerId {
    /// The service port whose traffic it takes.
    pub port: ServicePortId,
    /// The family of its socket and of its endpoints.
    pub family: Family,
    /// Which of that traffic.
    pub purpose: Purpose,
}

impl fmt::Display for ListenerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}, {})", self.port, self.family, self.purpose)
    }
}

/// Which traffic of a service port a listener takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Purpose {
    /// That of the cluster, and all of it where one pool serves both.
    Cluster,
    /// That from outside, where another pool serves it.
    Outside,
    /// That to a node port on 127.0.0.1 or `::1`.
    Localhost,
}

impl fmt::Display for Purpose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Purpose::Cluster => "cluster",
            Purpose::Outside => "outside",
            Purpose::Localhost => "localhost",
        })
    }
}

/// What a listener should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    /// TCP or UDP.
    pub protocol: Protocol,
    /// Where it listens.
    pub at: At,
    /// The endpoints that its traffic is spread over.
    pub pool: Pool,
    /// A client stays with its endpoint for so long after each connection.
    pub affinity: Option<Duration>,
}

/// Where a listener listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// On an address, at a port that we choose.
    Any {
        /// The address; mostly the wildcard of its family.
        address: IpAddr,
        /// The port of an earlier life: tried first.
        wish: Option<u16>,
    },
    /// Exactly there.
    Exactly(SocketAddr),
}

impl At {
    /// Whether a listener that is bound there is what is asked for.
    fn suits(self, bound: SocketAddr) -> bool {
        match self {
            At::Any { address, .. } => address == bound.ip(),
            At::Exactly(at) => at == bound,
        }
    }
}
