//! At the limit of open files, with very many connections, and with clients that misbehave.

use std::io::Write as _;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use dataplane::relay::{Options, Trouble};
use kernel::socket::reset_on_close;
use model::net::Protocol;

use crate::random::Random;
use crate::support::{
    Again, Single, any, ask_for, connect, eventually, hear, is_alive, line_to_parent, local, open_files,
    options, pool, repeat, resident, server, tell,
};

/// How many connections the test of idle ones makes, unless told otherwise.
const IDLE: usize = 9_800;
const IDLE_VARIABLE: &str = "PORTWAY_IDLE_CONNECTIONS";

#[test]
fn at_the_limit_of_files_connections_wait_and_are_served_when_others_end() {
    if let Some(line) = line_to_parent() {
        kernel::limit::lower_files(80).unwrap();
        let told = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&told);
        let count = move |trouble: &Trouble| {
            assert_eq!(*trouble, Trouble::TooManyFiles { limit: 80 });
            counted.fetch_add(1, Relaxed);
        };
        let options = Options { tell: Arc::new(count), ..options() };
        let relay = Single::start(options, &any(Protocol::Tcp, pool(&[local(hear(&line))])));
        tell(&line, relay.at.port().into());
        while hear(&line) > 0 {
            tell(&line, relay.relay.active() as u64);
            tell(&line, told.load(Relaxed) as u64);
            assert_eq!(relay.counters().pauses > 0, told.load(Relaxed) > 0);
            tell(&line, processor_ticks());
        }
        return;
    }
    let again = Again::start("limits::at_the_limit_of_files_connections_wait_and_are_served_when_others_end");
    tell(&again.line, server(repeat).port().into());
    let at = local(hear(&again.line));
    let status = || ask_for::<3>(&again.line);
    let mut clients: Vec<TcpStream> = (0..100).map(|_| connect(at)).collect();
    let mut most = 0;
    eventually("as many are served as there is room for", || {
        let [active, told, _] = status();
        most = active;
        // A quarter of the files is left to others, one is the listener, and each connection has two.
        active == 29 && told > 0
    });
    let [_, told, busy_before] = status();
    // Half a second at the limit: a loop that spins would use all of it.
    let until = std::time::Instant::now() + Duration::from_millis(500);
    eventually("a moment has passed", || std::time::Instant::now() >= until);
    let [active, told_later, busy_after] = status();
    assert_eq!((active, told_later), (most, told), "it is told once, not each time");
    assert!(busy_after - busy_before < 20, "busy for {} ticks of 50", busy_after - busy_before);
    // All are served in the end, the last ones after the first have gone.
    for mut client in clients.drain(..) {
        assert!(is_alive(&mut client));
    }
    eprintln!("counted: {most} of 100 connections at once with 80 files, the others later");
}

/// Hundredths of a second that this process has used.
fn processor_ticks() -> u64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = text.rsplit(')').next().unwrap().split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

#[test]
fn very_many_idle_connections_cost_little_memory_each() {
    if let Some(line) = line_to_parent() {
        let relay = Single::start(options(), &any(Protocol::Tcp, pool(&[local(hear(&line))])));
        tell(&line, relay.at.port().into());
        while hear(&line) > 0 {
            tell(&line, relay.counters().all.active);
            tell(&line, resident());
        }
        return;
    }
    let limit = usize::try_from(kernel::limit::raise_files().unwrap()).unwrap();
    let wanted = std::env::var(IDLE_VARIABLE).ok().and_then(|text| text.parse().ok()).unwrap_or(IDLE);
    // Two files for each in the relay's process, and two in this one, which is both clients and endpoint.
    let count = wanted.min((limit - 300) / 2);
    let again = Again::start("limits::very_many_idle_connections_cost_little_memory_each");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    tell(&again.line, listener.local_addr().unwrap().port().into());
    let at = local(hear(&again.line));
    let status = || ask_for::<2>(&again.line);
    let [_, before] = status();
    let mut held = Vec::new();
    for _ in 0..count {
        let client = connect(at);
        let (endpoint, _) = listener.accept().unwrap();
        held.push((client, endpoint));
    }
    eventually("all are carried", || status()[0] == count as u64);
    let [_, after] = status();
    let each = (after - before) / count as u64;
    eprintln!("counted: {each} bytes of memory for each of {count} idle connections");
    assert!(each <= 12 << 10, "{each} bytes for each");
    let (client, endpoint) = held.last_mut().unwrap();
    client.write_all(b"still there").unwrap();
    let mut heard = [0; 11];
    std::io::Read::read_exact(endpoint, &mut heard).unwrap();
    assert_eq!(&heard, b"still there");
}

#[test]
fn clients_that_vanish_and_send_garbage_leave_nothing_behind() {
    let relay = Single::tcp(&[server(repeat), server(drop)]);
    eventually("clients are served", || is_alive(&mut relay.connect()));
    let before = open_files();
    thread::scope(|scope| {
        for seed in 1..=4 {
            let relay = &relay;
            scope.spawn(move || misbehave(relay.at, seed));
        }
    });
    eventually("no connection is left", || relay.relay.active() == 0);
    // Pipes that are kept for the next are all that may stay.
    eventually("the servers have ended theirs too", || open_files() <= before + 2 * 64);
    // One of the two endpoints answers; on a busy machine it may be left out for a moment.
    eventually("others are served as before", || is_alive(&mut relay.connect()));
    eprintln!("counted: {} connections that misbehaved", relay.counters().all.connections);
}

fn misbehave(at: SocketAddr, seed: u64) {
    let mut random = Random::new(seed);
    let garbage: Vec<u8> = (0..200_000).map(|_| random.next().to_be_bytes()[0]).collect();
    for _ in 0..250 {
        let client = connect(at);
        match random.below(5) {
            0 => {}
            1 => reset_on_close(&client).unwrap(),
            2 => drop((&client).write(&garbage[..random.below(garbage.len())])),
            3 => {
                // Without waiting for what comes back: closing resets.
                drop((&client).write(&garbage[..=random.below(100)]));
                reset_on_close(&client).unwrap();
            }
            _ => client.shutdown(std::net::Shutdown::Write).unwrap(),
        }
    }
}
