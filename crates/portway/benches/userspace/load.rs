//! The load: what clients do, and what is counted.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream, UdpSocket};
use std::os::fd::AsFd as _;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use harness::Quantiles;
use kernel::poll::{Events, Interest, Poll};
use kernel::socket::{self, Inbox, Outgoing};

use crate::Figures;
use crate::endpoints::{BULK, BULK_BYTES, DATAGRAMS, ECHO, MESSAGE, ONCE};
use crate::proxy::Proxy;

/// Nothing takes longer unless it is broken.
const PATIENCE: Duration = Duration::from_secs(20);
/// Clients that send datagrams from each thread.
const SENDERS: usize = 32;
/// Datagrams that a client has on their way at all times.
const WINDOW: usize = 8;
/// What has not come back by then is lost.
const LOST_AFTER: Duration = Duration::from_millis(50);

/// What clients do.
#[derive(Debug)]
pub(crate) struct Load {
    pub(crate) name: &'static str,
    pub(crate) port: usize,
    /// Threads.
    clients: usize,
    /// Loads a port until the time is over.
    client: fn(port: u16, until: Instant) -> Result<Counted>,
    /// What is shown of a unit in a second.
    pub(crate) unit: &'static str,
}

pub(crate) const LOADS: [Load; 5] = [
    Load { name: "bulk, 1 connection", port: BULK, clients: 1, client: bulk, unit: "GB/s" },
    Load { name: "bulk, 64 connections", port: BULK, clients: 64, client: bulk, unit: "GB/s" },
    Load { name: "new connections", port: ONCE, clients: 16, client: connects, unit: "connections/s" },
    Load { name: "64-byte round trips", port: ECHO, clients: 16, client: round_trips, unit: "round trips/s" },
    Load { name: "64-byte datagrams", port: DATAGRAMS, clients: 2, client: datagrams, unit: "answered/s" },
];

/// What a client counts; times only where it waits for each unit.
#[derive(Default)]
struct Counted {
    units: u64,
    lost: u64,
    samples: Vec<Duration>,
}

impl Load {
    /// Loads a proxy for so long.
    pub(crate) fn run(&self, proxy: &Proxy, length: Duration) -> Result<Figures> {
        let (start, port) = (Instant::now(), proxy.ports[self.port]);
        let counted = thread::scope(|scope| {
            let start_one = |_| scope.spawn(move || (self.client)(port, start + length));
            let clients: Vec<_> = (0..self.clients).map(start_one).collect();
            let ended = clients.into_iter().map(|client| client.join().expect("a client does not panic"));
            ended.collect::<Result<Vec<_>>>()
        })?;
        let seconds = start.elapsed().as_secs_f64();
        let samples: Vec<Duration> = counted.iter().flat_map(|one| one.samples.iter().copied()).collect();
        Ok(Figures {
            units: counted.iter().map(|one| one.units).sum(),
            seconds,
            latency: (!samples.is_empty()).then(|| Quantiles::of(samples)),
            lost: counted.iter().map(|one| one.lost).sum(),
        })
    }
}

impl Counted {
    /// One unit after another until the time is over, each timed.
    fn each(until: Instant, mut unit: impl FnMut() -> Result<()>) -> Result<Self> {
        let mut counted = Self::default();
        while Instant::now() < until {
            let begun = Instant::now();
            unit()?;
            counted.samples.push(begun.elapsed());
            counted.units += 1;
        }
        Ok(counted)
    }
}

fn connect(port: u16) -> Result<TcpStream> {
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

fn bulk(port: u16, until: Instant) -> Result<Counted> {
    let (mut stream, mut buffer, mut bytes) = (connect(port)?, vec![0; BULK_BYTES], 0);
    while Instant::now() < until {
        let count = stream.read(&mut buffer)?;
        ensure!(count > 0, "the connection has ended");
        bytes += count as u64;
    }
    Ok(Counted { units: bytes, ..Counted::default() })
}

fn connects(port: u16, until: Instant) -> Result<Counted> {
    Counted::each(until, || {
        let mut stream = connect(port)?;
        stream.write_all(&[1; MESSAGE])?;
        let mut answer = Vec::with_capacity(MESSAGE);
        stream.read_to_end(&mut answer)?;
        ensure!(answer.len() == MESSAGE, "an answer of {} bytes", answer.len());
        Ok(())
    })
}

fn round_trips(port: u16, until: Instant) -> Result<Counted> {
    let (mut stream, mut message) = (connect(port)?, [1; MESSAGE]);
    Counted::each(until, || {
        stream.write_all(&message)?;
        Ok(stream.read_exact(&mut message)?)
    })
}

/// Datagrams that came back.
fn datagrams(port: u16, until: Instant) -> Result<Counted> {
    let (poll, mut counted) = (Poll::new()?, Counted::default());
    let mut senders =
        (0..SENDERS).map(|number| Sender::new(port, number, &poll)).collect::<Result<Vec<_>>>()?;
    let (mut inbox, mut events) = (Inbox::default(), Events::with_room_for(SENDERS));
    while Instant::now() < until {
        poll.wait(&mut events, Some(LOST_AFTER))?;
        let now = Instant::now();
        for event in events.iter() {
            let sender = &mut senders[usize::try_from(event.token)?];
            let Ok(count) = inbox.receive(sender.socket.as_fd()) else { continue };
            counted.units += count as u64;
            sender.on_their_way = sender.on_their_way.saturating_sub(count);
            sender.send(count, now);
        }
        for sender in senders.iter_mut().filter(|sender| now - sender.last_heard > LOST_AFTER) {
            counted.lost += sender.on_their_way as u64;
            sender.on_their_way = 0;
            sender.send(WINDOW, now);
        }
    }
    Ok(counted)
}

struct Sender {
    socket: UdpSocket,
    last_heard: Instant,
    on_their_way: usize,
}

impl Sender {
    fn new(port: u16, number: usize, poll: &Poll) -> Result<Self> {
        let socket = socket::dial_udp((Ipv4Addr::LOCALHOST, port).into())?;
        poll.add(socket.as_fd(), number as u64, Interest::Shared)?;
        let mut sender = Self { socket, last_heard: Instant::now(), on_their_way: 0 };
        sender.send(WINDOW, Instant::now());
        Ok(sender)
    }

    fn send(&mut self, count: usize, now: Instant) {
        let batch = vec![Outgoing { to: None, from: None, bytes: &[1; MESSAGE], segment: 0 }; count];
        self.on_their_way += socket::send(self.socket.as_fd(), &batch).unwrap_or(0);
        self.last_heard = now;
    }
}
