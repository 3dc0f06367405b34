//! The load: what clients do, and what is counted.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use crate::datagrams;
use crate::endpoints::{BULK_BYTES, MESSAGE};
use crate::proxy::Proxy;
use crate::results::Figures;
use crate::samples::Quantiles;
use anyhow::Result;

/// Clients that connect at the same time.
const CONNECTING: usize = 16;
/// Clients that send small messages at the same time.
const CONVERSING: usize = 16;
/// Nothing takes longer unless it is broken.
const PATIENCE: Duration = Duration::from_secs(20);

/// What clients do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Load {
    Bulk(usize),
    Connects,
    RoundTrips,
    Datagrams,
}

impl Load {
    pub(crate) const ALL: [Load; 5] =
        [Load::Bulk(1), Load::Bulk(64), Load::Connects, Load::RoundTrips, Load::Datagrams];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Load::Bulk(1) => "bulk, 1 connection",
            Load::Bulk(_) => "bulk, 64 connections",
            Load::Connects => "new connections",
            Load::RoundTrips => "64-byte round trips",
            Load::Datagrams => "64-byte datagrams",
        }
    }

    /// Loads a proxy for so long.
    pub(crate) fn run(self, proxy: &Proxy, length: Duration) -> Result<Figures> {
        match self {
            Load::Bulk(connections) => bulk(proxy.ports.bulk, connections, length),
            Load::Connects => connects(proxy.ports.once, length),
            Load::RoundTrips => round_trips(proxy.ports.echo, length),
            Load::Datagrams => datagrams::run(proxy.ports.datagrams, length),
        }
    }
}

/// Runs clients until the time is over; what each of them returns, and how long it really took.
fn clients<T: Send>(
    count: usize,
    length: Duration,
    client: impl Fn(Instant) -> Result<T> + Sync,
) -> Result<(Vec<T>, f64)> {
    let start = Instant::now();
    let done = thread::scope(|scope| {
        let clients: Vec<_> = (0..count).map(|_| scope.spawn(|| client(start + length))).collect();
        let join = |client: thread::ScopedJoinHandle<'_, Result<T>>| {
            client.join().unwrap_or_else(|_| Err(anyhow::anyhow!("a client panicked")))
        };
        clients.into_iter().map(join).collect::<Result<Vec<T>>>()
    })?;
    Ok((done, start.elapsed().as_secs_f64()))
}

fn connect(port: u16) -> Result<TcpStream> {
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Bytes of all clients.
fn bulk(port: u16, connections: usize, length: Duration) -> Result<Figures> {
    let (bytes, seconds) = clients(connections, length, |until| read_bulk(&connect(port)?, until))?;
    Ok(Figures { units: bytes.iter().sum(), seconds, latency: None, lost: 0 })
}

fn read_bulk(mut stream: &TcpStream, until: Instant) -> Result<u64> {
    let mut buffer = vec![0; BULK_BYTES];
    let mut bytes = 0;
    while Instant::now() < until {
        let count = stream.read(&mut buffer)?;
        anyhow::ensure!(count > 0, "the connection has ended");
        bytes += count as u64;
    }
    Ok(bytes)
}

fn connects(port: u16, length: Duration) -> Result<Figures> {
    let (samples, seconds) = clients(CONNECTING, length, |until| {
        let mut samples = Vec::new();
        while Instant::now() < until {
            let begun = Instant::now();
            let mut stream = connect(port)?;
            stream.write_all(&[1; MESSAGE])?;
            let mut answer = Vec::with_capacity(MESSAGE);
            stream.read_to_end(&mut answer)?;
            anyhow::ensure!(answer.len() == MESSAGE, "an answer of {} bytes", answer.len());
            samples.push(begun.elapsed());
        }
        Ok(samples)
    })?;
    Ok(timed(&samples, seconds))
}

fn round_trips(port: u16, length: Duration) -> Result<Figures> {
    let (samples, seconds) = clients(CONVERSING, length, |until| {
        let mut stream = connect(port)?;
        let (mut samples, mut message) = (Vec::new(), [1; MESSAGE]);
        while Instant::now() < until {
            let begun = Instant::now();
            stream.write_all(&message)?;
            stream.read_exact(&mut message)?;
            samples.push(begun.elapsed());
        }
        Ok(samples)
    })?;
    Ok(timed(&samples, seconds))
}

fn timed(samples: &[Vec<Duration>], seconds: f64) -> Figures {
    let units = samples.iter().map(|samples| samples.len() as u64).sum();
    let latency = Quantiles::of(samples.iter().flatten().copied());
    Figures { units, seconds, latency: Some(latency), lost: 0 }
}
