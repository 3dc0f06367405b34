//! The listener and its connections, and what a test does with them.

use std::collections::BTreeSet;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::Value;

use crate::fault::{Fault, Requests};
use crate::serve::answer;
use crate::shared::{Offers, Peer, Seen, Shared};
use crate::store::{Backup, Resource};
use crate::tls::Certificates;
use crate::{http, lock};

/// The server looks so often for a new connection.
const GLANCE: Duration = Duration::from_millis(1);

/// How a server is begun.
#[derive(Debug, Default)]
pub struct Options {
    /// With TLS, by these certificates.
    pub tls: Option<Certificates>,
    /// What it can do.
    pub offers: Offers,
}

/// An API server. It ends when this is dropped.
#[derive(Debug)]
pub struct MockApi {
    shared: Arc<Shared>,
    address: SocketAddr,
    tls: Option<Certificates>,
    listening: Option<Listening>,
}

/// The listener, while there is one.
#[derive(Debug)]
struct Listening {
    is_open: Arc<AtomicBool>,
    streams: Arc<Mutex<Vec<TcpStream>>>,
    thread: JoinHandle<()>,
}

impl MockApi {
    /// A server on a port of loopback that the kernel chooses.
    pub fn start(options: Options) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared { offers: Mutex::new(options.offers), ..Shared::default() });
        let mut server = Self { shared, address, tls: options.tls, listening: None };
        server.listen(listener)?;
        Ok(server)
    }

    /// Its URL.
    pub fn url(&self) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    /// Its certificates, where it has some.
    pub fn certificates(&self) -> Option<&Certificates> {
        self.tls.as_ref()
    }

    /// Puts an object; its name and namespace say which. Returns the version of that.
    pub fn put(&self, resource: Resource, object: Value) -> u64 {
        let key = key(&object);
        let version = lock(&self.shared.store).put(resource, key, object);
        self.shared.changed.notify_all();
        version
    }

    /// Takes away the object `namespace/name`, or `name`. Returns the version of that.
    pub fn remove(&self, resource: Resource, key: &str) -> u64 {
        let version = lock(&self.shared.store).remove(resource, key.to_owned());
        self.shared.changed.notify_all();
        version
    }

    /// The version of the newest write.
    pub fn version(&self) -> u64 {
        lock(&self.shared.store).version
    }

    /// Sends a bookmark on every watch that allows it.
    pub fn bookmark(&self) {
        lock(&self.shared.store).bookmarks += 1;
        self.shared.changed.notify_all();
    }

    /// Forgets what happened: who wants to go on from an earlier version hears 410.
    pub fn compact(&self) {
        lock(&self.shared.store).compact();
        self.shared.changed.notify_all();
    }

    /// All objects as they are now.
    pub fn backup(&self) -> Backup {
        lock(&self.shared.store).backup()
    }

    /// All objects as they were then, and the versions too.
    pub fn restore(&self, backup: &Backup) {
        lock(&self.shared.store).restore(backup);
        self.shared.changed.notify_all();
    }

    /// Turns a fault on: for so many requests, or until it is turned off.
    pub fn fault(&self, requests: Requests, fault: Fault, times: Option<usize>) {
        lock(&self.shared.faults).add(requests, fault, times);
    }

    /// Turns all faults off.
    pub fn no_faults(&self) {
        lock(&self.shared.faults).clear();
    }

    /// What it can do from now on.
    pub fn offer(&self, offers: Offers) {
        *lock(&self.shared.offers) = offers;
    }

    /// Only these tokens are let in from now on.
    pub fn accept_tokens(&self, tokens: &[&str]) {
        let tokens: BTreeSet<String> = tokens.iter().map(|&token| token.to_owned()).collect();
        *lock(&self.shared.tokens) = Some(tokens);
    }

    /// Only clients with a certificate are let in from now on.
    pub fn need_certificate(&self) {
        self.shared.needs_certificate.store(true, Ordering::Relaxed);
    }

    /// Nobody may use this verb (`list`, `watch`; for Events `create`, `patch`) on this resource from now on.
    pub fn forbid(&self, verb: &'static str, resource: Resource) {
        lock(&self.shared.forbidden).insert((verb, resource));
    }

    /// All may be used again.
    pub fn forbid_nothing(&self) {
        lock(&self.shared.forbidden).clear();
    }

    /// The requests that came so far.
    pub fn seen(&self) -> Vec<Seen> {
        lock(&self.shared.seen).clone()
    }

    /// The Events that clients wrote, in the order of their making.
    pub fn events(&self) -> Vec<Value> {
        lock(&self.shared.events).clone()
    }

    /// Forgets all Events, as the real server does after an hour.
    pub fn forget_events(&self) {
        lock(&self.shared.events).clear();
    }

    /// Ends all connections; new ones are taken.
    pub fn cut(&self) {
        if let Some(listening) = &self.listening {
            for stream in lock(&listening.streams).drain(..) {
                // One that has ended already needs no end.
                let _ = stream.shutdown(Shutdown::Both);
            }
        }
    }

    /// Goes away: connections end, new ones are refused.
    pub fn stop(&mut self) {
        let Some(listening) = self.listening.take() else { return };
        listening.is_open.store(false, Ordering::Relaxed);
        for stream in lock(&listening.streams).drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
        let _ = listening.thread.join();
    }

    /// Comes back at the same address, with the same objects.
    pub fn start_again(&mut self) -> io::Result<()> {
        self.stop();
        self.listen(TcpListener::bind(self.address)?)
    }

    fn listen(&mut self, listener: TcpListener) -> io::Result<()> {
        listener.set_nonblocking(true)?;
        let config = self.tls.as_ref().map(Certificates::server_config).transpose()?;
        let is_open = Arc::new(AtomicBool::new(true));
        let streams = Arc::new(Mutex::new(Vec::new()));
        let (shared, flag, kept) = (Arc::clone(&self.shared), Arc::clone(&is_open), Arc::clone(&streams));
        let thread = thread::Builder::new().name("mock api".into()).spawn(move || {
            while let Some(stream) = next(&listener, &flag) {
                lock(&kept).extend(stream.try_clone());
                let (shared, flag, config) = (Arc::clone(&shared), Arc::clone(&flag), config.clone());
                thread::spawn(move || {
                    let other_end = stream.try_clone();
                    // A client that leaves, or is cut off, is no failure of the server.
                    let _ = serve(&shared, flag, stream, config);
                    // What is kept for `cut` would keep the connection open.
                    let _ = other_end.and_then(|stream| stream.shutdown(Shutdown::Both));
                });
            }
        })?;
        self.listening = Some(Listening { is_open, streams, thread });
        Ok(())
    }
}

impl Drop for MockApi {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The next connection; `None` when the server goes away. A listener that waits could be woken only from its own network.
fn next(listener: &TcpListener, is_open: &AtomicBool) -> Option<TcpStream> {
    while is_open.load(Ordering::Relaxed) {
        match listener.accept() {
            Ok((stream, _)) => return Some(stream),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => thread::sleep(GLANCE),
            Err(_) => return None,
        }
    }
    None
}

fn key(object: &Value) -> String {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
    match (text("namespace"), text("name")) {
        (namespace, name) if namespace.is_empty() => name,
        (namespace, name) => format!("{namespace}/{name}"),
    }
}

fn serve(
    shared: &Shared,
    is_open: Arc<AtomicBool>,
    stream: TcpStream,
    config: Option<Arc<ServerConfig>>,
) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    stream.set_write_timeout(Some(Duration::from_secs(30)))?;
    let Some(config) = config else {
        let peer = Peer { is_open, has_certificate: false };
        let reader = BufReader::new(stream.try_clone()?);
        return talk(shared, &peer, reader, &mut BufWriter::with_capacity(1 << 16, stream));
    };
    let mut tls = ServerConnection::new(config).map_err(io::Error::other)?;
    let mut socket = stream;
    while tls.is_handshaking() {
        tls.complete_io(&mut socket)?;
    }
    let has_certificate = tls.peer_certificates().is_some_and(|chain| !chain.is_empty());
    let peer = Peer { is_open, has_certificate };
    talk_over_one(shared, &peer, StreamOwned::new(tls, socket))
}

fn talk(shared: &Shared, peer: &Peer, mut reader: impl io::BufRead, out: &mut dyn Write) -> io::Result<()> {
    while let Some(request) = http::read(&mut reader)? {
        answer(shared, peer, &request, out)?;
        out.flush()?;
    }
    Ok(())
}

/// A TLS stream cannot be read and written by two owners: requests and answers take turns.
fn talk_over_one(shared: &Shared, peer: &Peer, stream: impl Read + Write) -> io::Result<()> {
    let mut reader = BufReader::new(stream);
    while let Some(request) = http::read(&mut reader)? {
        answer(shared, peer, &request, reader.get_mut())?;
        reader.get_mut().flush()?;
    }
    Ok(())
}
