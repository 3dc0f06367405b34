//! Datagrams: sessions, answers, and endpoints that are not there.

use std::net::{SocketAddr, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use dataplane::relay::{Options, Relays as _};
use model::net::Protocol;

use crate::support::{PATIENCE, Random, Single, any, eventually, options, pool};

/// Repeats what it hears, after its own name.
pub(crate) fn named(name: &'static [u8]) -> SocketAddr {
    prefixing(UdpSocket::bind("127.0.0.1:0").unwrap(), name)
}

/// Repeats what it hears from this socket, after a name.
pub(crate) fn prefixing(socket: UdpSocket, name: &'static [u8]) -> SocketAddr {
    let at = socket.local_addr().unwrap();
    thread::spawn(move || {
        let mut buffer = vec![0; 65_536];
        while let Ok((count, from)) = socket.recv_from(&mut buffer) {
            let _gone = socket.send_to(&[name, &buffer[..count]].concat(), from);
        }
    });
    at
}

pub(crate) fn client(at: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(at).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

pub(crate) fn ask(client: &UdpSocket, question: &[u8]) -> Vec<u8> {
    client.send(question).unwrap();
    receive(client)
}

pub(crate) fn receive(client: &UdpSocket) -> Vec<u8> {
    let mut heard = vec![0; 65_536];
    let count = client.recv(&mut heard).unwrap();
    heard.truncate(count);
    heard
}

fn no_udp_port() -> SocketAddr {
    UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

#[test]
fn datagrams_of_all_sizes_are_answered_to_the_client_that_sent_them() {
    let relay = Single::udp(&[named(b"")]);
    let clients: Vec<UdpSocket> = (0..10).map(|_| client(relay.at)).collect();
    for size in [0, 1, 100, 1472, 9000, 60_000] {
        for (number, client) in (0..).zip(&clients) {
            let question = vec![number; size];
            assert_eq!(ask(client, &question), question);
        }
    }
    let counts = relay.counters().all;
    assert_eq!((counts.connections, counts.active), (10, 10));
    assert_eq!((counts.bytes_in, counts.bytes_out), (705_730, 705_730));
}

#[test]
fn bursts_of_all_sizes_arrive_whole_and_in_order() {
    let relay = Single::udp(&[named(b"")]);
    let client = client(relay.at);
    let mut random = Random(1);
    let mut all = 0;
    for _ in 0..300 {
        let size = [1, 64, 1200, 1472, 1473, 4000][random.below(6)];
        let mut burst: Vec<Vec<u8>> =
            (0..=random.below(16)).map(|number| vec![u8::try_from(number).unwrap(); size]).collect();
        if random.below(2) == 0 {
            burst.push(vec![99; 1 + random.below(2000)]);
        }
        for datagram in &burst {
            client.send(datagram).unwrap();
        }
        for datagram in &burst {
            let heard = receive(&client);
            assert!(heard == *datagram, "{} bytes of {}", heard.len(), datagram.len());
        }
        all += burst.len();
    }
    eprintln!("counted: {all} datagrams in bursts");
}

#[test]
fn a_client_keeps_its_endpoint_for_a_session_and_clients_are_spread() {
    let relay = Single::udp(&[named(b"a"), named(b"b")]);
    let mut homes = Vec::new();
    for _ in 0..10 {
        let client = client(relay.at);
        let home = ask(&client, b"");
        assert!((0..5).all(|_| ask(&client, b"") == home));
        homes.push(home);
    }
    assert_eq!(homes.iter().filter(|home| *home == b"a").count(), 5);
}

#[test]
fn answers_come_from_the_address_that_was_dialled() {
    let relay = Single::udp(&[named(b"")]);
    let dialled = [[127, 0, 0, 2], [127, 1, 2, 3]].map(|ip| SocketAddr::from((ip, relay.at.port())));
    // One socket for both: it hears everybody, and tells who answered.
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    for at in dialled {
        client.send_to(b"ping", at).unwrap();
        let (_, from) = client.recv_from(&mut [0; 16]).unwrap();
        assert_eq!(from, at);
    }
    assert_eq!(relay.counters().all.connections, 2);
}

#[test]
fn a_silent_session_ends_and_the_next_datagram_begins_another() {
    let udp_idle = Duration::from_millis(300);
    let options = Options { udp_idle, ..options() };
    let relay = Single::start(options, &any(Protocol::Udp, pool(&[named(b"")])));
    let client = client(relay.at);
    let started = Instant::now();
    ask(&client, b"ping");
    eventually("the session has ended", || relay.relay.active() == 0);
    assert!(started.elapsed() >= udp_idle);
    ask(&client, b"ping");
    assert_eq!(relay.counters().all.connections, 2);
}

#[test]
fn a_session_of_one_answered_question_ends_sooner_than_others() {
    let options = Options { udp_idle_answered: Duration::from_millis(200), ..options() };
    let relay = Single::start(options, &any(Protocol::Udp, pool(&[named(b"")])));
    let (asks_once, asks_twice) = (client(relay.at), client(relay.at));
    ask(&asks_once, b"ping");
    ask(&asks_twice, b"ping");
    ask(&asks_twice, b"ping");
    eventually("one has ended", || relay.relay.active() == 1);
    ask(&asks_twice, b"ping");
    assert_eq!(relay.counters().all.connections, 2, "the other is still the same");
}

#[test]
fn when_nobody_hears_at_an_endpoint_the_next_datagram_goes_to_another() {
    let relay = Single::udp(&[no_udp_port(), named(b"a")]);
    let client = client(relay.at);
    client.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    // The first may be lost, as datagrams may be; the answer that nobody is there is not.
    let mut tries = 0;
    eventually("an answer", || {
        tries += 1;
        client.send(b"!").unwrap();
        client.recv(&mut [0; 16]).is_ok_and(|count| count == 2)
    });
    assert!(tries <= 3, "{tries}");
}

#[test]
fn sessions_to_an_endpoint_that_left_the_pool_go_elsewhere() {
    let (first, second) = (named(b"a"), named(b"b"));
    let mut relay = Single::udp(&[first]);
    let client = client(relay.at);
    assert_eq!(ask(&client, b""), b"a");
    relay.bring_to(&any(Protocol::Udp, pool(&[second])));
    eventually("it goes to the other", || ask(&client, b"") == b"b");
}

#[test]
fn a_closed_listener_has_no_sessions_and_its_port_is_free() {
    let mut relay = Single::udp(&[named(b"a")]);
    ask(&client(relay.at), b"");
    relay.relay.close(&relay.id);
    UdpSocket::bind(("0.0.0.0", relay.at.port())).unwrap();
    eventually("no session", || relay.relay.active() == 0);
}

#[test]
fn more_clients_than_sessions_are_served_and_the_oldest_make_room() {
    let options = Options { udp_sessions: 100, ..options() };
    let relay = Single::start(options, &any(Protocol::Udp, pool(&[named(b"a")])));
    let regular = client(relay.at);
    // They stay open, so that no two have the same port.
    let clients: Vec<UdpSocket> = (0..500).map(|_| client(relay.at)).collect();
    for client in &clients {
        assert_eq!(ask(client, b""), b"a");
        assert_eq!(ask(&regular, b""), b"a");
    }
    let counters = relay.counters();
    assert_eq!(counters.all.active, 100);
    assert!((401..=406).contains(&counters.evicted), "one in use hardly ever has to go: {counters:?}");
}
