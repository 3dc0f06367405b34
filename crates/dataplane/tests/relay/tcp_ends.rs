//! How connections end: by halves, at once, with a reset, at a limit.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv6Addr, Shutdown, TcpStream};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use dataplane::relay::{At, Listener, Options, Relays as _};
use kernel::socket::reset_on_close;
use model::net::Protocol;

use crate::support::{
    Single, any, at_v6, eventually, is_alive, named, options, pool, repeat, server, server_at, who,
};

#[test]
fn a_client_that_has_said_everything_still_hears_the_whole_answer() {
    let at = server(|mut stream| {
        let mut heard = Vec::new();
        stream.read_to_end(&mut heard).unwrap();
        heard.reverse();
        stream.write_all(&heard).unwrap();
    });
    let relay = Single::tcp(&[at]);
    let mut client = relay.connect();
    let said: Vec<u8> = (0..3_000_000u32).map(|i| i.to_be_bytes()[3]).collect();
    client.write_all(&said).unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let mut heard = Vec::new();
    client.read_to_end(&mut heard).unwrap();
    heard.reverse();
    assert!(heard == said);
    eventually("the connection is closed", || relay.relay.active() == 0);
}

#[test]
fn an_endpoint_that_has_said_everything_still_hears_the_client() {
    let (sender, receiver) = mpsc::channel();
    let at = server(move |mut stream| {
        stream.write_all(b"all I have to say").unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut heard = String::new();
        stream.read_to_string(&mut heard).unwrap();
        sender.send(heard).unwrap();
    });
    let relay = Single::tcp(&[at]);
    let mut client = relay.connect();
    let mut heard = String::new();
    client.read_to_string(&mut heard).unwrap();
    assert_eq!(heard, "all I have to say");
    client.write_all(b"and what I have").unwrap();
    drop(client);
    assert_eq!(receiver.recv_timeout(crate::support::PATIENCE).unwrap(), "and what I have");
    eventually("the connection is closed", || relay.relay.active() == 0);
}

#[test]
fn a_reset_by_the_endpoint_reaches_the_client_as_a_reset() {
    let at = server(|mut stream| {
        stream.read_exact(&mut [0; 4]).unwrap();
        reset_on_close(&stream).unwrap();
    });
    let relay = Single::tcp(&[at]);
    let mut client = relay.connect();
    client.write_all(b"ping").unwrap();
    assert_eq!(client.read(&mut [0]).unwrap_err().kind(), io::ErrorKind::ConnectionReset);
    eventually("the connection is closed", || relay.relay.active() == 0);
}

#[test]
fn a_reset_by_the_client_reaches_the_endpoint_as_a_reset() {
    let (sender, receiver) = mpsc::channel();
    let at = server(move |mut stream| {
        stream.write_all(b"!").unwrap();
        sender.send(stream.read(&mut [0]).map_err(|error| error.kind())).unwrap();
    });
    let relay = Single::tcp(&[at]);
    let mut client = relay.connect();
    assert_eq!(who(&mut client).unwrap(), b'!');
    reset_on_close(&client).unwrap();
    drop(client);
    assert_eq!(receiver.recv_timeout(crate::support::PATIENCE).unwrap(), Err(io::ErrorKind::ConnectionReset));
}

#[test]
fn an_answer_that_comes_before_the_question_has_ended_arrives() {
    let at = server(|mut stream| {
        stream.read_exact(&mut [0; 4]).unwrap();
        stream.write_all(b"too long").unwrap();
    });
    let relay = Single::tcp(&[at]);
    let mut client = relay.connect();
    client.write_all(b"this").unwrap();
    let mut heard = [0; 8];
    client.read_exact(&mut heard).unwrap();
    assert_eq!(&heard, b"too long");
}

#[test]
fn established_connections_outlive_their_endpoint_in_the_pool_and_new_ones_go_elsewhere() {
    let (first, second) = (named(b'1'), named(b'2'));
    let mut relay = Single::tcp(&[first]);
    let mut old = relay.connect();
    assert_eq!(who(&mut old).unwrap(), b'1');
    relay.bring_to(&any(Protocol::Tcp, pool(&[second])));
    for _ in 0..10 {
        assert_eq!(who(&mut relay.connect()).unwrap(), b'2');
    }
    assert!(is_alive(&mut old));
    let counted: Vec<_> =
        relay.counters().endpoints.iter().map(|(at, counts)| (*at, counts.connections)).collect();
    assert_eq!(counted, [(second, 10), (first, 1)]);
}

#[test]
fn connections_of_a_closed_listener_go_on_and_are_cut_at_the_limit() {
    let drain = Duration::from_millis(500);
    let wanted = any(Protocol::Tcp, pool(&[server(repeat)]));
    let mut relay = Single::start(Options { drain, ..options() }, &wanted);
    let mut client = relay.connect();
    assert!(is_alive(&mut client));
    let closed = Instant::now();
    relay.relay.close(&relay.id);
    assert!(is_alive(&mut client), "it goes on");
    assert_eq!(TcpStream::connect(relay.at).unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
    assert_eq!(client.read(&mut [0]).unwrap_err().kind(), io::ErrorKind::ConnectionReset);
    assert!(closed.elapsed() >= drain);
    eventually("nothing is left", || relay.relay.active() == 0);
}

#[test]
fn a_port_can_be_opened_again_as_soon_as_it_was_closed() {
    let wanted = any(Protocol::Tcp, pool(&[server(repeat)]));
    let mut relay = Single::start(options(), &wanted);
    for round in 0..50 {
        let mut client = relay.connect();
        assert!(is_alive(&mut client), "round {round}");
        relay.relay.close(&relay.id);
        let at = At::Exactly(([0, 0, 0, 0], relay.at.port()).into());
        assert_eq!(relay.bring_to(&Listener { at, ..wanted.clone() }), relay.at.port());
    }
}

#[test]
fn ipv6_connections_reach_ipv6_endpoints_and_ipv4_is_not_heard() {
    let endpoint = server_at(Ipv6Addr::LOCALHOST.into(), repeat);
    let relay = Single::start(options(), &at_v6(any(Protocol::Tcp, pool(&[endpoint]))));
    let mut client = TcpStream::connect((Ipv6Addr::LOCALHOST, relay.at.port())).unwrap();
    assert!(is_alive(&mut client));
    assert!(TcpStream::connect(relay.at).is_err(), "its port of the other family is another's");
}
