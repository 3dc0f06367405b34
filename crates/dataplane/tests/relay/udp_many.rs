//! Many clients at once, and one that does not read.

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use model::net::Protocol;

use crate::support::{Again, PATIENCE, Single, any, hear, line_to_parent, local, options, pool, tell};
use crate::udp::{ask, client, named};

#[test]
fn ten_thousand_clients_have_a_session_each() {
    const CLIENTS: u32 = 10_000;
    if let Some(line) = line_to_parent() {
        // Sessions and clients together would be more files than one process may have.
        let options =
            dataplane::relay::Options { udp_idle_answered: PATIENCE, udp_idle: PATIENCE, ..options() };
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
    let again = Again::start("udp_many::ten_thousand_clients_have_a_session_each");
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
