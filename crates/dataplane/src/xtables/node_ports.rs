//! Where node ports answer: as parts of rules.

use std::net::{Ipv4Addr, Ipv6Addr};

use kernel::xtables::{Is, Match, Side};
use model::net::IpNet;
use model::table::NodeView;
use model::{Family, NodePortAddress};

/// Destinations of node ports: for each of these, all parts hold.
#[derive(Clone, Debug)]
pub(crate) struct NodePorts {
    pub(crate) destinations: Vec<Vec<Match>>,
}

impl NodePorts {
    /// Where they answer on this node: `default` says it where nothing is configured. Loopback addresses are left out, unless
    /// `has_loopback`.
    pub(crate) fn of(node: &NodeView, family: Family, default: NodePortAddress, has_loopback: bool) -> Self {
        let entries = node.node_port_addresses(family, default);
        let destinations = if entries.iter().any(is_everything) {
            let but_loopback = (!has_loopback).then(|| Match::Destination(Is::Not, loopback(family)));
            vec![[Match::Local(Side::Destination, Is::Equal)].into_iter().chain(but_loopback).collect()]
        } else {
            let of_family = node.addresses.iter().filter(|ip| Family::of(**ip) == family);
            let covered = of_family.filter(|ip| node.covers(&entries, **ip)).map(|ip| IpNet::from(*ip));
            let loopback =
                entries.iter().filter(|_| has_loopback).filter_map(|entry| on_loopback(entry, family));
            covered.chain(loopback).map(|net| vec![Match::Destination(Is::Equal, net)]).collect()
        };
        Self { destinations }
    }
}

fn is_everything(entry: &NodePortAddress) -> bool {
    match entry {
        NodePortAddress::All => true,
        NodePortAddress::Within(net) => net.prefix_len() == 0,
        NodePortAddress::Primary | NodePortAddress::Localhost => false,
    }
}

/// The loopback addresses that an entry covers.
fn on_loopback(entry: &NodePortAddress, family: Family) -> Option<IpNet> {
    let all = loopback(family);
    match entry {
        NodePortAddress::Localhost => Some(all),
        NodePortAddress::Within(net) if all.contains(net) => Some(*net),
        NodePortAddress::Within(net) if net.contains(&all) => Some(all),
        _ => None,
    }
}

/// The loopback addresses of a family.
pub(crate) fn loopback(family: Family) -> IpNet {
    match family {
        Family::V4 => IpNet::new(Ipv4Addr::new(127, 0, 0, 0).into(), 8).expect("8 is a length of IPv4"),
        Family::V6 => IpNet::from(std::net::IpAddr::from(Ipv6Addr::LOCALHOST)),
    }
}
