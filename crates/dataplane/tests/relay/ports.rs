//! Where listeners listen: ranges, wishes, exact ports, and ports that are only held.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};

use dataplane::relay::{At, Listener, Options, Relay, RelayError, Relays as _};
use model::net::Protocol;

use crate::support::{any, connect, id, is_alive, options, pool, repeat, server};

fn at(port: u16) -> At {
    At::Any { address: Ipv4Addr::LOCALHOST.into(), wish: Some(port) }
}

fn exactly(port: u16) -> At {
    At::Exactly((Ipv4Addr::LOCALHOST, port).into())
}

/// Ports next to each other that are free now.
fn free_range(count: u16) -> std::ops::RangeInclusive<u16> {
    let is_free = |port: u16| TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).is_ok();
    let start = (20_000..30_000).step_by(16).find(|start| (*start..start + count).all(is_free)).unwrap();
    start..=start + count - 1
}

#[test]
fn when_the_range_is_used_up_one_is_refused_by_name_and_the_others_work() {
    let range = free_range(3);
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
        assert!(is_alive(&mut connect((Ipv4Addr::LOCALHOST, port).into())));
    }
    relay.close(&id("b", Protocol::Tcp));
    relay.open(&id("d", Protocol::Tcp), &wanted).unwrap();
}

#[test]
fn the_port_of_an_earlier_life_is_had_again_unless_somebody_has_it() {
    let wanted = any(Protocol::Tcp, pool(&[server(repeat)]));
    let mut first = Relay::start(options()).unwrap();
    let port = first.open(&id("web", Protocol::Tcp), &Listener { at: at(0), ..wanted.clone() }).unwrap();
    let mut client = connect((Ipv4Addr::LOCALHOST, port).into());
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
    let taken = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
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
    assert!(is_alive(&mut connect((Ipv4Addr::LOCALHOST, moved).into())));
    assert_eq!(relay.ids(), std::slice::from_ref(&web));
    relay.close(&web);
    assert_eq!(relay.ids(), []);
}

#[test]
fn a_held_port_is_nobody_elses_and_nothing_listens_there() {
    let mut relay = Relay::start(options()).unwrap();
    let free: SocketAddr = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
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
