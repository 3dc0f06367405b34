//! How places are furnished: settings, addresses and routes.

use std::thread;

use crate::error::Result;
use crate::ip::Batch;
use crate::plan::Pair;

/// Addresses that can be used at once.
pub(crate) fn add_addresses(batch: &mut Batch, addresses: Pair, link: &str, prefixes: [u8; 2]) {
    batch.add(format!("addr add {}/{} dev {link}", addresses.v4, prefixes[0]));
    batch.add(format!("addr add {}/{} dev {link} nodad", addresses.v6, prefixes[1]));
}

/// One route of each family.
pub(crate) fn add_routes<S: AsRef<str>>(batch: &mut Batch, networks: &[S; 2], gateway: Pair) {
    batch.add(format!("route add {} via {}", networks[0].as_ref(), gateway.v4));
    batch.add(format!("route add {} via {}", networks[1].as_ref(), gateway.v6));
}

/// Settings of a place that ends packets. They go in before the links, which copy the defaults
/// when they are born: without that, IPv6 first checks its addresses for seconds.
pub(crate) const HOST: &[(&str, &str)] = &[
    ("ipv4/conf/all/rp_filter", "0"),
    ("ipv4/conf/default/rp_filter", "0"),
    ("ipv4/conf/all/accept_redirects", "0"),
    ("ipv6/conf/all/accept_dad", "0"),
    ("ipv6/conf/default/accept_dad", "0"),
    ("ipv6/conf/default/accept_ra", "0"),
    ("ipv6/conf/default/router_solicitations", "0"),
    // Many connections in a row, of which the kernel remembers each for a minute.
    ("ipv4/ip_local_port_range", "10000 65000"),
    ("ipv4/tcp_tw_reuse", "1"),
];

/// Settings of a place that passes packets on. Redirects would teach clients a way around the node.
pub(crate) const ROUTER: &[(&str, &str)] = &[
    ("ipv4/ip_forward", "1"),
    ("ipv6/conf/all/forwarding", "1"),
    ("ipv6/conf/default/forwarding", "1"),
    ("ipv4/conf/all/rp_filter", "0"),
    ("ipv4/conf/default/rp_filter", "0"),
    ("ipv4/conf/all/send_redirects", "0"),
    ("ipv4/conf/default/send_redirects", "0"),
    ("ipv4/conf/all/accept_redirects", "0"),
    ("ipv6/conf/all/accept_dad", "0"),
    ("ipv6/conf/default/accept_dad", "0"),
    ("ipv6/conf/default/accept_ra", "0"),
];

/// Does the same for each, side by side; the first error wins.
pub(crate) fn at_once<T: Sync>(all: &[T], work: impl Fn(&T) -> Result<()> + Sync) -> Result<()> {
    thread::scope(|scope| {
        let work = &work;
        let workers: Vec<_> = all.iter().map(|one| scope.spawn(move || work(one))).collect();
        workers
            .into_iter()
            .try_for_each(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}
