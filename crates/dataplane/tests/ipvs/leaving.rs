//! Another mode serves: what this one left goes as connections leave it. And what somebody takes away is noticed.

use dataplane::ipvs::{Traces, Withdrawn, withdraw};
use dataplane::upstream;
use model::flows::StaleFlows;

use super::*;
use crate::owners::of_upstream;

const SETTINGS: [&str; 3] =
    ["net/ipv4/vs/conntrack", "net/ipv4/vs/expire_nodest_conn", "net/ipv4/ip_forward"];

/// Two Services of TCP and one of UDP, each at its cluster IP and at a node port; their chains are gone already.
fn left_behind() -> Mode {
    let mut before = kernel();
    before.settings.values.extend(SETTINGS.map(|name| (name.to_owned(), "0".to_owned())));
    let mut mode = on(&before);
    let services = [
        web("a", "10.96.0.1", "TCP", &["10.244.0.1"]),
        web("b", "10.96.0.2", "TCP", &["10.244.0.1"]),
        web("c", "10.96.0.3", "UDP", &["10.244.0.1"]),
    ];
    everything(&mut mode, &of(&services));
    mode.programs().for_each(|door| upstream::clear_all(known_chains(), door).unwrap());
    mode
}

fn leave(mode: &mut Mode, whatever: bool) -> (Withdrawn, BTreeSet<StaleFlows>) {
    let mut forgotten = BTreeSet::new();
    let withdrawn = withdraw(mode.doors(), whatever, &mut |stale| {
        forgotten.extend(stale.iter().cloned());
        Ok(())
    });
    (withdrawn.unwrap(), forgotten)
}

#[track_caller]
fn nothing_is_left(mode: &mut Mode) {
    assert_eq!(servers(mode), []);
    assert!(mode.doors().sets().sets().unwrap().is_empty());
    assert!(mode.doors().host().links().unwrap().iter().all(|link| link.name != DUMMY));
    assert!(Traces::read(mode.doors(), &Options::default()).unwrap().is_empty());
}

#[test]
fn what_no_connection_goes_through_goes_and_the_rest_with_its_last_connection() {
    let mut mode = left_behind();
    let (held, endpoint) = (tcp("10.96.0.1:80"), at("10.244.0.1:8080"));
    assert!(mode.doors().servers.set_connections(&held, endpoint, 1, 2));
    let (withdrawn, forgotten) = leave(&mut mode, false);
    assert_eq!(withdrawn, Withdrawn { servers: 5, addresses: 2, waiting: 1, connections: 3, used_sets: 0 });
    assert_eq!(forgotten, BTreeSet::new(), "flows may be the other mode's");
    assert!(is_bound(&mut mode, "10.96.0.1") && !is_bound(&mut mode, "10.96.0.2"));
    assert_eq!(weights(&mut mode, &held), [(endpoint, 1)], "what is open goes on");
    let bound = mode.doors().sets().entries(&SetId::Bound.name(model::Family::V4)).unwrap().unwrap();
    assert_eq!(bound.into_iter().collect::<Vec<_>>(), [Entry::Ip(ip("10.96.0.1"))]);

    assert_eq!(leave(&mut mode, false).0.waiting, 1);
    mode.doors().servers.set_connections(&held, endpoint, 0, 0);
    let rest = Withdrawn { servers: 1, addresses: 1, ..Withdrawn::default() };
    assert_eq!(leave(&mut mode, false).0, rest);
    nothing_is_left(&mut mode);
}

#[test]
fn settings_come_back_but_for_forwarding_which_the_other_mode_needs() {
    let mut mode = left_behind();
    for expected in [["1", "1", "1"], ["0", "0", "1"]] {
        let values = SETTINGS.map(|name| mode.doors().settings().read(name).unwrap().unwrap());
        assert_eq!(values, expected);
        leave(&mut mode, false);
    }
}

#[test]
fn after_the_last_respite_everything_goes_and_datagrams_take_the_new_way() {
    let mut mode = left_behind();
    let udp = What::Address(at("10.96.0.3:80"), Number::UDP);
    for what in [tcp("10.96.0.1:80"), udp] {
        assert!(mode.doors().servers.set_connections(&what, at("10.244.0.1:8080"), 0, 1));
    }
    assert_eq!(leave(&mut mode, false).0.waiting, 2);
    let (withdrawn, forgotten) = leave(&mut mode, true);
    assert_eq!(withdrawn.waiting, 0);
    let udp: Vec<_> = forgotten.iter().map(|flows| (flows.protocol, flows.destination)).collect();
    assert_eq!(udp, [(Protocol::Udp, (ip("10.96.0.3"), 80))]);
    nothing_is_left(&mut mode);
}

/// What the user saw: without iptables programs, sets stayed for good. The kernel lets go of deleted rules a little later.
#[test]
fn sets_that_rules_still_use_wait_with_all_records_and_go_later() {
    let (mut mode, _) = fresh();
    everything(&mut mode, &a(&["10.244.0.1"]));
    let sets = mode.doors().sets().sets().unwrap().len();
    let withdrawn = leave(&mut mode, false).0;
    assert!(withdrawn.used_sets > 0 && withdrawn.servers == 2, "{withdrawn:?}");
    assert_eq!(mode.doors().sets().sets().unwrap().len(), sets, "all or none");
    assert!(!Traces::read(mode.doors(), &Options::default()).unwrap().is_empty(), "the next one finds them");
    mode.programs().for_each(|door| upstream::clear_all(known_chains(), door).unwrap());
    assert_eq!(leave(&mut mode, false).0.used_sets, 0);
    nothing_is_left(&mut mode);
}

#[test]
fn who_came_by_mark_keeps_every_address_that_he_may_have_dialled() {
    let table = table_of(
        "svc a 10.96.0.1 80 type=LoadBalancer external=Local ips=203.0.113.7\nep a 8080 10.244.0.1@a",
    );
    let (mut mode, _) = fresh();
    everything(&mut mode, &table);
    mode.programs().for_each(|door| upstream::clear_all(known_chains(), door).unwrap());
    let mark = by_mark(&mut mode);
    assert!(mode.doors().servers.set_connections(&mark, at("10.244.0.1:8080"), 1, 0));
    assert_eq!(leave(&mut mode, false).0.waiting, 1);
    assert!(is_bound(&mut mode, "203.0.113.7") && !is_bound(&mut mode, "10.96.0.1"));
    mode.doors().servers.set_connections(&mark, at("10.244.0.1:8080"), 0, 0);
    leave(&mut mode, false);
    nothing_is_left(&mut mode);
}

#[test]
fn what_upstream_left_is_told_and_stays() {
    let mut twin = kernel();
    of_upstream(&mut twin);
    let before = shown(&mut twin).unwrap();
    let mut mode = on(&twin);
    assert_eq!(leave(&mut mode, true).0, Withdrawn::default());
    assert_eq!(shown(mode.doors()).unwrap(), before);
    let traces = Traces::read(mode.doors(), &Options::default()).unwrap();
    let expected = Traces { servers: 3, addresses: 2, sets: 1, chains: 0, has_interface: true };
    assert_eq!(traces, expected, "the stranger's is not counted");
}

#[test]
fn an_address_or_the_interface_that_somebody_takes_away_is_noticed() {
    let (mut mode, _) = fresh();
    let table = a(&["10.244.0.1"]);
    everything(&mut mode, &table);
    assert!(!mode.is_flushed().unwrap());
    mode.doors().host().delete_addresses(DUMMY, &[ip("10.96.0.1")]).unwrap();
    assert!(mode.is_flushed().unwrap());
    everything(&mut mode, &table);
    assert!(!mode.is_flushed().unwrap());
    mode.doors().host().delete_dummy(DUMMY).unwrap();
    assert!(mode.is_flushed().unwrap());
    everything(&mut mode, &table);
    assert!(!mode.is_flushed().unwrap() && is_bound(&mut mode, "10.96.0.1"));
}
