//! The load balancer in front of the nodes: takes TCP connections outside and spreads them over node ports.
//!
//! Targets take turns. One that cannot be reached is left out for a while, and its connection goes to the
//! next: a client notices no more than the time that took.
//!
//! Absent on purpose: health checks of its own, and connections that were open when their node died.

use std::io::{self, PipeReader};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use kernel::namespace::close;
use kernel::namespace::socket::wait_readable;

use crate::error::{Result, Trying};
use crate::place::Place;
use crate::plan::Family;
use crate::stop::{Running, switch};

/// A target that has not answered by then counts as down.
const CONNECT_LIMIT: Duration = Duration::from_millis(200);
/// So long is a target that is down left out.
const REST: Duration = Duration::from_secs(2);

/// A running balancer; it takes no more connections when it has been dropped.
#[derive(Debug)]
pub struct Balancer {
    address: SocketAddr,
    pool: Arc<Pool>,
    _running: Running<()>,
}

impl Balancer {
    /// Listens on `port` of a place, and spreads over `targets`, such as the node port on both nodes.
    pub fn start(place: &Place, family: Family, port: u16, targets: &[SocketAddr]) -> Result<Self> {
        let balancing = || format!("balance in `{}`", place.name());
        let address = place.at(family, port);
        let listener = place.run(|| TcpListener::bind(address))?.trying(balancing)?;
        listener.set_nonblocking(true).trying(balancing)?;
        let (on, off) = switch().trying(balancing)?;
        let pool = Arc::new(Pool::new(targets));
        let shared = Arc::clone(&pool);
        let thread = place.namespace().start("balancer", move || take(listener, &shared, &off));
        Ok(Self { address, pool, _running: Running::new(on, thread.trying(balancing)?) })
    }

    /// What to dial.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many connections each target has taken, in the order given.
    pub fn taken(&self) -> Vec<u64> {
        self.pool.targets.iter().map(|target| target.taken.load(Ordering::Relaxed)).collect()
    }
}

#[derive(Debug)]
struct Pool {
    targets: Vec<Target>,
    turn: AtomicUsize,
}

#[derive(Debug)]
struct Target {
    address: SocketAddr,
    taken: AtomicU64,
    down_until: Mutex<Option<Instant>>,
}

impl Pool {
    fn new(targets: &[SocketAddr]) -> Self {
        let target = |address: &SocketAddr| Target {
            address: *address,
            taken: AtomicU64::new(0),
            down_until: Mutex::new(None),
        };
        Self { targets: targets.iter().map(target).collect(), turn: AtomicUsize::new(0) }
    }

    /// A connection to the next target that takes one; those that are down are asked last.
    fn connect(&self) -> Option<TcpStream> {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) % self.targets.len().max(1);
        let (after, before) = self.targets.split_at(turn.min(self.targets.len()));
        let order = before.iter().chain(after);
        let (down, up): (Vec<_>, Vec<_>) = order.partition(|target| target.is_down());
        up.into_iter().chain(down).find_map(Target::connect)
    }
}

impl Target {
    fn is_down(&self) -> bool {
        let until = *self.down_until.lock().unwrap_or_else(PoisonError::into_inner);
        until.is_some_and(|until| Instant::now() < until)
    }

    fn connect(&self) -> Option<TcpStream> {
        let connected = TcpStream::connect_timeout(&self.address, CONNECT_LIMIT).ok();
        let down_until = if connected.is_some() { None } else { Some(Instant::now() + REST) };
        *self.down_until.lock().unwrap_or_else(PoisonError::into_inner) = down_until;
        self.taken.fetch_add(u64::from(connected.is_some()), Ordering::Relaxed);
        connected
    }
}

/// Takes connections until the switch is off, each in a thread of its own, which inherits the namespace.
fn take(listener: TcpListener, pool: &Arc<Pool>, off: &PipeReader) {
    while let Ok(ready) = wait_readable(&[off.as_fd(), listener.as_fd()], None) {
        if ready[0] {
            break;
        }
        while let Ok((client, _)) = listener.accept() {
            let pool = Arc::clone(pool);
            thread::spawn(move || pool.connect().map(|target| join(&client, &target)));
        }
    }
    close(listener);
}

/// Copies both ways until both sides have said all.
fn join(client: &TcpStream, target: &TcpStream) -> io::Result<()> {
    let (from_client, to_target) = (client.try_clone()?, target.try_clone()?);
    let there = thread::spawn(move || copy(&from_client, &to_target));
    copy(target, client);
    // The server has said all. A client that has more to say would only be told that nobody listens.
    let _ = client.shutdown(Shutdown::Both);
    let _ = there.join();
    Ok(())
}

/// Copies one way, then says that this was all. Errors are the end, too.
fn copy(mut from: &TcpStream, mut to: &TcpStream) {
    let _ = io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Write);
}
