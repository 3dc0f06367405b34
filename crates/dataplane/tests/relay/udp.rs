//! Datagrams: sessions, answers, endpoints that are not there, many clients at once, and one that does not read.

use std::net::{Ipv6Addr, SocketAddr, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use dataplane::relay::{Options, Relays as _};
use model::net::Protocol;

use crate::random::Random;
use crate::support::{
    Again, PATIENCE, Single, any, at_v6, eventually, hear, line_to_parent, local, options, pool, tell,
};

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
    let mut random = Random::new(1);
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

#[test]
fn ten_thousand_clients_have_a_session_each() {
    const CLIENTS: u32 = 10_000;
    if let Some(line) = line_to_parent() {
        // Sessions and clients together would be more files than one process may have.
        let options = Options { udp_idle_answered: PATIENCE, udp_idle: PATIENCE, ..options() };
        let relay = Single::start(options, &any(Protocol::Udp, pool(&[local(hear(&line))])));
        tell(&line, relay.at.port().into());
        while hear(&line) > 0 {
            let counters = relay.counters();
            tell(&line, counters.all.active);
            tell(&line, counters.evicted + counters.refused);
        }
        return;
    }
    kernel::limit::raise_files().unwrap();
    let again = Again::start("udp::ten_thousand_clients_have_a_session_each");
    tell(&again.line, named(b"").port().into());
    let at = local(hear(&again.line));
    let clients: Vec<UdpSocket> = (0..CLIENTS).map(|_| client(at)).collect();
    for round in 0..2u32 {
        for (number, client) in (0..CLIENTS).zip(&clients) {
            assert_eq!(ask(client, &(number ^ round).to_be_bytes()), (number ^ round).to_be_bytes());
        }
    }
    tell(&again.line, 1);
    assert_eq!((hear(&again.line), hear(&again.line)), (CLIENTS.into(), 0));
    eprintln!("counted: {CLIENTS} clients, each answered twice");
}

#[test]
fn a_client_that_floods_and_does_not_read_holds_up_nobody() {
    let relay = Single::udp(&[named(b"")]);
    let (flooding, patient) = (client(relay.at), client(relay.at));
    assert_eq!(ask(&patient, b"before"), b"before");
    let deadline = Instant::now() + Duration::from_millis(500);
    let mut rounds = 0;
    while Instant::now() < deadline {
        for _ in 0..20 {
            flooding.send(&[0; 8192]).unwrap();
        }
        let asked = Instant::now();
        assert_eq!(ask(&patient, b"in between"), b"in between");
        assert!(asked.elapsed() < Duration::from_secs(1));
        rounds += 1;
    }
    eprintln!("counted: {rounds} answers to one client between floods of another");
}

#[test]
fn ipv6_datagrams_are_answered() {
    let endpoint = prefixing(UdpSocket::bind((Ipv6Addr::LOCALHOST, 0)).unwrap(), b"");
    let relay = Single::start(options(), &at_v6(any(Protocol::Udp, pool(&[endpoint]))));
    let client = UdpSocket::bind((Ipv6Addr::LOCALHOST, 0)).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    client.connect((Ipv6Addr::LOCALHOST, relay.at.port())).unwrap();
    assert_eq!(ask(&client, b"ping"), b"ping");
}
