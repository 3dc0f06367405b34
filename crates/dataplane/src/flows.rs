//! Has the kernel forget flows that became stale, so that their next packet is a first one again.
//!
//! In: which flows are stale ([`model::flows`] has decided it), and a connection tracker. Out: how many were forgotten.
//! Call it after the rules are in force: a flow that is forgotten before would be made anew by the old ones.
//!
//! Each listing has the kernel walk through its whole table, so few destinations are asked for one by one, and of many only
//! their family and protocol; then an index finds the stale ones among all flows of the protocol.
//!
//! Absent on purpose: TCP, whatever is asked (see [`model::flows`]); flows of other destinations; any memory of flows.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;

use kernel::conntrack::{Conntrack, Entry, Error, Family, Filter};
use model::Protocol;
use model::flows::{Flow, StaleFlows};

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
        for filter in by_destination.filters(way, conntrack.filters(), family, number(protocol)) {
            let done = conntrack.delete_where(&filter, is_stale)?;
            forgotten.looked_at += done.sent;
            forgotten.forgotten += done.deleted;
        }
    }
    Ok(forgotten)
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
    fn filters(&self, way: Way, kernel_filters: bool, family: Family, protocol: u8) -> Vec<Filter> {
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

/// The protocol's number in packets.
const fn number(protocol: Protocol) -> u8 {
    match protocol {
        Protocol::Tcp => kernel::nft::Protocol::TCP.0,
        Protocol::Udp => kernel::nft::Protocol::UDP.0,
        Protocol::Sctp => kernel::nft::Protocol::SCTP.0,
    }
}

#[cfg(test)]
mod tests;
