//! The same steps on the relay and on its twin: both answer alike.

use std::net::{Ipv4Addr, SocketAddr};

use dataplane::relay::{At, Listener, Options, Relay, RelayError, Relays, Simulated};
use model::net::Protocol;

use crate::support::{any, closed_port, id, options, pool};

fn wanted(protocol: Protocol, at: At) -> Listener {
    Listener { at, ..any(protocol, pool(&[closed_port()])) }
}

fn wish(port: u16) -> At {
    At::Any { address: Ipv4Addr::LOCALHOST.into(), wish: Some(port) }
}

fn at(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

/// Six ports next to each other that nobody has.
fn ports() -> std::ops::RangeInclusive<u16> {
    let is_free =
        |port| std::net::TcpListener::bind(at(port)).is_ok() && std::net::UdpSocket::bind(at(port)).is_ok();
    let start = (30_000..32_000).step_by(8).find(|start| (*start..start + 6).all(is_free)).unwrap();
    start..=start + 5
}

/// Runs the steps with a range of four ports, and one more on each side that is asked for by number.
fn steps(relay: &mut impl Relays, ports: &std::ops::RangeInclusive<u16>) -> Vec<String> {
    let first = *ports.start();
    let (web, dns, more) = (id("web", Protocol::Tcp), id("dns", Protocol::Udp), id("more", Protocol::Tcp));
    let mut seen = Vec::new();
    let mut note = |answer: Result<u16, RelayError>| seen.push(format!("{answer:?}"));
    for protocol in [Protocol::Tcp, Protocol::Udp] {
        note(relay.hold(at(first), protocol).map(|()| 0));
        note(relay.hold(at(first), protocol).map(|()| 0));
    }
    note(relay.open(&web, &wanted(Protocol::Tcp, At::Exactly(at(first)))));
    relay.release(at(first), Protocol::Tcp);
    note(relay.open(&web, &wanted(Protocol::Tcp, At::Exactly(at(first)))));
    note(relay.open(&web, &wanted(Protocol::Tcp, At::Exactly(at(first)))));
    note(relay.hold(at(first), Protocol::Tcp).map(|()| 0));
    note(relay.open(&web, &wanted(Protocol::Tcp, wish(first + 3))));
    note(relay.open(&dns, &wanted(Protocol::Udp, wish(first + 3))));
    note(relay.open(&more, &wanted(Protocol::Tcp, wish(first + 3))));
    for name in ["a", "b", "c", "d"] {
        note(relay.open(&id(name, Protocol::Tcp), &wanted(Protocol::Tcp, wish(first + 3))));
    }
    note(relay.open(&id("sctp", Protocol::Sctp), &wanted(Protocol::Sctp, wish(first + 3))));
    relay.close(&more);
    relay.close(&more);
    seen.push(format!("{:?}", relay.ids()));
    seen
}

#[test]
fn the_twin_answers_as_the_relay_does() {
    let ports = ports();
    let range = ports.start() + 1..=ports.start() + 4;
    let mut real = Relay::start(Options { ports: Some(range.clone()), ..options() }).unwrap();
    let seen = steps(&mut real, &ports);
    drop(real);
    assert_eq!(steps(&mut Simulated::with_range(range), &ports), seen);
    assert!(
        seen.iter().any(|line| line.contains("RangeExhausted"))
            && seen.iter().any(|line| line.contains("InUse"))
    );
}
