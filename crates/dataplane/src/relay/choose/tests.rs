//! Choices without sockets: spread, weights, churn, health and affinity.

use std::collections::BTreeMap;

use model::Endpoint;
use model::Place;
use model::table::How;

use super::*;

fn pool(endpoints: &[(u8, u16)]) -> Pool {
    let endpoint = |&(last, slots): &(u8, u16)| Endpoint {
        address: [10, 0, 0, last].into(),
        port: 80,
        slots,
        place: Place::Unknown,
    };
    Pool::new(How::Ready, endpoints.iter().map(endpoint).collect())
}

fn address(last: u8) -> SocketAddr {
    ([10, 0, 0, last], 80).into()
}

fn choice(endpoints: &[(u8, u16)], affinity: Option<Duration>) -> Choice {
    let mut choice = Choice::new(Arc::default());
    choice.bring_to(&pool(endpoints), affinity);
    choice
}

const CLIENT: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));

fn last_of(chosen: Option<Chosen>) -> u8 {
    match chosen.map(|chosen| chosen.address.ip()) {
        Some(IpAddr::V4(ip)) => ip.octets()[3],
        other => panic!("no endpoint chosen: {other:?}"),
    }
}

fn next(choice: &mut Choice, now: Instant) -> u8 {
    last_of(choice.choose(now, CLIENT, &[]))
}

fn count(choice: &mut Choice, now: Instant, times: usize) -> BTreeMap<u8, usize> {
    let mut counts = BTreeMap::new();
    (0..times).for_each(|_| *counts.entry(next(choice, now)).or_default() += 1);
    counts
}

#[test]
fn each_endpoint_is_taken_exactly_as_often_as_it_has_slots() {
    let (now, mut choice) = (Instant::now(), choice(&[(1, 5), (2, 1), (3, 2)], None));
    for _ in 0..10 {
        assert_eq!(count(&mut choice, now, 8), BTreeMap::from([(1, 5), (2, 1), (3, 2)]));
    }
}

#[test]
fn a_heavy_endpoint_is_not_taken_in_a_burst() {
    let (now, mut choice) = (Instant::now(), choice(&[(1, 5), (2, 1), (3, 1)], None));
    let order: Vec<u8> = (0..7).map(|_| next(&mut choice, now)).collect();
    assert_eq!(order, [1, 1, 1, 2, 3, 1, 1]);
}

#[test]
fn endpoints_that_come_and_go_do_not_favour_any_that_stays() {
    let (now, mut choice) = (Instant::now(), choice(&[(1, 1)], None));
    let mut counts = BTreeMap::new();
    for round in 0..4000u32 {
        // After every single choice the pool changes: one more or less, each time another one.
        let guest = 100 + u8::try_from(round % 100).unwrap();
        let mut endpoints = vec![(1, 1), (2, 1), (3, 1), (4, 1)];
        if round % 2 == 0 {
            endpoints.push((guest, 1));
        }
        choice.bring_to(&pool(&endpoints), None);
        *counts.entry(next(&mut choice, now)).or_insert(0) += 1;
    }
    let stayed: Vec<i32> = (1..=4).map(|last| counts.get(&last).copied().unwrap_or(0)).collect();
    let (least, most) = (stayed.iter().min().unwrap(), stayed.iter().max().unwrap());
    assert!(*least >= 800 && most - least <= 4, "{stayed:?}");
}

#[test]
fn scaling_up_does_not_send_a_wave_to_the_new_endpoints() {
    let (now, mut choice) = (Instant::now(), choice(&[(1, 1), (2, 1)], None));
    count(&mut choice, now, 101);
    choice.bring_to(&pool(&[(1, 1), (2, 1), (3, 1), (4, 1)]), None);
    let counts = count(&mut choice, now, 8);
    assert!(counts.values().all(|count| (1..=3).contains(count)) && counts.len() == 4, "{counts:?}");
}

#[test]
fn a_failed_dial_goes_to_every_other_endpoint_before_it_gives_up() {
    let (now, mut choice) = (Instant::now(), choice(&[(1, 1), (2, 1), (3, 1)], None));
    let mut tried = Vec::new();
    for _ in 0..3 {
        let chosen = choice.choose(now, CLIENT, &tried).unwrap();
        assert!(!tried.iter().any(|t: &Tried| t.address == chosen.address));
        tried.push(Tried { address: chosen.address, was_silent: false });
    }
    assert!(choice.choose(now, CLIENT, &tried).is_none());
}

#[test]
fn silence_is_tried_again_where_nothing_else_is_left_and_a_refusal_is_not() {
    let (now, mut choice) = (Instant::now(), choice(&[(1, 1), (2, 1)], None));
    let tried =
        [Tried { address: address(1), was_silent: true }, Tried { address: address(2), was_silent: false }];
    assert_eq!(last_of(choice.choose(now, CLIENT, &tried)), 1);
    let tried = [tried[0], tried[1], Tried { address: address(1), was_silent: false }];
    assert!(choice.choose(now, CLIENT, &tried).is_none());
}

#[test]
fn an_endpoint_that_fails_is_left_out_until_a_probe_succeeds() {
    let (start, mut choice) = (Instant::now(), choice(&[(1, 1), (2, 1)], None));
    (0..3).for_each(|_| choice.failed(start, CLIENT, address(1)));
    assert_eq!(count(&mut choice, start, 10), BTreeMap::from([(2, 10)]));
    let later = start + Duration::from_secs(1);
    assert_eq!(count(&mut choice, later, 10).get(&1), Some(&1), "one probe");
    choice.succeeded(address(1));
    // It makes up for one turn at most of all that it has missed.
    assert!((5..=6).contains(&count(&mut choice, later, 10)[&1]));
}

#[test]
fn when_all_endpoints_fail_all_are_still_tried() {
    let (now, mut choice) = (Instant::now(), choice(&[(1, 1), (2, 1)], None));
    for last in [1, 2] {
        (0..3).for_each(|_| choice.failed(now, CLIENT, address(last)));
    }
    assert_eq!(count(&mut choice, now, 10), BTreeMap::from([(1, 5), (2, 5)]));
}

#[test]
fn a_client_stays_with_its_endpoint_while_it_comes_back_in_time() {
    let (start, timeout) = (Instant::now(), Duration::from_secs(10));
    let mut choice = choice(&[(1, 1), (2, 1), (3, 1)], Some(timeout));
    let first = next(&mut choice, start);
    for step in 1..20 {
        assert_eq!(next(&mut choice, start + step * timeout / 2), first);
    }
    let others: Vec<u8> =
        (1..=3).map(|last| last_of(choice.choose(start, [192, 0, 2, 100 + last].into(), &[]))).collect();
    assert!(others.iter().any(|other| *other != first), "{others:?}");
}

#[test]
fn a_client_moves_when_its_endpoint_left_or_failed() {
    let (now, timeout) = (Instant::now(), Some(Duration::from_secs(10)));
    let mut choice = choice(&[(1, 1), (2, 1)], timeout);
    let first = next(&mut choice, now);
    let other = 3 - first;
    choice.bring_to(&pool(&[(other, 1)]), timeout);
    assert_eq!(next(&mut choice, now), other);
    choice.bring_to(&pool(&[(1, 1), (2, 1)]), timeout);
    assert_eq!(next(&mut choice, now), other, "it is remembered where it went since");
    choice.failed(now, CLIENT, address(other));
    let tried = [Tried { address: address(other), was_silent: false }];
    assert_eq!(last_of(choice.choose(now, CLIENT, &tried)), first);
    assert_eq!(next(&mut choice, now), first);
}

#[test]
fn listeners_of_one_service_port_share_what_they_remember() {
    let (now, timeout) = (Instant::now(), Some(Duration::from_secs(10)));
    let memory = Arc::default();
    let [mut cluster, mut outside] = [(); 2].map(|()| Choice::new(Arc::clone(&memory)));
    cluster.bring_to(&pool(&[(1, 1), (2, 1), (3, 1)]), timeout);
    outside.bring_to(&pool(&[(1, 1), (2, 1), (3, 1), (4, 1)]), timeout);
    next(&mut outside, now);
    assert_eq!(next(&mut cluster, now), next(&mut outside, now));
}

#[test]
fn an_endpoint_that_left_is_counted_as_long_as_it_has_connections() {
    let (now, mut choice) = (Instant::now(), choice(&[(1, 1)], None));
    let chosen = choice.choose(now, CLIENT, &[]).unwrap();
    chosen.tally.opened();
    choice.bring_to(&pool(&[(2, 1)]), None);
    assert_eq!(
        choice.counts().iter().map(|(a, c)| (*a, c.active)).collect::<Vec<_>>(),
        [(address(2), 0), (address(1), 1)]
    );
    chosen.tally.closed();
    assert_eq!(choice.counts().len(), 1);
}
