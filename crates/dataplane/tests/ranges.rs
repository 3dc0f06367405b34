//! Ranges that shrink, grow and split: the kernel takes no two that overlap, so the old one goes with the new one's coming.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "it is a test, helpers included")]

mod cluster;

use cluster::Small;
use dataplane::nftables::Options;
use dataplane::nftables::sim::{Nftables, comparable, lines};
use dataplane::sim::difference;
use dataplane::{Dataplane, Scope};
use kernel::nft::{Family, Kernel};
use kernel_sim::nft::Simulated;
use serde_json::json;

const STEPS: [&[&str]; 9] = [
    &["192.168.0.0/16"],
    &["192.168.0.0/17"],
    &["192.168.0.0/17", "192.168.128.0/17"],
    &["192.168.5.0/24", "192.168.6.0/24"],
    &["192.168.0.0/16", "192.168.5.0/24"],
    &["192.168.5.7/32", "192.168.5.9/32"],
    &["192.168.5.0/28"],
    &[],
    &["192.168.0.0/15"],
];

/// The same ranges for the sources of a Service and for cluster IPs.
fn set_ranges(small: &mut Small, ranges: &[&str]) {
    small.apply(&json!({
        "kind": "Service", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"type": "LoadBalancer", "clusterIPs": ["10.96.0.10"], "ports": [{"port": 80}],
                 "loadBalancerSourceRanges": ranges},
        "status": {"loadBalancer": {"ingress": [{"ip": "198.51.100.1"}]}},
    }));
    small.apply(&json!({"kind": "ServiceCIDR", "metadata": {"name": "all"}, "spec": {"cidrs": ranges}}));
}

/// Goes from each of the steps to each other one, with and without time for deletions in between.
fn walk<K: Kernel>(dataplane: &mut Nftables<K>) -> usize {
    let (mut small, mut count) = (Small::new(), 0);
    for settles in [true, false] {
        for (from, to) in STEPS.iter().flat_map(|from| STEPS.iter().map(move |to| (from, to))) {
            for ranges in [from, to] {
                set_ranges(&mut small, ranges);
                let changed = small.take_changed();
                let synced = dataplane.sync(&small.table, Scope::Changed(&changed)).unwrap();
                assert!(synced.refused.is_empty(), "{from:?} to {to:?}: {synced:?}");
                if settles {
                    dataplane.settle().unwrap();
                }
            }
            count += 1;
        }
    }
    dataplane.settle().unwrap();
    let mut fresh = Nftables::new(Simulated::default(), Options::default());
    fresh.sync(&small.table, Scope::Everything).unwrap();
    let list = |kernel: &mut dyn Kernel| kernel.list(Family::V4, "kube-proxy").unwrap().map(comparable);
    let (one, other) = (list(dataplane.kernel()), list(fresh.kernel()));
    assert!(one == other, "{}", difference(&lines(&one.unwrap()), &lines(&other.unwrap())));
    count
}

#[test]
fn ranges_follow_each_other_on_the_twin() {
    let count = walk(&mut Nftables::new(Simulated::default(), Options::default()));
    eprintln!("counted: {count} changes of ranges");
}

mod needs_root {
    use super::*;
    use kernel::nft::Netlink;
    use playground::namespace::Namespace;

    #[test]
    fn root_ranges_follow_each_other_on_the_real_kernel() {
        let namespace = match Namespace::create() {
            Ok(namespace) => namespace,
            Err(e) => return eprintln!("skipped: a network namespace of its own needs root: {e}"),
        };
        let real = namespace.run(Netlink::open).unwrap().unwrap();
        let count = walk(&mut Nftables::new(real, Options::default()));
        eprintln!("counted: {count} changes of ranges on the real kernel");
    }
}
