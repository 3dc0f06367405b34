//! Has the kernel forget flows that became stale, so that their next packet is a first one again.
//!
//! In: which flows are stale ([`model::flows`] has decided it), and a connection tracker. Out: how many were forgotten.
//! Call it after the rules are in force: a flow that is forgotten before would be made anew by the old ones.
//!
//! Each listing has the kernel walk through its whole table, so few destinations are asked for one by one, and of many only
//! their family and protocol; then an index finds the stale ones among all flows of the protocol.
//!
//! [`Found`] does the same for TCP connections to endpoints that have vanished: the client's next packet is a first one, meets a living
//! endpoint or a refusal, and is reset. Sockets of this host itself are ended at once.
//!
//! Absent on purpose: other TCP connections (see [`model::flows`]); flows of other destinations; any memory of flows.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, SocketAddr};

use kernel::IpProtocol;
use kernel::conntrack::{Conntrack, Entry, Error, Family, Filter};
use kernel::sock_diag::{self, TcpSockets};
use model::flows::{Flow, StaleFlows, VanishedFlows};
use model::{Protocol, ServicePortId};

/// Up to so many destinations of one family and protocol are asked for one by one, where the kernel filters. A single
/// listing of the protocol costs as much as about five of them among 50,000 flows of others, and as two among 5,000: at
/// this limit neither way loses much. `cargo xtask bench conntrack` measures both.
pub const ONE_BY_ONE_LIMIT: usize = 4;

/// What a pass came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Forgotten {
    /// Entries that the kernel sent to be looked at.
    pub looked_at: u64,
    /// Entries that were deleted. Those that ended by themselves meanwhile are not counted.
    pub forgotten: u64,
}

/// How the kernel is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// One listing for each destination.
    OneByOne,
    /// One listing for each family and protocol.
    AllAtOnce,
    /// Whichever is quicker.
    Quicker,
}

/// Forgets these flows. On an error some may be forgotten already: the same call may be made again, and should be if
/// [`Error::retry_helps`].
pub fn forget(conntrack: &mut dyn Conntrack, stale: &BTreeSet<StaleFlows>) -> Result<Forgotten, Error> {
    forget_by(Way::Quicker, conntrack, stale)
}

/// The same, in a way of the caller's choice: for the benchmark that compares them.
pub fn forget_by(
    way: Way,
    conntrack: &mut dyn Conntrack,
    stale: &BTreeSet<StaleFlows>,
) -> Result<Forgotten, Error> {
    let mut forgotten = Forgotten::default();
    for ((family, protocol), by_destination) in groups(stale) {
        let is_stale = &mut |entry: &Entry| by_destination.is_stale(protocol, entry);
        for filter in by_destination.filters(way, conntrack.filters(), family, protocol.into()) {
            let done = conntrack.delete_where(&filter, is_stale)?;
            forgotten.looked_at += done.sent;
            forgotten.forgotten += done.deleted;
        }
    }
    Ok(forgotten)
}

/// How many connections were ended, by service port and endpoint.
pub type Ended = BTreeMap<(ServicePortId, (IpAddr, u16)), u64>;

/// Connections to endpoints that have vanished, as the connection tracker has them.
#[derive(Debug, Default)]
pub struct Found<'a>(BTreeMap<&'a VanishedFlows, Vec<Entry>>);

impl<'a> Found<'a> {
    /// Looks for them. Each listing has the kernel walk through its whole table: see [`ONE_BY_ONE_LIMIT`].
    pub fn read(conntrack: &mut dyn Conntrack, vanished: &'a BTreeSet<VanishedFlows>) -> Result<Self, Error> {
        let mut by_endpoint: BTreeMap<(IpAddr, u16), Vec<&VanishedFlows>> = BTreeMap::new();
        for flows in vanished {
            by_endpoint.entry(flows.endpoint).or_default().push(flows);
        }
        let mut found: BTreeMap<&VanishedFlows, BTreeSet<Entry>> = BTreeMap::new();
        for filter in vanished_filters(vanished, conntrack.filters()) {
            conntrack.visit(&filter, &mut |entry| {
                let (destination, answered_by) = (entry.original.destination, entry.reply.source);
                let flow = Flow { protocol: Protocol::Tcp, destination, answered_by };
                let all = by_endpoint.get(&answered_by).into_iter().flatten();
                for flows in all.filter(|flows| flows.contains(&flow)) {
                    found.entry(flows).or_default().insert(*entry);
                }
            })?;
        }
        Ok(Self(found.into_iter().map(|(flows, entries)| (flows, entries.into_iter().collect())).collect()))
    }

    /// All of them, with what they belong to.
    pub fn entries(&self) -> impl Iterator<Item = (&'a VanishedFlows, &Entry)> {
        self.0.iter().flat_map(|(flows, entries)| entries.iter().map(|entry| (*flows, entry)))
    }

    /// Ends the sockets of this host's own clients. Those of others are not here, and are told by their next packet.
    pub fn end_sockets(
        &self,
        sockets: &mut dyn TcpSockets,
        is_own: impl Fn(IpAddr) -> bool,
    ) -> Result<u64, sock_diag::Error> {
        let mut ended = 0;
        for (_, entry) in self.entries() {
            let (local, remote) = (entry.original.source, entry.original.destination);
            // Where an address of a Service is this host's (mode ipvs), the host dials it from that very address.
            if !is_own(local.0) && local.0 != remote.0 {
                continue;
            }
            ended += u64::from(sockets.destroy(SocketAddr::from(local), SocketAddr::from(remote))?);
        }
        Ok(ended)
    }

    /// Deletes them; says how many were there still.
    pub fn delete(&self, conntrack: &mut dyn Conntrack) -> Result<Ended, Error> {
        let mut ended = Ended::new();
        for (flows, entries) in &self.0 {
            let count = conntrack.delete(entries)?;
            *ended.entry((flows.port.clone(), flows.endpoint)).or_default() += count;
        }
        Ok(ended)
    }
}

fn vanished_filters(vanished: &BTreeSet<VanishedFlows>, kernel_filters: bool) -> Vec<Filter> {
    let tcp = IpProtocol::TCP;
    let mut destinations: BTreeMap<Family, BTreeSet<(IpAddr, u16)>> = BTreeMap::new();
    for destination in vanished.iter().flat_map(|flows| &flows.destinations) {
        destinations.entry(Family::of(destination.0)).or_default().insert(*destination);
    }
    let of_family = |(family, all): (Family, BTreeSet<(IpAddr, u16)>)| -> Vec<Filter> {
        if kernel_filters && all.len() <= ONE_BY_ONE_LIMIT {
            return all.into_iter().map(|destination| Filter::Destination(tcp, destination)).collect();
        }
        vec![Filter::Protocol(family, tcp)]
    };
    destinations.into_iter().flat_map(of_family).collect()
}

/// Stale flows of one family and protocol, by destination.
#[derive(Default)]
struct ByDestination<'a>(HashMap<(IpAddr, u16), Vec<&'a StaleFlows>>);

fn groups(stale: &BTreeSet<StaleFlows>) -> BTreeMap<(Family, Protocol), ByDestination<'_>> {
    let mut groups: BTreeMap<_, ByDestination<'_>> = BTreeMap::new();
    for flows in stale.iter().filter(|flows| flows.protocol != Protocol::Tcp) {
        let group = groups.entry((Family::of(flows.destination.0), flows.protocol)).or_default();
        group.0.entry(flows.destination).or_default().push(flows);
    }
    groups
}

impl ByDestination<'_> {
    fn is_stale(&self, protocol: Protocol, entry: &Entry) -> bool {
        let destination = entry.original.destination;
        let flow = Flow { protocol, destination, answered_by: entry.reply.source };
        self.0.get(&destination).is_some_and(|stale| stale.iter().any(|stale| stale.contains(&flow)))
    }

    /// The listings to ask for.
    fn filters(&self, way: Way, kernel_filters: bool, family: Family, protocol: IpProtocol) -> Vec<Filter> {
        let is_one_by_one = match way {
            Way::OneByOne => true,
            Way::AllAtOnce => false,
            Way::Quicker => kernel_filters && self.0.len() <= ONE_BY_ONE_LIMIT,
        };
        if !is_one_by_one {
            return vec![Filter::Protocol(family, protocol)];
        }
        let destinations: BTreeSet<_> = self.0.keys().collect();
        destinations.into_iter().map(|destination| Filter::Destination(protocol, *destination)).collect()
    }
}

#[cfg(test)]
mod tests;
