//! Ranges that shrink, grow and split: the kernel takes no two that overlap, so the old one goes with the new one's coming.

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
                let synced = small.follow(mode);
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

mod needs_root {
    use super::*;

    #[test]
    fn root_ranges_follow_each_other_on_the_real_kernel() {
        let Some(namespace) = Namespace::create_or_skip() else { return };
        let real = namespace.run(Netlink::open).unwrap().unwrap();
        let count = walk(&mut Nftables::new(real, Options::default()));
        eprintln!("counted: {count} changes of ranges on the real kernel");
    }
}
