//! The forwarding table → what the kernel shall hold.
//!
//! | file | what it is for |
//! |---|---|
//! | `port` | one service port: virtual servers, real servers, entries of sets, addresses |
//! | `pool` | endpoints as real servers |
//! | `rules` | the rules of iptables, which are few and the same for all service ports |
//! | `text` | all of it as text |

mod pool;
pub(super) mod port;
pub(super) mod rules;
mod text;

use kernel::ipset::Entry;
use model::table::NodeView;
use model::{Family, ForwardingTable};
pub use text::render;

use super::items::Item;
use super::names::SetId;

/// What belongs to no service port: addresses of Services without any, and health checks.
pub(super) fn of_nobody(table: &ForwardingTable, families: &[Family]) -> Vec<Item> {
    let mut items = Vec::new();
    for ip in table.bare_cluster_ips().values().flatten().filter(|ip| families.contains(&Family::of(**ip))) {
        items.extend(bound(*ip, true, table.node()));
    }
    for check in table.health_checks().values() {
        let entry = |family: &Family| Item::Entry(*family, SetId::HealthChecks, Entry::Port(check.port));
        items.extend(families.iter().map(entry));
    }
    items
}

/// What makes this host answer to an address. One that it has already is left as it is, and so are its other ports, unless it is a
/// cluster IP.
fn bound(ip: std::net::IpAddr, is_cluster_ip: bool, node: &NodeView) -> Vec<Item> {
    let family = Family::of(ip);
    let entry = |set| Item::Entry(family, set, Entry::Ip(ip));
    match (node.is_own(ip), is_cluster_ip) {
        (false, _) => vec![Item::Address(ip), entry(SetId::Bound), entry(SetId::Addresses)],
        (true, true) => vec![entry(SetId::Addresses)],
        (true, false) => Vec::new(),
    }
}
