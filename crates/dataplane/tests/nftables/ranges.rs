//! Ranges that shrink, grow and split: the kernel takes no two that overlap, so the old one goes with the new one's coming. And a source
//! that may not come any more is kept out from the same moment on.

use std::time::Duration;

use kernel::IpProtocol;
use kernel_sim::nft::{Fate, Path, SimPacket};
use serde_json::json;

use super::*;

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
    let keys = if ranges.is_empty() { String::new() } else { format!("ranges={}", ranges.join(",")) };
    small.say(&format!("svc web 10.96.0.10 80 lb=198.51.100.1 {keys}"));
    small.apply(&json!({"kind": "ServiceCIDR", "metadata": {"name": "all"}, "spec": {"cidrs": ranges}}));
}

/// Goes from each of the steps to each other one, with and without time for deletions in between.
fn walk<K: Kernel>(mode: &mut Nftables<K>) -> usize {
    let (mut small, mut count) = (Small::new(), 0);
    for settles in [true, false] {
        for (from, to) in STEPS.iter().flat_map(|from| STEPS.iter().map(move |to| (from, to))) {
            for ranges in [from, to] {
                set_ranges(&mut small, ranges);
                let synced = changed(mode, &mut small);
                assert!(synced.refused.is_empty(), "{from:?} to {to:?}: {synced:?}");
                if settles {
                    mode.settle().unwrap();
                }
            }
            count += 1;
        }
    }
    mode.settle().unwrap();
    assert_as_from_scratch(mode, &small.table);
    count
}

#[test]
fn ranges_follow_each_other_on_the_twin() {
    eprintln!("counted: {} changes of ranges", walk(&mut empty()));
}

/// A Service of this address of a load balancer, to which these may come.
fn load_balancer(small: &mut Small, name: &str, ip: &str, range: &str) {
    small.apply(&json!({
        "kind": "Service", "metadata": {"name": name, "namespace": "default"},
        "spec": {"type": "LoadBalancer", "clusterIPs": [ip], "ports": [{"port": 80}], "loadBalancerSourceRanges": [range]},
        "status": {"loadBalancer": {"ingress": [{"ip": "198.51.100.1"}]}},
    }));
}

/// Where packets of 203.0.113.77 and of 192.168.5.7 to the load balancer end.
fn ends(kernel: &Simulated) -> [Fate; 2] {
    [[203, 0, 113, 77], [192, 168, 5, 7]].map(|source| {
        let packet = SimPacket {
            family: Family::V4,
            path: Path::Arrives("uplink0".into()),
            source: source.into(),
            destination: [198, 51, 100, 1].into(),
            protocol: IpProtocol::TCP,
            port: Some(80),
            mark: 0,
            priority: 0,
            local: BTreeSet::new(),
        };
        kernel.clone().send(&packet, Duration::from_secs(1), &mut |_| 0).fate
    })
}

#[test]
fn a_client_of_the_service_that_had_the_address_does_not_reach_the_next_one() {
    let mut small = Small::new();
    load_balancer(&mut small, "old", "10.96.0.10", "203.0.113.0/24");
    let mut dataplane = written(&mut small);
    let kernel = dataplane.kernel().clone();
    small.remove("old");
    load_balancer(&mut small, "new", "10.96.0.11", "192.168.0.0/16");
    small.endpoints("new", &["10.244.1.1"]);
    let changed = small.take_changed();
    for (mut dataplane, scope) in [(fresh(&kernel), Scope::Everything), (dataplane, Scope::Changed(&changed))]
    {
        assert!(matches!(ends(dataplane.kernel()), [Fate::Rejected(_), Fate::Dropped]));
        dataplane.sync(&small.table, scope).unwrap();
        // What may wait for its deletion is still there.
        assert_eq!(
            ends(dataplane.kernel()),
            [Fate::Dropped, Fate::Dnat([10, 244, 1, 1].into(), Some(8080))],
            "{scope:?}"
        );
    }
}

#[test]
fn a_source_whose_range_is_taken_out_is_dropped_though_the_ranges_that_stay_are_as_they_were() {
    let mut small = Small::new();
    set_ranges(&mut small, &["192.168.0.0/16", "203.0.113.0/24"]);
    small.endpoints("web", &["10.244.1.1"]);
    let mut dataplane = written(&mut small);
    set_ranges(&mut small, &["192.168.0.0/16"]);
    let mut restarted = fresh(dataplane.kernel());
    changed(&mut dataplane, &mut small);
    everything(&mut restarted, &small);
    for kernel in [dataplane.kernel(), restarted.kernel()] {
        assert_eq!(ends(kernel), [Fate::Dropped, Fate::Dnat([10, 244, 1, 1].into(), Some(8080))]);
    }
}

mod needs_root {
    use super::*;

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
