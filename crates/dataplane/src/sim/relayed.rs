//! Where connections to the ports of a simulated relay go.

use std::net::SocketAddr;
use std::time::Duration;

use model::fate::OneOf;
use model::{Endpoint, Landing, Protocol};

use crate::relay::{self, Listener, ListenerId};

/// Where what listens there sends a connection.
pub fn relayed(relays: &relay::Simulated, protocol: Protocol, at: SocketAddr) -> Result<OneOf, String> {
    let found = relays.listening_at(protocol, at);
    found.map(|(id, listener)| pool_of(id, listener)).ok_or_else(|| format!("nothing listens at {at}"))
}

fn pool_of(id: &ListenerId, listener: &Listener) -> OneOf {
    let landing = |endpoint: &Endpoint| Landing {
        address: endpoint.address,
        port: endpoint.port,
        slots: endpoint.slots,
        masqueraded: true,
    };
    let seconds = |time: Duration| u32::try_from(time.as_secs()).unwrap_or(u32::MAX);
    OneOf {
        landings: listener.pool.endpoints().iter().map(landing).collect(),
        slots: listener.pool.slots(),
        port: id.port.clone(),
        affinity_seconds: listener.affinity.map(seconds),
    }
}
