//! The endpoints behind all proxies: as cheap as they can be, so that the proxies are what is measured.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream, UdpSocket};
use std::os::fd::AsFd as _;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use kernel::poll::{Events, Interest, Poll};
use kernel::socket::{self, Inbox, Outgoing};

/// What a request is, and an answer.
pub(crate) const MESSAGE: usize = 64;
/// Threads that accept; each serves one connection at a time.
const ACCEPTORS: usize = 16;
/// How much of bulk data is written, and read, at once.
pub(crate) const BULK_BYTES: usize = 256 << 10;

/// The ports of something, of the endpoints or of a proxy: what an endpoint does that listens there.
pub(crate) type Ports = [u16; 5];
/// Sends bytes without end.
pub(crate) const BULK: usize = 0;
/// Answers one request, then closes.
pub(crate) const ONCE: usize = 1;
/// Answers every request.
pub(crate) const ECHO: usize = 2;
/// Says nothing.
pub(crate) const IDLE: usize = 3;
/// Answers every datagram.
pub(crate) const DATAGRAMS: usize = 4;

/// The endpoints.
#[derive(Debug)]
pub(crate) struct Endpoints {
    pub(crate) ports: Ports,
    idle: mpsc::Receiver<TcpStream>,
}

impl Endpoints {
    pub(crate) fn start() -> Result<Self> {
        let (sender, idle) = mpsc::channel();
        let ports = [
            serve(true, send_bulk)?,
            serve(false, answer_once)?,
            serve(true, answer_all)?,
            serve(true, move |stream| drop(sender.send(stream)))?,
            answer_datagrams()?,
        ];
        Ok(Self { ports, idle })
    }

    /// So many connections through a proxy, both ends, that do nothing.
    pub(crate) fn hold_idle(&self, port: u16, count: usize) -> Result<Vec<(TcpStream, TcpStream)>> {
        let limit = Duration::from_secs(10);
        let connect = |number| {
            let client = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
            let endpoint = self
                .idle
                .recv_timeout(limit)
                .with_context(|| format!("connection {number} was not carried"))?;
            Ok((client, endpoint))
        };
        (1..=count).map(connect).collect()
    }
}

/// Runs a server for each connection: on a thread of its own where it lasts.
fn serve(lasts: bool, server: impl Fn(TcpStream) + Clone + Send + 'static) -> io::Result<u16> {
    let listener = socket::listen_tcp((Ipv4Addr::LOCALHOST, 0).into())?;
    listener.set_nonblocking(false)?;
    let port = listener.local_addr()?.port();
    for _ in 0..if lasts { 1 } else { ACCEPTORS } {
        let (listener, server) = (listener.try_clone()?, server.clone());
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let server = server.clone();
                if lasts {
                    thread::spawn(move || server(stream));
                } else {
                    server(stream);
                }
            }
        });
    }
    Ok(port)
}

/// Sends until nobody takes it.
fn send_bulk(mut stream: TcpStream) {
    let piece = vec![0x5a; BULK_BYTES];
    while stream.write_all(&piece).is_ok() {}
}

fn answer_once(mut stream: TcpStream) {
    let mut message = [0; MESSAGE];
    if stream.read_exact(&mut message).is_ok() {
        let _gone = stream.write_all(&message);
    }
}

fn answer_all(mut stream: TcpStream) {
    let mut message = [0; MESSAGE];
    let _small_writes_wait = stream.set_nodelay(true);
    while stream.read_exact(&mut message).is_ok() && stream.write_all(&message).is_ok() {}
}

fn answer_datagrams() -> io::Result<u16> {
    let socket: UdpSocket = socket::listen_udp((Ipv4Addr::LOCALHOST, 0).into())?;
    let port = socket.local_addr()?.port();
    let poll = Poll::new()?;
    poll.add(socket.as_fd(), 0, Interest::Shared)?;
    thread::spawn(move || {
        let (mut inbox, mut events) = (Inbox::default(), Events::with_room_for(1));
        while poll.wait(&mut events, None).is_ok() {
            let Ok(count) = inbox.receive(socket.as_fd()) else { continue };
            let datagrams = (0..count).map(|i| inbox.get(i));
            let answers: Vec<Outgoing<'_>> = datagrams
                .map(|one| Outgoing { to: one.from, from: one.to, bytes: one.bytes, segment: 0 })
                .collect();
            let _lost = socket::send(socket.as_fd(), &answers);
        }
    });
    Ok(port)
}
