//! This machine's own network: addresses, links, routes; read once, or watched. And the one thing that is written: dummy links,
//! and addresses on a link that the caller names.
//!
//! In: nothing but the network namespace of the calling thread. Out: ordered sets, so that equal hosts
//! print equally. Reading needs no privilege.
//!
//! Absent on purpose: any other writing. Portway never changes routes here, nor links that are no dummies.

mod address;
mod change;
mod link;
mod route;
mod watch;
mod write;

pub use address::{Address, AddressFlags, Scope, addresses};
pub use change::{ChangeError, ChangeHost, Unchanged};
pub use link::{Bridge, BridgePort, Link, bridge_ports, bridges, links};
pub use route::{Route, RouteKind, RouteTable, has_policy_routing, routes, source_address};
pub use watch::{Change, Watch};

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::netlink::{Client, Error, MessageWriter, Result};

/// A host whose network can be read: this machine, or a simulated one.
pub trait Host {
    /// The addresses that it answers to.
    fn addresses(&mut self) -> Result<BTreeSet<Address>>;

    /// Its network interfaces.
    fn links(&mut self) -> Result<BTreeSet<Link>>;

    /// Its routes, of the tables `main` and `local`.
    fn routes(&mut self) -> Result<BTreeSet<Route>>;

    /// The source address that its kernel selects for a packet to `destination`; `None` where no route leads there.
    fn source_address(&mut self, destination: IpAddr) -> Result<Option<IpAddr>>;
}

/// This machine, as the calling thread's network namespace shows it.
#[derive(Debug, Clone, Copy, Default)]
pub struct ThisMachine;

impl Host for ThisMachine {
    fn addresses(&mut self) -> Result<BTreeSet<Address>> {
        addresses()
    }

    fn links(&mut self) -> Result<BTreeSet<Link>> {
        links()
    }

    fn routes(&mut self) -> Result<BTreeSet<Route>> {
        routes()
    }

    fn source_address(&mut self, destination: IpAddr) -> Result<Option<IpAddr>> {
        source_address(destination)
    }
}

/// Lists all that `get` asks for, of every family: the fixed part of such a request is `N` zeroes. `decode` gives `None` for what does
/// not interest.
fn list<T: Ord, const N: usize>(
    client: &mut Client,
    what: &'static str,
    get: u16,
    mut decode: impl FnMut(&[u8]) -> Result<Option<T>>,
) -> Result<BTreeSet<T>> {
    // What is there is told as if it were new; that request has the number before the last.
    let new = get - 2;
    let request = |message: &mut MessageWriter| message.raw(&[0; N]);
    let found = client.list(
        what,
        get,
        request,
        |head, body| if head.kind == new { decode(body) } else { Ok(None) },
    )?;
    Ok(found.into_iter().collect())
}

/// Splits the fixed part off a message; what follows are its attributes.
fn split_fixed<const N: usize>(body: &[u8]) -> Result<(&[u8; N], &[u8])> {
    body.split_first_chunk().ok_or(Error::Malformed { what: "fixed part of the message cut off", offset: 0 })
}

/// Reads an address by its length: four bytes or sixteen.
fn ip(bytes: &[u8]) -> Result<IpAddr> {
    if let Ok(v4) = <[u8; 4]>::try_from(bytes) {
        return Ok(IpAddr::V4(Ipv4Addr::from(v4)));
    }
    match <[u8; 16]>::try_from(bytes) {
        Ok(v6) => Ok(IpAddr::V6(Ipv6Addr::from(v6))),
        Err(_) => Err(Error::Malformed { what: "address is neither 4 nor 16 bytes long", offset: 0 }),
    }
}

/// Tries every decoder of this folder on the same bytes.
#[cfg(test)]
pub(crate) fn decode_all(body: &[u8]) {
    let _ = (link::decode_bridge(body), route::decode_rule(body));
    let _ =
        (link::decode(body), address::decode(body, &std::collections::BTreeMap::new()), route::decode(body));
}
