//! A packet may meet two generations of the table: it read "three slots", and the third is gone when it looks there. It lands
//! at the first one. No scenario can say so, because for it a step is at once.

use std::time::Duration;

use dataplane::sim::cluster::tcp;
use dataplane::sim::sim_packet;
use kernel::nft::Value;
use kernel_sim::nft::Fate;

use super::*;

fn three(affinity: &str) -> Small {
    Small::of(&format!(
        "svc web 10.96.0.10 80 affinity={affinity}\nep web 8080 10.244.1.1@a 10.244.1.2@a 10.244.1.3@a"
    ))
}

/// Of three endpoints all but the first are gone from this map while the Service's class says three.
fn lands_at_the_first(affinity: &str, map: &str) {
    let mut small = three(affinity);
    let mut kernel = written(&mut small).kernel().clone();
    let slots = elements(&mut kernel, map);
    assert_eq!(slots.len(), 3, "{slots:?}");
    let is_first = |element: &Element| element.key.values().any(|value| value == Value::Slot(0));
    let others = slots.into_iter().filter(|element| !is_first(element)).collect();
    write(&mut kernel, Family::V4, TABLE, [Operation::DeleteElements(map.into(), others)]);
    let packet = sim_packet(&tcp("10.244.1.9", "10.96.0.10:80", Some("veth0")), small.table.node());
    for drawn in 0..3 {
        let outcome = kernel.send(&packet, Duration::from_secs(1), &mut |modulus| drawn % modulus);
        assert_eq!(outcome.fate, Fate::Dnat([10, 244, 1, 1].into(), Some(8080)), "drawn {drawn}");
    }
}

#[test]
fn a_packet_whose_slot_is_gone_lands_at_the_first() {
    lands_at_the_first("None", "endpoints");
}

#[test]
fn a_packet_of_a_sticky_service_whose_slot_is_gone_lands_at_the_first() {
    lands_at_the_first("ClientIP", "sticky-slots");
}

#[test]
fn what_a_packet_may_still_look_for_goes_later() {
    let mut small = three("None");
    let mut mode = written(&mut small);
    small.endpoints("web", &["10.244.1.1"]);
    assert!(small.follow(&mut mode).settle_after.is_some());
    let count = |mode: &mut Mode| ["endpoints", "classes"].map(|set| elements(mode.kernel(), set).len());
    assert_eq!(count(&mut mode), [3, 2]);
    assert_eq!(mode.settle().unwrap().settle_after, None);
    assert_eq!(count(&mut mode), [1, 1]);
}
