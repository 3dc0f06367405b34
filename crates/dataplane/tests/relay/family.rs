//! The same over IPv6.

use std::net::{Ipv6Addr, TcpStream, UdpSocket};

use dataplane::relay::{At, Listener};
use model::net::Protocol;

use crate::support::{PATIENCE, Single, any, is_alive, options, pool, repeat, server_at};

fn at_v6(listener: Listener) -> Listener {
    Listener { at: At::Any { address: Ipv6Addr::UNSPECIFIED.into(), wish: None }, ..listener }
}

#[test]
fn ipv6_connections_reach_ipv6_endpoints_and_ipv4_is_not_heard() {
    let endpoint = server_at(Ipv6Addr::LOCALHOST.into(), repeat);
    let relay = Single::start(options(), &at_v6(any(Protocol::Tcp, pool(&[endpoint]))));
    let mut client = TcpStream::connect((Ipv6Addr::LOCALHOST, relay.at.port())).unwrap();
    assert!(is_alive(&mut client));
    assert!(TcpStream::connect(relay.at).is_err(), "its port of the other family is another's");
}

#[test]
fn ipv6_datagrams_are_answered() {
    let endpoint = crate::udp::prefixing(UdpSocket::bind((Ipv6Addr::LOCALHOST, 0)).unwrap(), b"");
    let relay = Single::start(options(), &at_v6(any(Protocol::Udp, pool(&[endpoint]))));
    let client = UdpSocket::bind((Ipv6Addr::LOCALHOST, 0)).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    client.connect((Ipv6Addr::LOCALHOST, relay.at.port())).unwrap();
    assert_eq!(crate::udp::ask(&client, b"ping"), b"ping");
}
