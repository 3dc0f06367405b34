//! A packet may meet two generations of the table: it read "three slots", and the third is gone when it looks there. It lands
//! at the first one. No scenario can say so, because for it a step is at once.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "it is a test, helpers included")]

mod cluster;

use std::time::Duration;

use cluster::Small;
use dataplane::nftables::Options;
use dataplane::nftables::sim::Nftables;
use dataplane::{Dataplane, Scope};
use kernel::IpProtocol;
use kernel::nft::{Element, Family, Kernel, Transaction, Value};
use kernel_sim::nft::{Fate, Path, SimPacket, Simulated};

const TABLE: &str = "kube-proxy";

/// A kernel with a Service of three endpoints, of which all but the first are gone from this map while its class says three.
fn meets_two_generations(affinity: &str, map: &str) -> Simulated {
    let mut small = Small::new();
    small.service("web", "10.96.0.10", affinity);
    small.endpoints("web", &["10.244.1.1", "10.244.1.2", "10.244.1.3"]);
    let mut dataplane = Nftables::new(Simulated::default(), Options::default());
    dataplane.sync(&small.table, Scope::Everything).unwrap();
    let mut kernel = dataplane.kernel().clone();
    let elements = kernel.list(Family::V4, TABLE).unwrap().unwrap().sets[map].elements.clone();
    assert_eq!(elements.len(), 3, "{elements:?}");
    let mut transaction = Transaction::new(Family::V4, TABLE);
    transaction.delete_elements(&map.into(), elements.into_iter().filter(|e| !is_first(e)).collect());
    kernel.run(&transaction).unwrap();
    kernel
}

fn is_first(element: &Element) -> bool {
    element.key.values().any(|value| value == Value::Slot(0))
}

fn packet() -> SimPacket {
    SimPacket {
        family: Family::V4,
        path: Path::Arrives("veth0".into()),
        source: [10, 244, 1, 9].into(),
        destination: [10, 96, 0, 10].into(),
        protocol: IpProtocol::TCP,
        port: Some(80),
        mark: 0,
        priority: 0,
        local: std::collections::BTreeSet::new(),
    }
}

fn assert_lands_at_the_first(mut kernel: Simulated) {
    for drawn in 0..3 {
        let outcome = kernel.send(&packet(), Duration::from_secs(1), &mut |modulus| drawn % modulus);
        assert_eq!(outcome.fate, Fate::Dnat([10, 244, 1, 1].into(), Some(8080)), "drawn {drawn}");
    }
}

#[test]
fn a_packet_whose_slot_is_gone_lands_at_the_first() {
    assert_lands_at_the_first(meets_two_generations("None", "endpoints"));
}

#[test]
fn a_packet_of_a_sticky_service_whose_slot_is_gone_lands_at_the_first() {
    assert_lands_at_the_first(meets_two_generations("ClientIP", "sticky-slots"));
}

#[test]
fn what_a_packet_may_still_look_for_goes_later() {
    let mut small = Small::new();
    small.service("web", "10.96.0.10", "None");
    small.endpoints("web", &["10.244.1.1", "10.244.1.2", "10.244.1.3"]);
    let mut dataplane = Nftables::new(Simulated::default(), Options::default());
    dataplane.sync(&small.table, Scope::Everything).unwrap();
    small.take_changed();
    small.endpoints("web", &["10.244.1.1"]);
    let changed = small.take_changed();
    let synced = dataplane.sync(&small.table, Scope::Changed(&changed)).unwrap();
    assert!(synced.settle_after.is_some());
    let count = |dataplane: &mut Nftables<Simulated>, set: &str| {
        dataplane.kernel().list(Family::V4, TABLE).unwrap().unwrap().sets[set].elements.len()
    };
    assert_eq!((count(&mut dataplane, "endpoints"), count(&mut dataplane, "classes")), (3, 2));
    let synced = dataplane.settle().unwrap();
    assert_eq!(synced.settle_after, None);
    assert_eq!((count(&mut dataplane, "endpoints"), count(&mut dataplane, "classes")), (1, 1));
}
