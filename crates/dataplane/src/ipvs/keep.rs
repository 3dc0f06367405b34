//! While not all that should be there is known, what nobody asks for stays: but nothing that would change what somebody asked for.

use std::collections::BTreeSet;

use kernel::ipset::Entry;
use kernel::ipvs::What;

use super::items::{Delta, Item, Place};

/// Takes out of what must go whatever belongs to places that nobody asks for yet.
pub(super) fn leftovers(delta: &mut Delta, wanted: &BTreeSet<Item>) {
    let known = known(wanted);
    delta.removed.retain(|item| whose(item).is_some_and(|what| known.contains(&what)));
}

fn known(wanted: &BTreeSet<Item>) -> BTreeSet<What> {
    let what = |item: &Item| if let Item::Server(server) = item { Some(server.what) } else { None };
    wanted.iter().filter_map(what).collect()
}

/// The virtual server that something belongs to; `None` for what several may share.
fn whose(item: &Item) -> Option<What> {
    match item {
        Item::Server(server) => Some(server.what),
        Item::Real(what, ..) => Some(*what),
        Item::Outside(place, _) => Some(place.what()),
        Item::Entry(_, _, Entry::IpPort(ip, protocol, port) | Entry::IpPortNet(ip, protocol, port, _)) => {
            Some(Place { ip: *ip, protocol: *protocol, port: *port }.what())
        }
        Item::Entry(..) | Item::Address(_) => None,
    }
}
