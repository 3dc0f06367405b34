//! Real servers that wait for their connections to end.

use model::flows::VanishedFlows;

use super::*;

#[test]
fn a_removed_endpoint_waits_for_its_connections_and_a_returning_one_gets_its_weight_back() {
    let (mut mode, clock) = fresh();
    let two = a(&["10.244.0.1", "10.244.0.2"]);
    let one = a(&["10.244.0.1"]);
    let (what, gone, ids) = (tcp("10.96.0.1:80"), at("10.244.0.2:8080"), [id("a", Protocol::Tcp)]);
    everything(&mut mode, &two);
    assert!(mode.doors().servers.set_connections(&what, gone, 1, 0));
    assert!(changed(&mut mode, &one, &ids).drain_after.is_some());
    assert_eq!(weights(&mut mode, &what), [(at("10.244.0.1:8080"), 1), (gone, 0)]);
    clock.pass(7);
    assert!(mode.settle().unwrap().drain_after.is_some(), "it has a connection");
    assert_eq!(mode.leaving(), Some(Leaving { count: 1, longest: Duration::from_secs(7) }));
    assert_eq!(weights(&mut mode, &what).len(), 2);
    // It comes back, and goes again.
    changed(&mut mode, &two, &ids);
    assert_eq!(weights(&mut mode, &what), [(at("10.244.0.1:8080"), 1), (gone, 1)]);
    changed(&mut mode, &one, &ids);
    // Another process finds it, and leaves it in peace.
    let mut second = again(&mut mode, Options::default(), &clock);
    assert!(everything(&mut second, &one).drain_after.is_some());
    assert_eq!(everything(&mut second, &one).operations, 0);
    clock.pass(10);
    assert!(second.settle().unwrap().drain_after.is_some());
    second.doors().servers.set_connections(&what, gone, 0, 0);
    assert_eq!(second.settle().unwrap().drain_after, None);
    assert_eq!(second.leaving(), None);
    assert_eq!(weights(&mut second, &what), [(at("10.244.0.1:8080"), 1)]);
}

#[test]
fn no_endpoint_waits_longer_than_the_operator_allows() {
    let (mut mode, clock) = fresh();
    let what = tcp("10.96.0.1:80");
    everything(&mut mode, &a(&["10.244.0.1", "10.244.0.2"]));
    mode.doors().servers.set_connections(&what, at("10.244.0.2:8080"), 1, 1);
    changed(&mut mode, &a(&["10.244.0.1"]), &[id("a", Protocol::Tcp)]);
    clock.pass(Options::default().drain_limit.as_secs());
    assert_eq!(mode.settle().unwrap().drain_after, None);
    assert_eq!(weights(&mut mode, &what).len(), 1);
}

#[test]
fn endpoints_of_udp_and_of_dh_go_at_once() {
    for (protocol, scheduler) in [("UDP", "rr"), ("SCTP", "rr"), ("TCP", "dh")] {
        let (mut mode, _) = fresh();
        let keys = format!("portway.io/ipvs-scheduler={scheduler}");
        let service = |endpoints: &[&str]| of(&[web_with("a", "10.96.0.1", protocol, endpoints, &keys)]);
        everything(&mut mode, &service(&["10.244.0.1", "10.244.0.2"]));
        let ids = [id("a", Protocol::parse(protocol).unwrap())];
        assert_eq!(changed(&mut mode, &service(&["10.244.0.1"]), &ids).drain_after, None, "{protocol}");
        assert!(servers(&mut mode).iter().all(|one| weights(&mut mode, &one.what).len() == 1), "{protocol}");
    }
}

/// The kernel knows no protocol of a virtual server by mark: a client that keeps its UDP socket would stay with an endpoint that left.
#[test]
fn endpoints_by_mark_go_at_once_unless_their_service_port_is_tcp() {
    for (protocol, left) in [("UDP", 1), ("SCTP", 1), ("TCP", 2)] {
        let (mut mode, _) = fresh();
        let local =
            |endpoints: &[&str]| of(&[web_with("a", "10.96.0.1", protocol, endpoints, "external=Local")]);
        everything(&mut mode, &local(&["10.244.0.1@a", "10.244.0.2@a", "10.244.1.3@b"]));
        let mark = by_mark(&mut mode);
        assert!(mode.doors().servers.set_connections(&mark, at("10.244.0.2:8080"), 0, 1));
        let ids = [id("a", Protocol::parse(protocol).unwrap())];
        changed(&mut mode, &local(&["10.244.0.1@a", "10.244.1.3@b"]), &ids);
        assert_eq!(weights(&mut mode, &mark).len(), left, "{protocol}");
    }
}

#[test]
fn a_vanished_endpoint_goes_at_once_and_others_go_on_draining() {
    let (mut mode, _) = fresh();
    let three = a(&["10.244.0.1", "10.244.0.2", "10.244.0.3"]);
    let one = a(&["10.244.0.1"]);
    let (what, vanished, leaving) = (tcp("10.96.0.1:80"), at("10.244.0.2:8080"), at("10.244.0.3:8080"));
    everything(&mut mode, &three);
    for endpoint in [vanished, leaving] {
        assert!(mode.doors().servers.set_connections(&what, endpoint, 1, 0));
    }
    changed(&mut mode, &one, &[id("a", Protocol::Tcp)]);
    let flows = VanishedFlows {
        port: id("a", Protocol::Tcp),
        endpoint: (vanished.ip(), vanished.port()),
        destinations: [(ip("10.96.0.1"), 80)].into(),
    };
    mode.end_connections(&[flows].into()).unwrap();
    assert_eq!(weights(&mut mode, &what), [(at("10.244.0.1:8080"), 1), (leaving, 0)]);
    // At its cluster IP and at its node port.
    assert_eq!(mode.leaving().map(|leaving| leaving.count), Some(2));
    assert_eq!(everything(&mut mode, &one).operations, 0);
}
