//! Servers that say who they are and whom they saw.
//!
//! One thread per place, entered into its namespace, waits for all its sockets at once:
//!
//! | port | on each question |
//! |---|---|
//! | `tcp` | answers as soon as the connection is there, and closes it |
//! | `held` | the same, but keeps the connection and answers each further line |
//! | `udp` | answers each datagram |
//! | `sctp` | answers an INIT with an INIT-ACK that carries the answer; an INIT to another port with an ABORT |
//!
//! The server closes first; a client that has its answer resets what is left, so that it can ask a hundred
//! thousand times from the same ports.

use std::io::{self, PipeReader, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::namespace::close;
use crate::namespace::socket::{RawSocket, wait_readable};

use crate::error::{Result, Trying};
use crate::place::Place;
use crate::reply::Reply;
use crate::sctp;
use crate::stop::{Running, switch};

/// Which ports a server opens, on both addresses of its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ports {
    /// TCP: one answer per connection.
    pub tcp: Vec<u16>,
    /// TCP: connections stay open, one answer per line.
    pub held: Vec<u16>,
    /// UDP: one answer per datagram.
    pub udp: Vec<u16>,
    /// SCTP: INIT-ACK for each INIT. When empty, no raw socket is opened.
    pub sctp: Vec<u16>,
}

impl Default for Ports {
    fn default() -> Self {
        Self { tcp: vec![8080], held: vec![8081], udp: vec![8080], sctp: vec![8080] }
    }
}

/// A running server; its ports are closed when it has been dropped.
#[derive(Debug)]
pub struct Server {
    inits: Arc<Mutex<Vec<Reply>>>,
    _running: Running<()>,
}

impl Server {
    /// Opens the ports, then answers in the background: who asks after this returns is answered.
    pub fn start(place: &Place, ports: &Ports) -> Result<Self> {
        let serving = || format!("serve in `{}`", place.name());
        let sockets = place.run(|| Sockets::open(place, ports)).and_then(|opened| opened.trying(serving))?;
        let (on, off) = switch().trying(serving)?;
        let inits = Arc::default();
        let worker = Worker {
            name: place.name().to_owned(),
            sockets,
            sctp_ports: ports.sctp.clone(),
            held: Vec::new(),
            inits: Arc::clone(&inits),
        };
        let thread = place.namespace().start(place.name(), move || worker.serve(&off)).trying(serving)?;
        Ok(Self { inits, _running: Running::new(on, thread) })
    }

    /// The SCTP INITs that arrived: from whom, and for which address, as seen here.
    pub fn inits(&self) -> Vec<Reply> {
        self.inits.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[derive(Debug)]
struct Sockets {
    tcp: Vec<(TcpListener, Manner)>,
    udp: Vec<UdpSocket>,
    sctp: Vec<RawSocket>,
}

/// What happens to a TCP connection after the first answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manner {
    Close,
    Hold,
}

impl Sockets {
    fn open(place: &Place, ports: &Ports) -> io::Result<Self> {
        let mut sockets = Self { tcp: Vec::new(), udp: Vec::new(), sctp: Vec::new() };
        for address in place.addresses().both() {
            sockets.listen(address, &ports.tcp, Manner::Close)?;
            sockets.listen(address, &ports.held, Manner::Hold)?;
            for port in &ports.udp {
                let socket = UdpSocket::bind((address, *port))?;
                socket.set_nonblocking(true)?;
                sockets.udp.push(socket);
            }
            if !ports.sctp.is_empty() {
                sockets.sctp.push(RawSocket::open(sctp::PROTOCOL, address)?);
            }
        }
        Ok(sockets)
    }

    fn listen(&mut self, address: IpAddr, ports: &[u16], manner: Manner) -> io::Result<()> {
        for port in ports {
            let listener = TcpListener::bind((address, *port))?;
            listener.set_nonblocking(true)?;
            self.tcp.push((listener, manner));
        }
        Ok(())
    }
}

#[derive(Debug)]
struct Worker {
    name: String,
    sockets: Sockets,
    sctp_ports: Vec<u16>,
    held: Vec<TcpStream>,
    inits: Arc<Mutex<Vec<Reply>>>,
}

impl Worker {
    /// Goes round until the switch is off. A socket that fails concerns only the client that used it.
    fn serve(mut self, off: &PipeReader) {
        while let Ok(ready) = wait_readable(&self.all(off), None) {
            let mut ready = ready.into_iter();
            if ready.next() == Some(true) {
                break;
            }
            self.answer(&mut ready);
        }
        // Whoever waits for this thread counts on free ports.
        close((self.sockets, self.held));
    }

    /// All that is waited for, in the order in which [`Worker::answer`] takes it up.
    fn all<'a>(&'a self, off: &'a PipeReader) -> Vec<BorrowedFd<'a>> {
        let tcp = self.sockets.tcp.iter().map(|(listener, _)| listener.as_fd());
        let udp = self.sockets.udp.iter().map(AsFd::as_fd);
        let sctp = self.sockets.sctp.iter().map(AsFd::as_fd);
        let held = self.held.iter().map(AsFd::as_fd);
        std::iter::once(off.as_fd()).chain(tcp).chain(udp).chain(sctp).chain(held).collect()
    }

    fn answer(&mut self, ready: &mut impl Iterator<Item = bool>) {
        let mut arrived = Vec::new();
        for ((listener, manner), _) in self.sockets.tcp.iter().zip(&mut *ready).filter(|(_, ready)| *ready) {
            arrived.extend(self.accept_all(listener, *manner));
        }
        for (socket, _) in self.sockets.udp.iter().zip(&mut *ready).filter(|(_, ready)| *ready) {
            self.answer_datagrams(socket);
        }
        for (socket, _) in self.sockets.sctp.iter().zip(&mut *ready).filter(|(_, ready)| *ready) {
            self.answer_inits(socket);
        }
        let name = &self.name;
        self.held.retain_mut(|stream| !ready.next().unwrap_or(false) || answer_lines(name, stream).is_ok());
        self.held.append(&mut arrived);
    }

    /// Answers everybody in the queue; returns the connections to keep.
    fn accept_all(&self, listener: &TcpListener, manner: Manner) -> Vec<TcpStream> {
        let arrived = std::iter::from_fn(|| listener.accept().ok());
        let greeted = arrived.filter_map(|(mut stream, _)| {
            let line = line(&self.name, &stream).ok()?;
            stream.write_all(line.as_bytes()).ok()?;
            stream.set_nonblocking(true).ok()?;
            (manner == Manner::Hold).then_some(stream)
        });
        greeted.collect()
    }

    fn answer_datagrams(&self, socket: &UdpSocket) {
        let mut question = [0; 2048];
        while let (Ok((_, client)), Ok(here)) = (socket.recv_from(&mut question), socket.local_addr()) {
            let reply = reply(&self.name, client, here);
            // A client that is gone does not matter to the others.
            let _ = socket.send_to(format!("{reply}\n").as_bytes(), client);
        }
    }

    fn answer_inits(&self, socket: &RawSocket) {
        while let Ok(Some(packet)) = socket.receive(Duration::ZERO) {
            let Some(init) = sctp::Init::read(&packet.payload) else { continue };
            let client = SocketAddr::new(packet.source, init.source_port);
            let reply = reply(&self.name, client, SocketAddr::new(socket.local(), init.destination_port));
            let serves = self.sctp_ports.contains(&init.destination_port);
            let answer = if serves { init.acknowledge(&reply.to_string()) } else { init.abort() };
            self.inits.lock().unwrap_or_else(PoisonError::into_inner).push(reply);
            let _ = socket.send(&answer, packet.source);
        }
    }
}

/// Answers each line that has come; an error when the client has left.
fn answer_lines(name: &str, stream: &mut TcpStream) -> io::Result<()> {
    let mut question = [0; 2048];
    loop {
        match stream.read(&mut question) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
            Ok(size) => {
                let lines = question[..size].split(|byte| *byte == b'\n').count() - 1;
                stream.write_all(line(name, stream)?.repeat(lines).as_bytes())?;
            }
        }
    }
}

fn line(name: &str, stream: &TcpStream) -> io::Result<String> {
    Ok(format!("{}\n", reply(name, stream.peer_addr()?, stream.local_addr()?)))
}

fn reply(name: &str, saw: SocketAddr, to: SocketAddr) -> Reply {
    Reply { server: name.into(), address: to.ip(), saw, to }
}
