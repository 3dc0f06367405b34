//! What a packet may meet between two writes, though neither table says so: there is no transaction.
//!
//! A packet that only one of the two tables serves may be refused in another way than the other table says; one whose virtual server
//! gets another scheduler may be held back; one that both serve may be hidden by the old route while it takes the new one; and shares
//! are those of the endpoints that are there.

use std::collections::BTreeSet;
use std::net::IpAddr;

use model::{Action, ForwardingTable, Packet, Pool};

use crate::sim::{End, Ends, Meanwhile, frontends};

pub(super) fn may_meet(meanwhile: &Meanwhile<'_>, found: &Ends) -> bool {
    let pools = pools(meanwhile);
    let is_known =
        |end: &End| matches!(end, End::At { endpoint, masqueraded: true } if pools.contains(endpoint));
    let is_held = |end: &End| *end == End::Dropped && is_rescheduled(meanwhile);
    found.0.keys().all(|end| is_allowed(end, meanwhile.allowed) || is_known(end) || is_held(end))
}

/// All endpoints that the packet's frontend has in either table, by whichever policy: where the policy changes, a packet may meet
/// the other one, and is hidden then.
fn pools(meanwhile: &Meanwhile<'_>) -> BTreeSet<(IpAddr, u16)> {
    let tables = [meanwhile.before, meanwhile.after].into_iter();
    let pools = tables.flat_map(|table| actions(table, meanwhile.packet)).filter_map(Action::pool);
    pools.flat_map(|pool| pool.endpoints().iter().map(|one| (one.address, one.port))).collect()
}

/// Whether its virtual servers are to choose in another way: by weight, or no longer so. New connections are held back meanwhile.
fn is_rescheduled(meanwhile: &Meanwhile<'_>) -> bool {
    let is_uneven = |action: &Action| {
        let endpoints = action.pool().map(Pool::endpoints).unwrap_or_default();
        endpoints.iter().any(|one| one.slots != endpoints[0].slots)
    };
    let [before, after] = [meanwhile.before, meanwhile.after]
        .map(|table| actions(table, meanwhile.packet).into_iter().map(is_uneven).collect::<Vec<bool>>());
    before != after
}

/// What a table does with a packet's frontend: inside and outside.
fn actions<'a>(table: &'a ForwardingTable, packet: &Packet) -> Vec<&'a Action> {
    let routes = frontends(packet).into_iter().filter_map(|frontend| table.route(&frontend));
    routes.flat_map(|(_, route)| [&route.inside, &route.outside]).collect()
}

/// An endpoint of either table; hidden, unless one of them says that it is not. Refused, where one of them does not serve.
fn is_allowed(end: &End, allowed: &[Ends; 2]) -> bool {
    match end {
        End::Untouched => allowed.iter().any(|ends| ends.0.contains_key(end)),
        End::Rejected | End::Dropped => allowed.iter().any(|ends| !ends.is_served()),
        End::At { endpoint, masqueraded } => {
            let has = |masqueraded: bool| {
                allowed.iter().any(|ends| ends.0.contains_key(&End::At { endpoint: *endpoint, masqueraded }))
            };
            has(*masqueraded) || *masqueraded && has(false)
        }
    }
}
