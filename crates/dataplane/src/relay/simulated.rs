//! The relay's twin: opens nothing, gives ports from a counter, remembers, and refuses what it is told to refuse.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::RangeInclusive;

use model::net::{Family, Protocol};

use super::{At, Listener, ListenerId, RelayError, Relays};

/// A relay without sockets.
#[derive(Clone, Debug, PartialEq)]
pub struct Simulated {
    range: RangeInclusive<u16>,
    open: BTreeMap<ListenerId, (Listener, u16)>,
    held: BTreeSet<(SocketAddr, Protocol)>,
    taken: BTreeSet<(Protocol, u16)>,
}

impl Default for Simulated {
    fn default() -> Self {
        Self::with_range(32768..=60999)
    }
}

impl Simulated {
    /// Gives ports of this range, from its start.
    pub fn with_range(range: RangeInclusive<u16>) -> Self {
        Self { range, open: BTreeMap::new(), held: BTreeSet::new(), taken: BTreeSet::new() }
    }

    /// From now on another program has this port, on all addresses: what is not open there yet is refused.
    pub fn take(&mut self, protocol: Protocol, port: u16) {
        self.taken.insert((protocol, port));
    }

    /// The other program has let go of the port.
    pub fn give_back(&mut self, protocol: Protocol, port: u16) {
        self.taken.remove(&(protocol, port));
    }

    /// What is open under this id, and at which port.
    pub fn listener(&self, id: &ListenerId) -> Option<(&Listener, u16)> {
        self.open.get(id).map(|(listener, port)| (listener, *port))
    }

    /// Who takes a packet to this address and port.
    pub fn listening_at(&self, protocol: Protocol, at: SocketAddr) -> Option<(&ListenerId, &Listener)> {
        let hears = |listener: &Listener| {
            let address = address_of(listener.at);
            address == at.ip() || address == wildcard(Family::of(at.ip()))
        };
        let mut found = self.open.iter().filter(|(_, (listener, port))| {
            listener.protocol == protocol && *port == at.port() && hears(listener)
        });
        found.next().map(|(id, (listener, _))| (id, listener))
    }

    /// The ports that are held.
    pub fn held(&self) -> &BTreeSet<(SocketAddr, Protocol)> {
        &self.held
    }

    fn is_free(&self, protocol: Protocol, at: SocketAddr) -> bool {
        let is_taken = self.taken.contains(&(protocol, at.port()));
        !is_taken && self.listening_at(protocol, at).is_none() && !self.held.contains(&(at, protocol))
    }

    fn choose_port(&self, protocol: Protocol, at: At) -> Result<u16, RelayError> {
        match at {
            At::Exactly(at) if self.is_free(protocol, at) => Ok(at.port()),
            At::Exactly(at) => Err(RelayError::InUse { protocol, at }),
            At::Any { address, wish } => wish
                .into_iter()
                .chain(self.range.clone())
                .find(|port| self.is_free(protocol, SocketAddr::new(address, *port)))
                .ok_or_else(|| RelayError::RangeExhausted { protocol, address, range: self.range.clone() }),
        }
    }
}

impl Relays for Simulated {
    fn open(&mut self, id: &ListenerId, wanted: &Listener) -> Result<u16, RelayError> {
        if wanted.protocol == Protocol::Sctp {
            return Err(RelayError::Sctp);
        }
        let current = self.open.remove(id);
        let stays = current.filter(|(now, port)| {
            now.protocol == wanted.protocol && wanted.at.suits(SocketAddr::new(address_of(now.at), *port))
        });
        let port = match stays {
            Some((_, port)) => port,
            None => self.choose_port(wanted.protocol, wanted.at)?,
        };
        self.open.insert(id.clone(), (wanted.clone(), port));
        Ok(port)
    }

    fn close(&mut self, id: &ListenerId) {
        self.open.remove(id);
    }

    fn hold(&mut self, at: SocketAddr, protocol: Protocol) -> Result<(), RelayError> {
        if protocol == Protocol::Sctp {
            return Err(RelayError::Sctp);
        }
        if !self.held.contains(&(at, protocol)) && !self.is_free(protocol, at) {
            return Err(RelayError::InUse { protocol, at });
        }
        self.held.insert((at, protocol));
        Ok(())
    }

    fn release(&mut self, at: SocketAddr, protocol: Protocol) {
        self.held.remove(&(at, protocol));
    }

    fn ids(&self) -> Vec<ListenerId> {
        self.open.keys().cloned().collect()
    }
}

fn address_of(at: At) -> IpAddr {
    match at {
        At::Any { address, .. } => address,
        At::Exactly(at) => at.ip(),
    }
}

fn wildcard(family: Family) -> IpAddr {
    match family {
        Family::V4 => Ipv4Addr::UNSPECIFIED.into(),
        Family::V6 => Ipv6Addr::UNSPECIFIED.into(),
    }
}
