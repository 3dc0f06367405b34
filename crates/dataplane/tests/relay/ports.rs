//! Where listeners listen: ranges, wishes, exact ports, and ports that are only held; and the same steps on the relay and on its twin,
//! which answer alike.

use std::net::{Ipv4Addr, TcpListener, UdpSocket};

use dataplane::relay::{At, Listener, Options, Relay, RelayError, Relays, Simulated};
use model::net::Protocol;

use crate::support::{
    any, closed_port, connect, free_port, id, is_alive, local, options, pool, repeat, server,
};

fn at(port: u16) -> At {
    At::Any { address: Ipv4Addr::LOCALHOST.into(), wish: Some(port) }
}

fn exactly(port: u16) -> At {
    At::Exactly(local(port))
}

/// Ports next to each other that are free now. Tests run beside each other: each looks elsewhere.
fn free_range(from: u16, count: u16) -> std::ops::RangeInclusive<u16> {
    let is_free = |port: u16| {
        let at = (Ipv4Addr::UNSPECIFIED, port);
        TcpListener::bind(at).is_ok() && UdpSocket::bind(at).is_ok()
    };
    let start = (from..from + 2_000).step_by(16).find(|start| (*start..start + count).all(is_free)).unwrap();
    start..=start + count - 1
}

#[test]
fn when_the_range_is_used_up_one_is_refused_by_name_and_the_others_work() {
    let range = free_range(20_000, 3);
    let mut relay = Relay::start(Options { ports: Some(range.clone()), ..options() }).unwrap();
    let wanted = any(Protocol::Tcp, pool(&[server(repeat)]));
    let ports: Vec<u16> =
        ["a", "b", "c"].map(|name| relay.open(&id(name, Protocol::Tcp), &wanted).unwrap()).into();
    assert_eq!(ports, range.clone().collect::<Vec<_>>());
    let error = relay.open(&id("d", Protocol::Tcp), &wanted).unwrap_err();
    let address = Ipv4Addr::UNSPECIFIED.into();
    assert_eq!(error, RelayError::RangeExhausted { protocol: Protocol::Tcp, address, range });
    assert!(error.to_string().contains("--proxy-port-range"), "{error}");
    for port in ports {
        assert!(is_alive(&mut connect(local(port))));
    }
    relay.close(&id("b", Protocol::Tcp));
    relay.open(&id("d", Protocol::Tcp), &wanted).unwrap();
}

#[test]
fn the_port_of_an_earlier_life_is_had_again_unless_somebody_has_it() {
    let wanted = any(Protocol::Tcp, pool(&[server(repeat)]));
    let mut first = Relay::start(options()).unwrap();
    let port = first.open(&id("web", Protocol::Tcp), &Listener { at: at(0), ..wanted.clone() }).unwrap();
    let mut client = connect(local(port));
    assert!(is_alive(&mut client));
    // Dropping it with connections leaves the port in the state that a killed process leaves it in.
    drop(first);
    let mut second = Relay::start(options()).unwrap();
    let wish = Listener { at: at(port), ..wanted.clone() };
    assert_eq!(second.open(&id("web", Protocol::Tcp), &wish).unwrap(), port);
    assert_ne!(second.open(&id("other", Protocol::Tcp), &wish).unwrap(), port);
}

#[test]
fn a_port_of_another_program_is_refused_by_name() {
    let taken = free_port();
    let holder = TcpListener::bind(taken).unwrap();
    let mut relay = Relay::start(options()).unwrap();
    let wanted = Listener { at: exactly(taken.port()), ..any(Protocol::Tcp, pool(&[server(repeat)])) };
    let error = relay.open(&id("web", Protocol::Tcp), &wanted).unwrap_err();
    assert_eq!(error, RelayError::InUse { protocol: Protocol::Tcp, at: taken });
    drop(holder);
    assert_eq!(relay.open(&id("web", Protocol::Tcp), &wanted).unwrap(), taken.port());
    let absent = At::Exactly("192.0.2.1:80".parse().unwrap());
    let error = relay.open(&id("far", Protocol::Tcp), &Listener { at: absent, ..wanted }).unwrap_err();
    assert!(matches!(error, RelayError::NoSuchAddress { .. }), "{error}");
}

#[test]
fn a_listener_that_is_wanted_elsewhere_moves() {
    let mut relay = Relay::start(options()).unwrap();
    let wanted = any(Protocol::Tcp, pool(&[server(repeat)]));
    let web = id("web", Protocol::Tcp);
    let port = relay.open(&web, &wanted).unwrap();
    assert_eq!(relay.open(&web, &wanted).unwrap(), port, "nothing has changed");
    let moved = relay.open(&web, &Listener { at: at(0), ..wanted }).unwrap();
    assert!(is_alive(&mut connect(local(moved))));
    assert_eq!(relay.ids(), std::slice::from_ref(&web));
    relay.close(&web);
    assert_eq!(relay.ids(), []);
}

#[test]
fn a_held_port_is_nobody_elses_and_nothing_listens_there() {
    let mut relay = Relay::start(options()).unwrap();
    let free = free_port();
    for protocol in [Protocol::Tcp, Protocol::Udp] {
        relay.hold(free, protocol).unwrap();
        relay.hold(free, protocol).unwrap();
    }
    assert!(TcpListener::bind(free).is_err() && UdpSocket::bind(free).is_err());
    assert!(std::net::TcpStream::connect(free).is_err());
    relay.release(free, Protocol::Tcp);
    relay.release(free, Protocol::Udp);
    assert!(TcpListener::bind(free).is_ok() && UdpSocket::bind(free).is_ok());
}

#[test]
fn sctp_is_refused_by_name() {
    let mut relay = Relay::start(options()).unwrap();
    let wanted = any(Protocol::Sctp, pool(&[server(repeat)]));
    assert_eq!(relay.open(&id("web", Protocol::Sctp), &wanted), Err(RelayError::Sctp));
    assert_eq!(relay.hold("127.0.0.1:30080".parse().unwrap(), Protocol::Sctp), Err(RelayError::Sctp));
}

/// A listener before an endpoint where nobody listens.
fn silent(protocol: Protocol, at: At) -> Listener {
    Listener { at, ..any(protocol, pool(&[closed_port()])) }
}

/// Runs the steps with a range of four ports, and one more on each side that is asked for by number.
fn steps(relay: &mut impl Relays, ports: &std::ops::RangeInclusive<u16>) -> Vec<String> {
    let first = *ports.start();
    let (web, dns, more) = (id("web", Protocol::Tcp), id("dns", Protocol::Udp), id("more", Protocol::Tcp));
    let mut seen = Vec::new();
    let mut note = |answer: Result<u16, RelayError>| seen.push(format!("{answer:?}"));
    for protocol in [Protocol::Tcp, Protocol::Udp] {
        note(relay.hold(local(first), protocol).map(|()| 0));
        note(relay.hold(local(first), protocol).map(|()| 0));
    }
    note(relay.open(&web, &silent(Protocol::Tcp, exactly(first))));
    relay.release(local(first), Protocol::Tcp);
    note(relay.open(&web, &silent(Protocol::Tcp, exactly(first))));
    note(relay.open(&web, &silent(Protocol::Tcp, exactly(first))));
    note(relay.hold(local(first), Protocol::Tcp).map(|()| 0));
    note(relay.open(&web, &silent(Protocol::Tcp, at(first + 3))));
    note(relay.open(&dns, &silent(Protocol::Udp, at(first + 3))));
    note(relay.open(&more, &silent(Protocol::Tcp, at(first + 3))));
    for name in ["a", "b", "c", "d"] {
        note(relay.open(&id(name, Protocol::Tcp), &silent(Protocol::Tcp, at(first + 3))));
    }
    note(relay.open(&id("sctp", Protocol::Sctp), &silent(Protocol::Sctp, at(first + 3))));
    relay.close(&more);
    relay.close(&more);
    seen.push(format!("{:?}", relay.ids()));
    seen
}

#[test]
fn the_twin_answers_as_the_relay_does() {
    let ports = free_range(30_000, 6);
    let range = ports.start() + 1..=ports.start() + 4;
    let mut real = Relay::start(Options { ports: Some(range.clone()), ..options() }).unwrap();
    let seen = steps(&mut real, &ports);
    drop(real);
    assert_eq!(steps(&mut Simulated::with_range(range), &ports), seen);
    let has = |what: &str| seen.iter().any(|line| line.contains(what));
    assert!(has("RangeExhausted") && has("InUse"));
}
