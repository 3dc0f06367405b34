//! Datagrams: each client has some on their way at all times.

use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsFd as _;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use kernel::poll::{Events, Interest, Poll};
use kernel::socket::{self, Inbox, Outgoing};

use crate::endpoints::MESSAGE;
use crate::results::Figures;

const THREADS: usize = 2;
/// Clients of each thread.
const CLIENTS: usize = 32;
/// Datagrams that a client has on their way.
const WINDOW: usize = 8;
/// What has not come back by then is lost.
const LOST_AFTER: Duration = Duration::from_millis(50);

struct Client {
    socket: UdpSocket,
    last_heard: Instant,
    on_their_way: usize,
}

/// Datagrams that came back.
pub(crate) fn run(port: u16, length: Duration) -> Result<Figures> {
    let start = Instant::now();
    let counts = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(|| converse(port, start + length))).collect();
        let join = |thread: thread::ScopedJoinHandle<'_, Result<(u64, u64)>>| {
            thread.join().unwrap_or_else(|_| Err(anyhow::anyhow!("a client panicked")))
        };
        threads.into_iter().map(join).collect::<Result<Vec<_>>>()
    })?;
    let seconds = start.elapsed().as_secs_f64();
    let (units, lost) = counts.into_iter().fold((0, 0), |sum, each| (sum.0 + each.0, sum.1 + each.1));
    Ok(Figures { units, seconds, latency: None, lost })
}

fn converse(port: u16, until: Instant) -> Result<(u64, u64)> {
    let poll = Poll::new()?;
    let mut clients = Vec::new();
    for number in 0..CLIENTS {
        let socket = socket::dial_udp((Ipv4Addr::LOCALHOST, port).into())?;
        poll.add(socket.as_fd(), number as u64, Interest::Shared)?;
        clients.push(Client { socket, last_heard: Instant::now(), on_their_way: 0 });
        clients[number].send(WINDOW);
    }
    let (mut inbox, mut events) = (Inbox::default(), Events::with_room_for(CLIENTS));
    let (mut heard, mut lost) = (0, 0);
    while Instant::now() < until {
        poll.wait(&mut events, Some(LOST_AFTER))?;
        let now = Instant::now();
        for event in events.iter() {
            let client = &mut clients[usize::try_from(event.token)?];
            let Ok(count) = inbox.receive(client.socket.as_fd()) else { continue };
            client.last_heard = now;
            client.on_their_way = client.on_their_way.saturating_sub(count);
            heard += count as u64;
            client.send(count);
        }
        for client in clients.iter_mut().filter(|client| now - client.last_heard > LOST_AFTER) {
            lost += client.on_their_way as u64;
            client.last_heard = now;
            client.on_their_way = 0;
            client.send(WINDOW);
        }
    }
    Ok((heard, lost))
}

impl Client {
    fn send(&mut self, count: usize) {
        let batch = vec![Outgoing { to: None, from: None, bytes: &[1; MESSAGE], segment: 0 }; count];
        self.on_their_way += socket::send(self.socket.as_fd(), &batch).unwrap_or(0);
    }
}
