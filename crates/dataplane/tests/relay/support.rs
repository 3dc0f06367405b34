//! Pools, listeners, servers and patience for the tests of the relay.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use dataplane::relay::{At, Counters, Listener, ListenerId, Options, Purpose, Relay, Relays as _};
use dataplane::sim::cluster;
use kernel::socket::Kind;
use model::Place;
use model::net::{Family, Protocol};
use model::table::How;
use model::{Endpoint, Pool};

/// Nothing here takes longer unless it is broken.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Waits for a condition.
pub(crate) fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "waited in vain: {what}");
        thread::park_timeout(Duration::from_millis(1));
    }
}

pub(crate) fn pool(endpoints: &[SocketAddr]) -> Pool {
    weighted(&endpoints.iter().map(|address| (*address, 1)).collect::<Vec<_>>())
}

pub(crate) fn weighted(endpoints: &[(SocketAddr, u16)]) -> Pool {
    let endpoint = |&(address, slots): &(SocketAddr, u16)| Endpoint {
        address: address.ip(),
        port: address.port(),
        slots,
        place: Place::Unknown,
    };
    Pool::new(How::Ready, endpoints.iter().map(endpoint).collect())
}

pub(crate) fn id(name: &str, protocol: Protocol) -> ListenerId {
    ListenerId { port: cluster::id(name, protocol), family: Family::V4, purpose: Purpose::Cluster }
}

pub(crate) fn any(protocol: Protocol, pool: Pool) -> Listener {
    let address = Ipv4Addr::UNSPECIFIED.into();
    Listener { protocol, at: At::Any { address, wish: None }, pool, affinity: None }
}

/// The same on IPv6.
pub(crate) fn at_v6(listener: Listener) -> Listener {
    Listener { at: At::Any { address: Ipv6Addr::UNSPECIFIED.into(), wish: None }, ..listener }
}

/// A port of this host.
pub(crate) fn local(port: impl TryInto<u16, Error: std::fmt::Debug>) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port.try_into().unwrap()).into()
}

/// Bytes of memory that this process has.
pub(crate) fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

/// A relay with one listener.
pub(crate) struct Single {
    pub(crate) relay: Relay,
    pub(crate) id: ListenerId,
    pub(crate) at: SocketAddr,
}

impl Single {
    pub(crate) fn start(options: Options, wanted: &Listener) -> Self {
        let mut relay = Relay::start(options).unwrap();
        let id = id("web", wanted.protocol);
        let port = relay.open(&id, wanted).unwrap();
        Self { relay, id, at: local(port) }
    }

    pub(crate) fn tcp(endpoints: &[SocketAddr]) -> Self {
        Self::start(options(), &any(Protocol::Tcp, pool(endpoints)))
    }

    pub(crate) fn udp(endpoints: &[SocketAddr]) -> Self {
        Self::start(options(), &any(Protocol::Udp, pool(endpoints)))
    }

    pub(crate) fn bring_to(&mut self, wanted: &Listener) -> u16 {
        self.relay.open(&self.id, wanted).unwrap()
    }

    pub(crate) fn counters(&self) -> Counters {
        self.relay.counters().into_iter().find(|(id, _)| *id == self.id).unwrap().1
    }

    pub(crate) fn connect(&self) -> TcpStream {
        connect(self.at)
    }
}

/// Two workers, so that what is shared is shared.
pub(crate) fn options() -> Options {
    Options { workers: 2, ..Options::default() }
}

pub(crate) fn connect(at: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(at).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// A server that runs `serve` for each connection, on a thread of its own, until the test ends.
pub(crate) fn server(serve: impl Fn(TcpStream) + Clone + Send + 'static) -> SocketAddr {
    server_at(Ipv4Addr::LOCALHOST.into(), serve)
}

pub(crate) fn server_at(address: IpAddr, serve: impl Fn(TcpStream) + Clone + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind((address, 0)).unwrap();
    let at = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let serve = serve.clone();
            thread::spawn(move || serve(stream));
        }
    });
    at
}

/// Says its name, then repeats what it hears.
pub(crate) fn named(name: u8) -> SocketAddr {
    server(move |mut stream| {
        if stream.write_all(&[name]).is_ok() {
            repeat(stream);
        }
    })
}

/// Repeats what it hears.
pub(crate) fn repeat(mut stream: TcpStream) {
    let mut other = stream.try_clone().unwrap();
    if io::copy(&mut stream, &mut other).is_ok() {
        let _gone = other.shutdown(std::net::Shutdown::Write);
    }
}

/// The name of the server at the other end.
pub(crate) fn who(stream: &mut TcpStream) -> io::Result<u8> {
    let mut name = [0];
    stream.read_exact(&mut name)?;
    Ok(name[0])
}

/// Is it still carried?
pub(crate) fn is_alive(stream: &mut TcpStream) -> bool {
    let mut heard = [0; 4];
    stream.write_all(b"ping").is_ok() && stream.read_exact(&mut heard).is_ok() && &heard == b"ping"
}

/// A port where nobody listens, and that nobody else gets: tests run beside each other.
pub(crate) fn closed_port() -> SocketAddr {
    let held = kernel::socket::hold((Ipv4Addr::LOCALHOST, 0).into(), Kind::Stream).unwrap();
    let socket = TcpListener::from(held);
    let at = socket.local_addr().unwrap();
    std::mem::forget(socket);
    at
}

/// A port that nobody has.
pub(crate) fn free_port() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// How many files this process has open.
pub(crate) fn open_files() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// The test that runs, again, as a process of its own.
pub(crate) struct Again {
    pub(crate) child: Child,
    pub(crate) line: UnixStream,
    path: PathBuf,
}

const LINE: &str = "PORTWAY_RELAY_TEST_LINE";

/// The line to the test that started us, if we are its second process.
pub(crate) fn line_to_parent() -> Option<UnixStream> {
    std::env::var_os(LINE).map(|path| UnixStream::connect(path).unwrap())
}

impl Again {
    /// Starts this very test once more; there [`line_to_parent`] is the other end of `line`.
    pub(crate) fn start(test: &str) -> Self {
        static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("portway-relay-{}-{number}", std::process::id()));
        let listener = UnixListener::bind(&path).unwrap();
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture"])
            .env(LINE, &path)
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let (line, _) = listener.accept().unwrap();
        line.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { child, line, path }
    }
}

impl Drop for Again {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _gone = self.child.wait();
        let _gone = std::fs::remove_file(&self.path);
    }
}

/// Sends a number along a line.
pub(crate) fn tell(mut line: &UnixStream, number: u64) {
    line.write_all(&number.to_be_bytes()).unwrap();
}

/// Asks along a line for so many numbers.
pub(crate) fn ask_for<const COUNT: usize>(line: &UnixStream) -> [u64; COUNT] {
    tell(line, 1);
    [(); COUNT].map(|()| hear(line))
}

/// Hears a number.
pub(crate) fn hear(mut line: &UnixStream) -> u64 {
    let mut bytes = [0; 8];
    line.read_exact(&mut bytes).unwrap();
    u64::from_be_bytes(bytes)
}
