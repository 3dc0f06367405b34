//! No byte is lost, doubled or reordered, however they come; and nothing is read that nobody takes.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use crate::random::Random;
use crate::support::{Single, eventually, resident, server};

/// The byte at a place of a stream: all streams differ, and a shift or a gap shows.
fn byte(stream: u64, place: usize) -> u8 {
    let mixed = (place as u64 ^ stream << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed.to_be_bytes()[0]
}

/// Says `total` bytes of a stream, in pieces of all sizes, with pauses.
fn say(mut to: &TcpStream, stream: u64, total: usize) {
    let mut random = Random::new(stream + 1);
    let mut said = 0;
    while said < total {
        let most = [1, 100, 5_000, 300_000][random.below(4)];
        let count = (1 + random.below(most)).min(total - said);
        let piece: Vec<u8> = (said..said + count).map(|place| byte(stream, place)).collect();
        to.write_all(&piece).unwrap();
        said += count;
        if random.below(4) == 0 {
            thread::park_timeout(Duration::from_micros(random.below(2000) as u64));
        }
    }
    to.shutdown(Shutdown::Write).unwrap();
}

/// Hears a stream to its end, with pauses. Returns how many bytes there were, all of them right.
fn hear(mut from: &TcpStream, stream: u64) -> usize {
    let mut random = Random::new(stream + 7);
    let mut buffer = vec![0; 200_000];
    let mut heard = 0;
    loop {
        let most = [10, 1000, buffer.len()][random.below(3)];
        let count = from.read(&mut buffer[..most]).unwrap();
        if count == 0 {
            return heard;
        }
        let wrong = (0..count).find(|i| buffer[*i] != byte(stream, heard + i));
        assert_eq!(wrong, None, "stream {stream} is wrong near {heard}");
        heard += count;
        if random.below(16) == 0 {
            thread::park_timeout(Duration::from_micros(random.below(2000) as u64));
        }
    }
}

/// Both ends of a connection speak and listen at the same time; each has its own stream.
fn converse(stream: &TcpStream, says: u64, hears: u64, total: usize) -> usize {
    thread::scope(|scope| {
        scope.spawn(|| say(stream, says, total));
        hear(stream, hears)
    })
}

#[test]
fn random_sizes_and_pauses_lose_and_reorder_nothing_in_either_direction() {
    const CONNECTIONS: u64 = 48;
    let at = server(|mut stream| {
        // The client says first which stream this is, and how long it is.
        let mut header = [0; 16];
        stream.read_exact(&mut header).unwrap();
        let [number, total] = [0, 8].map(|i| u64::from_be_bytes(header[i..i + 8].try_into().unwrap()));
        converse(&stream, 2 * number + 1, 2 * number, usize::try_from(total).unwrap());
    });
    let relay = Single::tcp(&[at]);
    let mut all = 0;
    thread::scope(|scope| {
        let talks: Vec<_> = (0..CONNECTIONS)
            .map(|number| {
                let mut client = relay.connect();
                scope.spawn(move || {
                    let total = 1 + Random::new(number + 99).below(4_000_000);
                    client.write_all(&number.to_be_bytes()).unwrap();
                    client.write_all(&(total as u64).to_be_bytes()).unwrap();
                    assert_eq!(converse(&client, 2 * number, 2 * number + 1, total), total);
                    total as u64
                })
            })
            .collect();
        all = talks.into_iter().map(|talk| talk.join().unwrap()).sum::<u64>();
    });
    eventually("all are closed", || relay.relay.active() == 0);
    let counts = relay.counters().all;
    let carried = (counts.connections, counts.bytes_in, counts.bytes_out);
    assert_eq!(carried, (CONNECTIONS, all + 16 * CONNECTIONS, all));
    eprintln!("counted: {all} bytes each way over {CONNECTIONS} connections");
}

#[test]
fn a_client_that_does_not_read_stops_the_endpoint_and_costs_little() {
    const TOTAL: usize = 512 << 20;
    let said = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&said);
    let at = server(move |mut stream| {
        let piece: Vec<u8> = (0..1 << 20).map(|place| byte(0, place)).collect();
        let mut done = 0;
        while done < TOTAL {
            done += stream.write(&piece[done % piece.len()..]).unwrap();
            counted.store(done, Relaxed);
        }
    });
    let relay = Single::tcp(&[at]);
    let before = resident();
    let mut client = relay.connect();
    let mut last = 0;
    let mut same = 0;
    eventually("the endpoint is stopped", || {
        let now = said.load(Relaxed);
        same = if now == last && now > 0 { same + 1 } else { 0 };
        last = now;
        same > 300
    });
    assert!(last < TOTAL / 4, "{last} bytes were taken for a client that reads nothing");
    let grown = resident().saturating_sub(before);
    assert!(grown < 16 << 20, "grew by {grown} bytes");
    eprintln!("counted: {last} bytes in the kernel's buffers for such a client, {grown} in ours");

    let mut buffer = vec![0; 1 << 20];
    let mut heard = 0;
    loop {
        let count = client.read(&mut buffer).unwrap();
        if count == 0 {
            break;
        }
        for i in [0, count / 2, count - 1] {
            assert_eq!(buffer[i], byte(0, (heard + i) % (1 << 20)));
        }
        heard += count;
    }
    assert_eq!(heard, TOTAL);
}
