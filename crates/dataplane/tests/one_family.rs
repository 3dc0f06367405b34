//! The nftables mode on a host with IPv4 alone: nothing of IPv6 is read, written or compared.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "it is a test, helpers included")]

mod cluster;

use cluster::Small;
use dataplane::nftables::{Nftables, Options};
use dataplane::{Dataplane, Scope};
use kernel::nft::{Family, Kernel};
use kernel_sim::nft::Simulated;
use kernel_sim::sysctl;

#[test]
fn a_family_that_is_not_served_is_neither_written_nor_compared_nor_removed() {
    let mut small = Small::new();
    small.service("web", "10.96.0.10", "None");
    small.endpoints("web", &["10.244.1.1"]);
    small.service("web6", "fd00::10", "None");
    small.endpoints("web6", &["fd00:1::1"]);
    let beside = |kernel, families: &[model::Family]| {
        Nftables::beside(kernel, families, Options::default(), sysctl::Simulated::default())
    };
    let mut only_v4 = beside(Simulated::default(), &[model::Family::V4]);
    assert!(only_v4.differences(&small.table).unwrap().iter().all(|line| !line.contains("ip6")));
    only_v4.sync(&small.table, Scope::Everything).unwrap();
    assert!(only_v4.kernel().list(Family::V4, "kube-proxy").unwrap().is_some());
    assert_eq!(only_v4.kernel().tables(Family::V6), Ok(Vec::new()));
    assert_eq!(only_v4.differences(&small.table).unwrap(), Vec::<String>::new());

    let mut both = beside(only_v4.kernel().clone(), &model::Family::ALL);
    both.sync(&small.table, Scope::Everything).unwrap();
    let mut only_v4 = beside(both.kernel().clone(), &[model::Family::V4]);
    only_v4.cleanup().unwrap();
    assert_eq!(only_v4.kernel().tables(Family::V4), Ok(Vec::new()));
    assert_eq!(only_v4.kernel().tables(Family::V6).unwrap().len(), 1);
}
