//! The doors, tried on loopback.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;
use std::time::Duration;

use super::*;
use crate::poll::{Event, Events, Interest, Poll};

const PATIENCE: Duration = Duration::from_secs(10);

fn loopbacks() -> [SocketAddr; 2] {
    [(Ipv4Addr::LOCALHOST, 0).into(), (Ipv6Addr::LOCALHOST, 0).into()]
}

fn wait(fd: impl AsFd, interest: Interest) -> Event {
    let poll = Poll::new().unwrap();
    let mut events = Events::with_room_for(1);
    poll.add(fd.as_fd(), 7, interest).unwrap();
    poll.wait(&mut events, Some(PATIENCE)).unwrap();
    events.iter().next().expect("an event within the limit")
}

#[test]
fn a_connection_is_dialled_and_accepted_without_blocking() {
    for at in loopbacks() {
        let listener = listen_tcp(at).unwrap();
        assert_eq!(accept(&listener).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        let client = dial_tcp(listener.local_addr().unwrap()).unwrap();
        assert!(wait(&client, Interest::Duplex).is_writable());
        assert!(client.take_error().unwrap().is_none());
        wait(&listener, Interest::Shared);
        let (_server, from) = accept(&listener).unwrap();
        assert_eq!(from, client.local_addr().unwrap());
    }
}

#[test]
fn a_refused_connection_says_so_once_it_is_ready() {
    for at in loopbacks() {
        let gone = listen_tcp(at).unwrap().local_addr().unwrap();
        let error = match dial_tcp(gone) {
            Err(error) => error,
            Ok(client) => {
                wait(&client, Interest::Duplex);
                client.take_error().unwrap().expect("refused")
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
    }
}

#[test]
fn both_families_can_have_the_same_port() {
    let v4 = listen_tcp((Ipv4Addr::UNSPECIFIED, 0).into()).unwrap();
    let port = v4.local_addr().unwrap().port();
    let v6 = listen_tcp((Ipv6Addr::UNSPECIFIED, port).into()).unwrap();
    assert_eq!(v6.local_addr().unwrap().port(), port);
}

#[test]
fn a_held_port_is_nobody_elses() {
    for at in loopbacks() {
        let held = hold(at, Kind::Stream).unwrap();
        let at = TcpListener::from(held.try_clone().unwrap()).local_addr().unwrap();
        assert_eq!(listen_tcp(at).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        drop(held);
        listen_tcp(at).unwrap();

        // Another number: that of the stream may be somebody's for datagrams.
        let held = UdpSocket::from(hold(SocketAddr::new(at.ip(), 0), Kind::Datagram).unwrap());
        let at = held.local_addr().unwrap();
        assert_eq!(listen_udp(at).unwrap_err().kind(), io::ErrorKind::AddrInUse);
    }
}

#[test]
fn datagrams_arrive_in_a_batch_and_tell_where_they_were_sent() {
    let listener = listen_udp((Ipv4Addr::UNSPECIFIED, 0).into()).unwrap();
    let dialled = SocketAddr::from(([127, 0, 0, 2], listener.local_addr().unwrap().port()));
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    for text in ["one", "two", ""] {
        client.send_to(text.as_bytes(), dialled).unwrap();
    }
    let mut inbox = Inbox::default();
    wait(&listener, Interest::Duplex);
    assert_eq!(inbox.receive(listener.as_fd()).unwrap(), 3);
    let texts: Vec<_> = (0..3).map(|i| inbox.get(i).bytes).collect();
    assert_eq!(texts, [&b"one"[..], b"two", b""]);
    assert_eq!(inbox.get(0).from, Some(client.local_addr().unwrap()));
    assert_eq!(inbox.get(0).to.map(|local| local.address), Some(dialled.ip()));
}

#[test]
fn answers_leave_from_the_address_that_was_dialled() {
    for (at, dialled) in [("0.0.0.0:0", IpAddr::from([127, 0, 0, 2])), ("[::]:0", Ipv6Addr::LOCALHOST.into())]
    {
        let listener = listen_udp(at.parse().unwrap()).unwrap();
        let dialled = SocketAddr::new(dialled, listener.local_addr().unwrap().port());
        let client = dial_udp(dialled).unwrap();
        client.send(b"question").unwrap();
        let mut inbox = Inbox::default();
        wait(&listener, Interest::Duplex);
        inbox.receive(listener.as_fd()).unwrap();
        let Datagram { from, to, .. } = inbox.get(0);
        let answers =
            [b"first".as_slice(), b"second"].map(|bytes| Outgoing { to: from, from: to, bytes, segment: 0 });
        assert_eq!(send(listener.as_fd(), &answers).unwrap(), 2);
        // The client hears its peer alone, so an answer from any other address would never be read.
        wait(&client, Interest::Duplex);
        assert_eq!(inbox.receive(client.as_fd()).unwrap(), 2);
        assert_eq!(inbox.get(1).bytes, b"second");
    }
}

#[test]
fn datagrams_that_leave_as_one_arrive_apart() {
    for at in loopbacks() {
        let listener = listen_udp(at).unwrap();
        let client = dial_udp(listener.local_addr().unwrap()).unwrap();
        let together = Outgoing { to: None, from: None, bytes: b"onetwothreefour", segment: 3 };
        assert_eq!(send(client.as_fd(), &[together]).unwrap(), 1);
        let mut inbox = Inbox::default();
        wait(&listener, Interest::Shared);
        assert_eq!(inbox.receive(listener.as_fd()).unwrap(), 5);
        assert_eq!((inbox.get(0).bytes, inbox.get(4).bytes), (&b"one"[..], &b"our"[..]));
        // With the address that it comes from beside it, both fit.
        let Datagram { from, to, .. } = inbox.get(0);
        let back = Outgoing { to: from, from: to, bytes: b"onetwo", segment: 3 };
        assert_eq!(send(listener.as_fd(), &[back]).unwrap(), 1);
        wait(&client, Interest::Shared);
        assert_eq!(inbox.receive(client.as_fd()).unwrap(), 2);
    }
}

#[test]
fn a_port_where_nobody_hears_is_an_error_of_the_session() {
    let gone = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let session = dial_udp(gone).unwrap();
    session.send(b"anybody?").unwrap();
    wait(&session, Interest::Duplex);
    let error = Inbox::default().receive(session.as_fd()).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
}
