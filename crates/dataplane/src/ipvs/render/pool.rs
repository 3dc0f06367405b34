//! Endpoints as real servers, and how a virtual server chooses among them.

use std::net::SocketAddr;

use kernel::ipset::Entry;
use kernel::ipvs::{VirtualServer, What};
use model::Place as Where;
use model::{Action, Endpoint, Family, Pool};

use crate::ipvs::items::Item;
use crate::ipvs::names::SetId;
use crate::ipvs::scheduler::Scheduler;

/// The virtual server and the real servers behind it. An action that leads nowhere has none: IPVS refuses for it.
pub(super) fn servers(
    what: What,
    action: &Action,
    asked: Option<Scheduler>,
    persistence_s: Option<u32>,
) -> Vec<Item> {
    let endpoints = action.pool().map(Pool::endpoints).unwrap_or_default();
    let is_uneven = endpoints.iter().any(|endpoint| endpoint.slots != endpoints[0].slots);
    let scheduler = asked.unwrap_or(if is_uneven { Scheduler::WEIGHTED } else { Scheduler::ROUND_ROBIN });
    let server = VirtualServer {
        flags: scheduler.flags(),
        persistence_s,
        ..VirtualServer::new(what, scheduler.name())
    };
    let real = endpoints.iter().map(|endpoint| {
        let weight = if is_uneven { u32::from(endpoint.slots) } else { 1 };
        Item::Real(what, SocketAddr::new(endpoint.address, endpoint.port), weight)
    });
    [Item::Server(server)].into_iter().chain(real).collect()
}

/// Endpoints that may be their own clients: those that may be on this node.
pub(super) fn hairpins(action: &Action, protocol: model::Protocol) -> impl Iterator<Item = Item> {
    let endpoints = action.pool().map(Pool::endpoints).unwrap_or_default().iter();
    let entry = move |endpoint: &Endpoint| {
        let Endpoint { address, port, .. } = *endpoint;
        let entry = Entry::IpPortIp(address, protocol.into(), port, address);
        Item::Entry(Family::of(address), SetId::Hairpin, entry)
    };
    endpoints.filter(|endpoint| endpoint.place != Where::Elsewhere).map(entry)
}
