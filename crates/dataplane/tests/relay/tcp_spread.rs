//! Who serves a connection: weights, affinity, and what happens when an endpoint is dead.

use std::collections::BTreeMap;
use std::io::{self, Read as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use dataplane::relay::Listener;
use model::net::Protocol;
use playground::namespace::socket::connect_from;

use crate::support::{PATIENCE, Single, any, closed_port, eventually, named, options, pool, weighted, who};

fn count(relay: &Single, times: usize) -> BTreeMap<u8, usize> {
    let mut counts = BTreeMap::new();
    for _ in 0..times {
        *counts.entry(who(&mut relay.connect()).unwrap()).or_default() += 1;
    }
    counts
}

/// An endpoint that never answers, as long as this is held: its queue is full, so the kernel drops what comes.
fn black_hole() -> (SocketAddr, TcpListener, Vec<TcpStream>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    // std asks for a queue of some hundred or thousand.
    let queued = std::iter::from_fn(|| TcpStream::connect_timeout(&at, Duration::from_millis(200)).ok());
    let queued = queued.collect();
    (at, listener, queued)
}

#[test]
fn connections_are_spread_exactly_by_weight() {
    let wanted = any(Protocol::Tcp, weighted(&[(named(b'a'), 3), (named(b'b'), 1), (named(b'c'), 2)]));
    let relay = Single::start(options(), &wanted);
    assert_eq!(count(&relay, 60), BTreeMap::from([(b'a', 30), (b'b', 10), (b'c', 20)]));
    let counters = relay.counters();
    let each: Vec<u64> = counters.endpoints.iter().map(|(_, counts)| counts.connections).collect();
    assert_eq!((counters.all.connections, each), (60, vec![30, 10, 20]));
}

#[test]
fn endpoints_that_come_and_go_leave_the_spread_even() {
    let servers: Vec<SocketAddr> = (b'a'..=b'e').map(named).collect();
    let mut relay = Single::tcp(&servers);
    let mut counts = BTreeMap::new();
    for round in 0..200 {
        // The last one comes and goes.
        let now = if round % 2 == 0 { &servers[..4] } else { &servers[..] };
        relay.bring_to(&any(Protocol::Tcp, pool(now)));
        *counts.entry(who(&mut relay.connect()).unwrap()).or_insert(0) += 1;
    }
    let stayed: Vec<i32> = (b'a'..=b'd').map(|name| counts[&name]).collect();
    assert!(stayed.iter().all(|count| (40..=50).contains(count)), "{counts:?}");
}

#[test]
fn a_dead_endpoint_costs_the_client_nothing() {
    let relay = Single::tcp(&[closed_port(), named(b'a')]);
    assert_eq!(count(&relay, 50), BTreeMap::from([(b'a', 50)]));
    let counts = relay.counters().all;
    assert_eq!(counts.failed_dials, counts.retries);
    assert!((1..=4).contains(&counts.failed_dials), "it is soon left out: {counts:?}");
}

#[test]
fn a_silent_endpoint_costs_the_client_a_moment_and_soon_nothing() {
    let (hole, _listener, _queued) = black_hole();
    let relay = Single::tcp(&[hole, named(b'a')]);
    let started = Instant::now();
    assert_eq!(count(&relay, 2), BTreeMap::from([(b'a', 2)]));
    let first = started.elapsed();
    assert!(first >= Duration::from_millis(250) && first < Duration::from_secs(5), "{first:?}");
    assert_eq!(count(&relay, 50), BTreeMap::from([(b'a', 50)]));
    assert!(relay.counters().all.failed_dials <= 6, "{:?}", relay.counters().all);
}

#[test]
fn when_all_endpoints_are_dead_the_client_is_reset() {
    let relay = Single::tcp(&[closed_port(), closed_port(), closed_port()]);
    let mut client = relay.connect();
    assert_eq!(client.read(&mut [0]).unwrap_err().kind(), io::ErrorKind::ConnectionReset);
    let counters = relay.counters();
    assert_eq!((counters.failed, counters.all.failed_dials, counters.all.retries), (1, 3, 2));
    eventually("nothing is left", || relay.relay.active() == 0);
}

#[test]
fn when_the_only_endpoint_is_silent_it_is_dialled_four_times_and_then_the_client_is_reset() {
    let (hole, _listener, _queued) = black_hole();
    let fast = [10, 20, 40, 80].map(Duration::from_millis).to_vec();
    let options = dataplane::relay::Options { dial_timeouts: fast, ..options() };
    let relay = Single::start(options, &any(Protocol::Tcp, pool(&[hole])));
    let started = Instant::now();
    let mut client = relay.connect();
    assert_eq!(client.read(&mut [0]).unwrap_err().kind(), io::ErrorKind::ConnectionReset);
    assert!(started.elapsed() >= Duration::from_millis(150));
    assert_eq!(relay.counters().all.failed_dials, 4);
}

#[test]
fn a_client_stays_with_its_endpoint_and_others_are_spread() {
    let servers: Vec<SocketAddr> = (b'a'..=b'd').map(named).collect();
    let wanted = Listener { affinity: Some(Duration::from_secs(60)), ..any(Protocol::Tcp, pool(&servers)) };
    let relay = Single::start(options(), &wanted);
    let mut homes = BTreeMap::new();
    for round in 0..5 {
        for client in 1..=8 {
            let source = SocketAddr::from((Ipv4Addr::new(127, 0, 0, client), 0));
            let mut stream = connect_from(source, relay.at, PATIENCE).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            let home = who(&mut stream).unwrap();
            assert_eq!(*homes.entry(client).or_insert(home), home, "client {client}, round {round}");
        }
    }
    let mut used: Vec<u8> = homes.into_values().collect();
    used.sort_unstable();
    assert_eq!(used, b"aabbccdd");
}
