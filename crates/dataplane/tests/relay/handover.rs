//! One relay goes on in the place of another: nothing that is new fails, and what there was goes on.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::Instant;

use dataplane::relay::{self, At, Listener, Relay, Relays as _};
use model::net::Protocol;

use crate::support::{
    Again, PATIENCE, Single, any, connect, eventually, hear, id, is_alive, line_to_parent, local, options,
    pool, repeat, server, tell,
};
use crate::udp::{ask, client, named, receive};

/// Connects again and again; each connection has to work.
fn load(at: SocketAddr, is_over: &AtomicBool, served: &AtomicUsize) {
    while !is_over.load(Relaxed) {
        let mut client = TcpStream::connect(at).expect("a connection is accepted");
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        client.write_all(b"ping").expect("it takes what is said");
        client.read_exact(&mut [0; 4]).expect("it is answered");
        served.fetch_add(1, Relaxed);
    }
}

/// Runs `change` under load: some connections before it, some after.
fn under_load(at: SocketAddr, change: impl FnOnce()) -> usize {
    let (is_over, served) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| load(at, &is_over, &served));
        }
        eventually("connections are served before", || served.load(Relaxed) > 1000);
        change();
        let so_far = served.load(Relaxed);
        eventually("connections are served after", || served.load(Relaxed) > so_far + 1000);
        is_over.store(true, Relaxed);
    });
    served.into_inner()
}

#[test]
fn a_successor_goes_on_and_no_connection_fails() {
    let wanted = any(Protocol::Tcp, pool(&[server(repeat)]));
    let mut old = Single::start(options(), &wanted);
    let mut new = Relay::start(options()).unwrap();
    let mut held = old.connect();
    assert!(is_alive(&mut held));
    let (at, web) = (old.at, old.id.clone());
    let served = under_load(at, || {
        new.adopt(old.relay.listening().unwrap());
        assert_eq!(new.ids(), std::slice::from_ref(&web));
        assert_eq!(new.open(&web, &wanted).unwrap(), at.port());
        old.relay.retire();
    });
    assert!(is_alive(&mut held), "what the old one had goes on");
    eventually("it has nothing else", || old.relay.active() == 1);
    drop(held);
    eventually("the old one has nothing left", || old.relay.active() == 0);
    assert!(new.counters()[0].1.all.connections > 0);
    eprintln!("counted: {served} connections across a handover, 0 failed");
}

#[test]
fn a_successor_in_another_process_goes_on_and_no_connection_fails() {
    let web = id("web", Protocol::Tcp);
    if let Some(line) = line_to_parent() {
        let wanted = any(Protocol::Tcp, pool(&[local(hear(&line))]));
        let mut new = Relay::start(options()).unwrap();
        new.adopt(relay::receive(&line).unwrap());
        tell(&line, new.open(&web, &wanted).unwrap().into());
        while hear(&line) > 0 {
            tell(&line, new.counters()[0].1.all.connections);
        }
        return;
    }
    let endpoint = server(repeat);
    let mut old = Single::tcp(&[endpoint]);
    let again = Again::start("handover::a_successor_in_another_process_goes_on_and_no_connection_fails");
    let at = old.at;
    let served = under_load(at, || {
        tell(&again.line, endpoint.port().into());
        relay::send(&again.line, &old.relay.listening().unwrap()).unwrap();
        assert_eq!(hear(&again.line), u64::from(at.port()));
        old.relay.retire();
    });
    tell(&again.line, 1);
    assert!(hear(&again.line) > 200, "the other process has served");
    eprintln!("counted: {served} connections across a handover between processes, 0 failed");
}

#[test]
fn after_a_kill_the_same_port_is_bound_again_at_once() {
    let web = id("web", Protocol::Tcp);
    if let Some(line) = line_to_parent() {
        let wanted = any(Protocol::Tcp, pool(&[local(hear(&line))]));
        let mut relay = Relay::start(options()).unwrap();
        tell(&line, relay.open(&web, &wanted).unwrap().into());
        hear(&line);
        return;
    }
    let endpoint = server(repeat);
    let mut again = Again::start("handover::after_a_kill_the_same_port_is_bound_again_at_once");
    tell(&again.line, endpoint.port().into());
    let at = local(hear(&again.line));
    let mut clients: Vec<TcpStream> = (0..50).map(|_| connect(at)).collect();
    assert!(clients.iter_mut().all(is_alive));
    let killed = Instant::now();
    again.child.kill().unwrap();
    again.child.wait().unwrap();
    let mut relay = Relay::start(options()).unwrap();
    let wish = At::Any { address: [0, 0, 0, 0].into(), wish: Some(at.port()) };
    let wanted = Listener { at: wish, ..any(Protocol::Tcp, pool(&[endpoint])) };
    assert_eq!(relay.open(&web, &wanted).unwrap(), at.port());
    assert!(is_alive(&mut connect(at)));
    eprintln!("counted: {} µs from the kill to the next connection served", killed.elapsed().as_micros());
}

#[test]
fn answers_to_datagrams_that_were_passed_on_before_still_arrive() {
    // An endpoint that answers when it is told to.
    let endpoint = UdpSocket::bind("127.0.0.1:0").unwrap();
    let wanted = any(Protocol::Udp, pool(&[endpoint.local_addr().unwrap()]));
    let mut old = Single::start(options(), &wanted);
    let asker = client(old.at);
    asker.send(b"before").unwrap();
    let (_, from) = endpoint.recv_from(&mut [0; 16]).unwrap();
    let mut new = Relay::start(options()).unwrap();
    new.adopt(old.relay.listening().unwrap());
    let wanted = any(Protocol::Udp, pool(&[named(b"new ")]));
    new.open(&old.id, &wanted).unwrap();
    old.relay.retire();
    endpoint.send_to(b"late answer", from).unwrap();
    assert_eq!(receive(&asker), b"late answer");
    assert_eq!(ask(&asker, b"question"), b"new question");
}

#[test]
fn held_ports_go_to_the_successor_without_a_moment_of_being_free() {
    let mut old = Relay::start(options()).unwrap();
    let free = crate::support::free_port();
    old.hold(free, Protocol::Tcp).unwrap();
    let (here, there) = UnixStream::pair().unwrap();
    relay::send(&here, &old.listening().unwrap()).unwrap();
    let mut new = Relay::start(options()).unwrap();
    new.adopt(relay::receive(&there).unwrap());
    old.retire();
    new.hold(free, Protocol::Tcp).unwrap();
    assert!(std::net::TcpListener::bind(free).is_err());
    new.release(free, Protocol::Tcp);
    std::net::TcpListener::bind(free).unwrap();
}

#[test]
fn what_was_adopted_and_nobody_opens_is_closed_like_any_other() {
    let wanted = any(Protocol::Tcp, pool(&[server(repeat)]));
    let mut old = Single::start(options(), &wanted);
    let mut new = Relay::start(options()).unwrap();
    new.adopt(old.relay.listening().unwrap());
    old.relay.retire();
    new.close(&old.id);
    assert!(TcpStream::connect(old.at).is_err());
}

#[test]
fn a_relay_that_was_retired_can_listen_again_if_its_successor_is_gone() {
    let wanted = any(Protocol::Tcp, pool(&[server(repeat)]));
    let mut relay = Single::start(options(), &wanted);
    relay.relay.retire();
    let at = At::Exactly(([0, 0, 0, 0], relay.at.port()).into());
    relay.bring_to(&Listener { at, ..wanted });
    assert!(is_alive(&mut connect(relay.at)));
}
