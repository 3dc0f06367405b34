//! Which flows are forgotten and which go on, on a simulated connection tracker.

use kernel::conntrack::{Tuple, Zone};
use kernel_sim::conntrack::Simulated;

use super::*;

fn at(text: &str) -> (IpAddr, u16) {
    let (ip, port) = text.rsplit_once(' ').expect("an address and a port");
    (ip.parse().unwrap(), port.parse().unwrap())
}

const TCP: IpProtocol = IpProtocol::TCP;
const UDP: IpProtocol = IpProtocol::UDP;
const SCTP: IpProtocol = IpProtocol::SCTP;

/// A flow of this protocol from a client to the first, answered by the second.
fn flow(id: u32, protocol: IpProtocol, to: &str, answers: &str) -> Entry {
    let (to, answers) = (at(to), at(answers));
    let client = at(if to.0.is_ipv4() { "10.244.0.9 40000" } else { "fd00:244::9 40000" });
    let original = Tuple { source: client, destination: to };
    let reply = Tuple { source: answers, destination: client };
    Entry { protocol, original, reply, zone: Zone::default(), id: Some(id) }
}

fn tracker(flows: &[(IpProtocol, &str, &str)]) -> Simulated {
    let numbered = (1..).zip(flows).map(|(id, (protocol, to, answers))| flow(id, *protocol, to, answers));
    Simulated { entries: numbered.collect(), ..Simulated::default() }
}

fn stale(protocol: Protocol, destination: &str, still_served_by: &[&str]) -> StaleFlows {
    let still_served_by = still_served_by.iter().map(|text| at(text)).collect();
    StaleFlows { protocol, destination: at(destination), still_served_by }
}

/// Forgets in every way; all leave the same flows, which are returned by number.
fn left(flows: &[(IpProtocol, &str, &str)], stale: &[StaleFlows]) -> Vec<u32> {
    let stale: BTreeSet<_> = stale.iter().cloned().collect();
    let mut answers = Vec::new();
    for way in [Way::OneByOne, Way::AllAtOnce, Way::Quicker] {
        for (sends_everything, shows_twice) in [(false, false), (false, true), (true, false)] {
            let mut tracker = Simulated { sends_everything, shows_twice, ..tracker(flows) };
            let done = forget_by(way, &mut tracker, &stale).unwrap();
            let mut left: Vec<_> = tracker.entries.iter().filter_map(|entry| entry.id).collect();
            left.sort_unstable();
            assert_eq!(usize::try_from(done.forgotten).unwrap(), flows.len() - left.len(), "{way:?}");
            answers.push(left);
        }
    }
    assert!(answers.windows(2).all(|pair| pair[0] == pair[1]), "{answers:?}");
    answers.remove(0)
}

#[test]
fn flows_of_others_are_left_alone() {
    let flows = [
        (UDP, "10.96.0.10 53", "10.244.1.5 53"),
        (UDP, "10.96.0.10 54", "10.244.1.5 53"),
        (UDP, "10.96.0.11 53", "10.244.1.5 53"),
        (UDP, "10.244.1.5 53", "10.244.1.5 53"),
        (SCTP, "10.96.0.10 53", "10.244.1.5 53"),
        (UDP, "fd00:96::10 53", "fd00:244::5 53"),
    ];
    assert_eq!(left(&flows, &[stale(Protocol::Udp, "10.96.0.10 53", &[])]), [2, 3, 4, 5, 6]);
    assert_eq!(left(&flows, &[]), [1, 2, 3, 4, 5, 6]);
}

#[test]
fn flows_whose_endpoint_serves_go_on_and_untranslated_ones_do_not() {
    let flows = [
        (UDP, "10.96.0.10 53", "10.244.1.5 53"),
        (UDP, "10.96.0.10 53", "10.244.1.5 5353"),
        (UDP, "10.96.0.10 53", "10.244.1.6 53"),
        (UDP, "10.96.0.10 53", "10.96.0.10 53"),
    ];
    let served = stale(Protocol::Udp, "10.96.0.10 53", &["10.244.1.5 53"]);
    assert_eq!(left(&flows, &[served]), [1]);
}

#[test]
fn both_families_and_udp_and_sctp_are_forgotten() {
    let flows = [
        (UDP, "10.96.0.10 53", "10.244.1.5 53"),
        (SCTP, "10.96.0.10 53", "10.244.1.5 53"),
        (UDP, "fd00:96::10 53", "fd00:244::5 53"),
        (SCTP, "fd00:96::10 53", "fd00:244::5 53"),
        (UDP, "fd00:96::10 53", "fd00:244::6 53"),
    ];
    let all = [
        stale(Protocol::Udp, "10.96.0.10 53", &[]),
        stale(Protocol::Sctp, "10.96.0.10 53", &[]),
        stale(Protocol::Udp, "fd00:96::10 53", &["fd00:244::6 53"]),
        stale(Protocol::Sctp, "fd00:96::10 53", &[]),
    ];
    assert_eq!(left(&flows, &all), [5]);
}

#[test]
fn tcp_is_never_forgotten() {
    let flows = [(TCP, "10.96.0.10 53", "10.244.1.5 53"), (UDP, "10.96.0.10 53", "10.244.1.5 53")];
    assert_eq!(left(&flows, &[stale(Protocol::Tcp, "10.96.0.10 53", &[])]), [1, 2]);
    assert_eq!(left(&flows, &[stale(Protocol::Udp, "10.96.0.10 53", &[])]), [1]);
}

#[test]
fn few_destinations_are_asked_for_one_by_one_and_many_at_once() {
    let destinations = |count| -> BTreeSet<_> {
        (0..count).map(|n| stale(Protocol::Udp, &format!("10.96.0.{n} 53"), &[])).collect()
    };
    let listings = |count, sends_everything| {
        let mut tracker = Simulated { sends_everything, ..Simulated::default() };
        forget(&mut tracker, &destinations(count)).unwrap();
        tracker.listings
    };
    let all = [Filter::Protocol(Family::V4, UDP)];
    assert_eq!(listings(0, false), []);
    assert_eq!(listings(1, false), [Filter::Destination(UDP, at("10.96.0.0 53"))]);
    assert_eq!(listings(ONE_BY_ONE_LIMIT, false).len(), ONE_BY_ONE_LIMIT);
    assert_eq!(listings(ONE_BY_ONE_LIMIT + 1, false), all);
    assert_eq!(listings(1, true), all);
}

#[test]
fn a_flow_that_ends_by_itself_meanwhile_is_no_error_and_not_counted() {
    let mut tracker =
        tracker(&[(UDP, "10.96.0.10 53", "10.244.1.5 53"), (UDP, "10.96.0.11 53", "10.244.1.5 53")]);
    tracker.ending = BTreeSet::from([flow(1, UDP, "10.96.0.10 53", "10.244.1.5 53")]);
    let both = ["10.96.0.10 53", "10.96.0.11 53"].map(|to| stale(Protocol::Udp, to, &[]));
    let done = forget(&mut tracker, &both.into()).unwrap();
    assert_eq!(done, Forgotten { looked_at: 2, forgotten: 1 });
    assert_eq!(tracker.entries, BTreeSet::new());
}

#[test]
fn a_kernel_that_fails_is_told_of() {
    let mut tracker = Simulated { fault: Some(Error::NotPermitted), ..Simulated::default() };
    let one = BTreeSet::from([stale(Protocol::Udp, "10.96.0.10 53", &[])]);
    assert_eq!(forget(&mut tracker, &one), Err(Error::NotPermitted));
    assert_eq!(forget(&mut tracker, &BTreeSet::new()), Ok(Forgotten::default()), "nothing is asked");
}

/// Every flow of a small world against every stale set of it: what goes is what the model's own words say.
#[test]
fn what_is_forgotten_is_what_the_model_calls_stale() {
    let (destinations, endpoints) =
        (["10.96.0.1 53", "10.96.0.2 53", "10.96.0.1 54"], ["10.244.0.1 53", "10.244.0.2 53"]);
    let mut flows = Vec::new();
    for protocol in [TCP, UDP, SCTP] {
        flows.extend(
            destinations
                .iter()
                .flat_map(|to| endpoints.iter().chain([to]).map(move |by| (protocol, *to, *by))),
        );
    }
    let mut sets = Vec::new();
    for protocol in Protocol::ALL {
        for to in destinations {
            sets.extend(
                [&endpoints[..0], &endpoints[..1], &endpoints[1..], &endpoints[..]]
                    .map(|by| stale(protocol, to, by)),
            );
        }
    }
    let mut count = 0;
    for (first, second) in sets.iter().flat_map(|first| sets.iter().map(move |second| (first, second))) {
        let is_kept = |(protocol, to, by): &(IpProtocol, &str, &str)| {
            let protocol = protocol.transport().unwrap();
            let flow = Flow { protocol, destination: at(to), answered_by: at(by) };
            protocol == Protocol::Tcp || !first.contains(&flow) && !second.contains(&flow)
        };
        let expected: Vec<u32> =
            (1..).zip(&flows).filter(|(_, flow)| is_kept(flow)).map(|(id, _)| id).collect();
        assert_eq!(left(&flows, &[first.clone(), second.clone()]), expected, "{first:?} {second:?}");
        count += 1;
    }
    eprintln!("counted: {count} pairs of stale sets over {} flows", flows.len());
}

fn vanished(endpoint: &str, destinations: &[&str]) -> VanishedFlows {
    let port = ServicePortId {
        service: model::ServiceName::new("default", "web"),
        port: "".into(),
        protocol: Protocol::Tcp,
    };
    let destinations = destinations.iter().map(|text| at(text)).collect();
    VanishedFlows { port, endpoint: at(endpoint), destinations }
}

#[test]
fn only_connections_to_the_vanished_endpoint_end_whatever_the_kernel_sends() {
    let flows = [
        (TCP, "10.96.0.10 80", "10.244.1.5 8080"),
        (TCP, "192.168.0.1 30080", "10.244.1.5 8080"),
        (TCP, "10.96.0.10 80", "10.244.1.6 8080"),
        (TCP, "10.244.1.5 8080", "10.244.1.5 8080"),
        (TCP, "10.96.0.11 80", "10.244.1.5 8080"),
        (UDP, "10.96.0.10 80", "10.244.1.5 8080"),
        (TCP, "fd00:96::10 80", "fd00:244::5 8080"),
        (TCP, "fd00:96::10 80", "fd00:244::6 8080"),
    ];
    let all = BTreeSet::from([
        vanished("10.244.1.5 8080", &["10.96.0.10 80", "192.168.0.1 30080"]),
        vanished("fd00:244::5 8080", &["fd00:96::10 80"]),
    ]);
    for (sends_everything, shows_twice) in [(false, false), (false, true), (true, false)] {
        let mut tracker = Simulated { sends_everything, shows_twice, ..tracker(&flows) };
        let found = Found::read(&mut tracker, &all).unwrap();
        let ended = found.delete(&mut tracker).unwrap();
        assert_eq!(ended.values().copied().collect::<Vec<_>>(), [2, 1]);
        let mut left: Vec<_> = tracker.entries.iter().filter_map(|entry| entry.id).collect();
        left.sort_unstable();
        assert_eq!(left, [3, 4, 5, 6, 8]);
    }
}

#[test]
fn sockets_of_this_host_are_ended_and_a_kernel_that_cannot_says_so() {
    let mut tracker = tracker(&[(TCP, "10.96.0.10 80", "10.244.1.5 8080")]);
    let all = BTreeSet::from([vanished("10.244.1.5 8080", &["10.96.0.10 80"])]);
    let found = Found::read(&mut tracker, &all).unwrap();
    let socket = ("10.244.0.9:40000".parse().unwrap(), "10.96.0.10:80".parse().unwrap());
    let other = ("10.244.0.9:40001".parse().unwrap(), "10.96.0.10:80".parse().unwrap());
    let mut sockets =
        kernel_sim::sock_diag::Simulated { sockets: BTreeSet::from([socket, other]), fault: None };
    assert_eq!(found.end_sockets(&mut sockets, |_| false), Ok(0));
    assert_eq!(found.end_sockets(&mut sockets, |ip| ip == socket.0.ip()), Ok(1));
    assert_eq!(sockets.sockets, BTreeSet::from([other]));
    sockets.fault = Some(sock_diag::Error::Unsupported);
    assert_eq!(found.end_sockets(&mut sockets, |_| true), Err(sock_diag::Error::Unsupported));
}
