//! Serves a cluster of many Services on loopback, in a process of its own, so that the memory of whoever watches it is not mixed
//! with the server's. It ends when its standard input does.
//!
//! ```text
//!   cargo run --release -p mockapi --example serve -- 45000 4
//! ```
//!
//! In: how many Services, and how many endpoints each has. Lines of standard input: `slice N` puts the slice of Service N anew with other
//! endpoints, `storm N` does that for N of them. Out: the URL, and the moment of each change as nanoseconds since 1970.

use std::io::{BufRead as _, Write as _};
use std::time::{SystemTime, UNIX_EPOCH};

use mockapi::objects::{node, service, service_cidr, slice};
use mockapi::{MockApi, NODES, Options, SERVICE_CIDRS, SERVICES, SLICES};

fn main() -> std::io::Result<()> {
    let mut numbers = std::env::args().skip(1).filter_map(|text| text.parse::<u32>().ok());
    let (services, endpoints) = (numbers.next().unwrap_or(45_000), numbers.next().unwrap_or(4));
    let server = MockApi::start(Options::default())?;
    server.put(NODES, node("a", "192.0.2.1"));
    server.put(SERVICE_CIDRS, service_cidr("kubernetes", "10.96.0.0/12"));
    for number in 0..services {
        server.put(SERVICES, service(&name(number), &cluster_ip(number)));
        put_slice(&server, number, 0, endpoints);
    }
    // Nobody will ask for what happened while this was put together.
    server.compact();
    let mut out = std::io::stdout();
    writeln!(out, "{}", server.url())?;
    for (turn, line) in std::io::stdin().lock().lines().enumerate() {
        let line = line?;
        let number = line.split(' ').nth(1).and_then(|text| text.parse().ok()).unwrap_or(0);
        let changed = if line.starts_with("storm") { 0..number } else { number..number + 1 };
        for one in changed {
            put_slice(&server, one % services.max(1), u32::try_from(turn).unwrap_or(0) + 1, endpoints);
        }
        writeln!(out, "{}", SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos())?;
    }
    Ok(())
}

fn put_slice(server: &MockApi, number: u32, turn: u32, endpoints: u32) {
    let addresses: Vec<String> =
        (0..endpoints).map(|index| address(number * endpoints + index, turn)).collect();
    let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
    server.put(SLICES, slice(&name(number), &addresses));
}

fn name(number: u32) -> String {
    format!("service-{number:05}")
}

fn cluster_ip(number: u32) -> String {
    std::net::Ipv4Addr::from(0x0a60_0001 + number).to_string()
}

/// Other addresses with every turn.
fn address(number: u32, turn: u32) -> String {
    std::net::Ipv4Addr::from(0x0b00_0000 + (turn % 8) * 0x0010_0000 + number).to_string()
}
