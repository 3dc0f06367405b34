//! Clients that mean no good, or nothing at all.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use playground::patient;

use crate::client::{ask, connect, read, send, until};
use crate::place::Place;

/// What this process holds in memory.
fn resident_kib() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

fn quick(at: SocketAddr, path: &str) -> Duration {
    let begun = Instant::now();
    assert_eq!(ask(at, path).code, 200);
    begun.elapsed()
}

#[test]
fn a_thousand_idle_connections_keep_nobody_out_and_take_no_memory() {
    let place = Place::new();
    assert_eq!(ask(place.metrics, "/metrics").code, 200, "all is warm");
    let before = resident_kib();
    let mut idle: Vec<TcpStream> = (0..1000).map(|_| connect(place.metrics)).collect();
    let slowest = (0..20).map(|_| quick(place.metrics, "/metrics")).max().unwrap();
    assert!(slowest < patient(Duration::from_secs(1)), "{slowest:?}");
    let grown = resident_kib().saturating_sub(before);
    assert!(grown < 8 << 10, "{grown} KiB");
    let is_closed = |stream: &mut TcpStream| {
        stream.set_nonblocking(true).unwrap();
        !matches!(stream.read(&mut [0]), Err(error) if error.kind() == ErrorKind::WouldBlock)
    };
    let closed = idle.iter_mut().map(is_closed).filter(|is_closed| *is_closed).count();
    assert!(closed >= 900, "{closed} of those who said nothing have made room");
    eprintln!("counted: 1000 idle connections, {grown} KiB more memory, slowest answer {slowest:?}");
}

#[test]
fn who_sends_a_letter_at_a_time_keeps_nobody_out_and_is_closed() {
    let place = Place::new();
    let mut slow: Vec<TcpStream> = (0..150).map(|_| connect(place.health)).collect();
    for stream in &mut slow {
        // One that was closed for others cannot be written to.
        let _ = stream.write_all(b"GET /heal");
    }
    assert!(quick(place.health, "/healthz") < patient(Duration::from_secs(1)));
    let last = slow.last_mut().unwrap();
    let begun = Instant::now();
    last.set_read_timeout(Some(patient(Duration::from_secs(20)))).unwrap();
    let mut answer = Vec::new();
    // The end, however it comes: the request was never whole.
    let _ = last.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP/1.1 200"), "{:?}", String::from_utf8_lossy(&answer));
    assert!(begun.elapsed() < patient(Duration::from_secs(15)), "{:?}", begun.elapsed());
}

#[test]
fn garbage_is_refused_and_harms_nobody() {
    let place = Place::new();
    let too_long = format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "a".repeat(100_000));
    let many_heads = format!("GET / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(1_000));
    for garbage in [
        "\0\u{1}\u{2}\r\n\r\n",
        "hello\r\n\r\n",
        "GET\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        &too_long,
        &many_heads,
    ] {
        let mut stream = connect(place.health);
        // The server may close before it has read all of it.
        let _ = stream.write_all(garbage.as_bytes());
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{answer}");
        assert_eq!(ask(place.health, "/healthz").code, 200);
    }
    let half = send(place.health, "GET /livez HTTP/1.0\r\n\r\n");
    assert_eq!(half.code, 200, "an old client is no garbage");
}

#[test]
fn who_does_not_read_its_answer_holds_up_nobody() {
    let place = Place::new();
    let mut deaf = connect(place.metrics);
    deaf.write_all(b"GET /state HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    assert!(quick(place.metrics, "/metrics") < patient(Duration::from_secs(1)));
    assert!(quick(place.health, "/healthz") < patient(Duration::from_secs(1)));
}

#[test]
fn a_connection_may_ask_again_and_again() {
    let place = Place::new();
    let mut stream = connect(place.health);
    for _ in 0..3 {
        stream.write_all(b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        let mut head = [0; 12];
        stream.read_exact(&mut head).unwrap();
        assert_eq!(&head, b"HTTP/1.1 200");
        until("the answer is there", || stream.peek(&mut [0; 64]).is_ok());
        drain(&mut stream);
    }
    stream.write_all(b"GET /livez HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
    assert!(read(&mut stream).starts_with("HTTP/1.1 200"));
}

/// Reads up to the end of the body, which is a JSON object.
fn drain(stream: &mut TcpStream) {
    let mut depth = 0_i32;
    let mut byte = [0];
    loop {
        stream.read_exact(&mut byte).unwrap();
        depth += i32::from(byte[0] == b'{') - i32::from(byte[0] == b'}');
        if byte[0] == b'}' && depth == 0 {
            return;
        }
    }
}
