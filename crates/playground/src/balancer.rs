//! The load balancer in front of the nodes: takes TCP connections outside and spreads them over node ports.
//!
//! Targets take turns. There are two kinds of balancers:
//!
//! - One that dials: a target that cannot be reached is left out for a while, and its connection goes to the
//!   next, so a client notices no more than the time that took.
//! - One that asks: each target has a health check, and gets connections while that answers 200. It tries no
//!   other target for a connection, so a client notices when a target that claims to be healthy is not.
//!
//! Absent on purpose: connections that were open when their node died.

use std::io::{self, PipeReader};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::namespace::close;
use crate::namespace::socket::wait_readable;

use crate::error::{Result, Trying};
use crate::health::status_here;
use crate::patience::patient;
use crate::place::Place;
use crate::plan::Family;
use crate::stop::{Running, switch};

/// A target that has not answered by then counts as down.
const CONNECT_LIMIT: Duration = Duration::from_millis(200);
/// So long is a target that is down left out.
const REST: Duration = Duration::from_secs(2);
/// A target that is healthy and has not taken a connection by then has lost it.
const HEALTHY_LIMIT: Duration = Duration::from_secs(5);
/// Health checks are asked so often.
const ASK_PERIOD: Duration = Duration::from_millis(20);
/// A health check that has not answered by then is asked again.
const ASK_LIMIT: Duration = Duration::from_secs(1);
/// What a target that serves answers.
const HEALTHY: u16 = 200;

/// A running balancer; it takes no more connections when it has been dropped.
#[derive(Debug)]
pub struct Balancer {
    address: SocketAddr,
    pool: Arc<Pool>,
    threads: Vec<Running<()>>,
}

impl Balancer {
    /// Listens on `port` of a place, and spreads over `targets`, such as the node port on both nodes.
    pub fn start(place: &Place, family: Family, port: u16, targets: &[SocketAddr]) -> Result<Self> {
        Self::over(place, place.at(family, port), Pool::new(targets.iter().map(|target| (*target, None))))
    }

    /// The same over targets with their health checks, such as the health check node port of both nodes. Asks
    /// each of them once before it returns.
    pub fn asking(
        place: &Place,
        family: Family,
        port: u16,
        targets: &[(SocketAddr, SocketAddr)],
    ) -> Result<Self> {
        let targets = targets.iter().map(|(target, check)| (*target, Some(*check)));
        let mut balancer = Self::over(place, place.at(family, port), Pool::new(targets))?;
        let asking = || format!("ask health checks in `{}`", place.name());
        let (pool, (on, off)) = (Arc::clone(&balancer.pool), switch().trying(asking)?);
        place.run(|| pool.ask())?;
        let thread = place.namespace().start("health", move || ask_again(&pool, &off));
        balancer.threads.push(Running::new(on, thread.trying(asking)?));
        Ok(balancer)
    }

    fn over(place: &Place, address: SocketAddr, pool: Pool) -> Result<Self> {
        let balancing = || format!("balance in `{}`", place.name());
        let listener = place.run(|| TcpListener::bind(address))?.trying(balancing)?;
        listener.set_nonblocking(true).trying(balancing)?;
        let (on, off) = switch().trying(balancing)?;
        let pool = Arc::new(pool);
        let shared = Arc::clone(&pool);
        let thread = place.namespace().start("balancer", move || take(listener, &shared, &off));
        let running = Running::new(on, thread.trying(balancing)?);
        Ok(Self { address, pool, threads: vec![running] })
    }

    /// What to dial.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many connections each target has taken, in the order given.
    pub fn taken(&self) -> Vec<u64> {
        self.pool.targets.iter().map(|target| target.taken.load(Ordering::Relaxed)).collect()
    }

    /// Which targets get connections, as their health checks last said.
    pub fn healthy(&self) -> Vec<bool> {
        self.pool.targets.iter().map(Target::is_healthy).collect()
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
    check: Option<SocketAddr>,
    is_healthy: AtomicBool,
    taken: AtomicU64,
    down_until: Mutex<Option<Instant>>,
}

impl Pool {
    /// Targets that have no health check are healthy.
    fn new(targets: impl Iterator<Item = (SocketAddr, Option<SocketAddr>)>) -> Self {
        let target = |(address, check): (SocketAddr, Option<SocketAddr>)| Target {
            address,
            check,
            is_healthy: AtomicBool::new(check.is_none()),
            taken: AtomicU64::new(0),
            down_until: Mutex::new(None),
        };
        Self { targets: targets.map(target).collect(), turn: AtomicUsize::new(0) }
    }

    /// A connection to the next target that takes one; those that are down are asked last.
    fn connect(&self) -> Option<TcpStream> {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) % self.targets.len().max(1);
        let (after, before) = self.targets.split_at(turn.min(self.targets.len()));
        let mut order = before.iter().chain(after).filter(|target| target.is_healthy());
        if self.targets.iter().any(|target| target.check.is_some()) {
            return order.next()?.connect(patient(HEALTHY_LIMIT));
        }
        let (down, up): (Vec<_>, Vec<_>) = order.partition(|target| target.is_down());
        up.into_iter().chain(down).find_map(|target| target.connect(CONNECT_LIMIT))
    }

    fn ask(&self) {
        for target in &self.targets {
            if let Some(check) = target.check {
                target.heard(&status_here(check, ASK_LIMIT));
            }
        }
    }
}

impl Target {
    fn is_down(&self) -> bool {
        let until = *self.down_until.lock().unwrap_or_else(PoisonError::into_inner);
        until.is_some_and(|until| Instant::now() < until)
    }

    /// A check that says nothing in time changes nothing: the machine may be busy elsewhere.
    fn heard(&self, said: &io::Result<u16>) {
        use io::ErrorKind::{TimedOut, WouldBlock};
        if !matches!(said, Err(error) if matches!(error.kind(), TimedOut | WouldBlock)) {
            self.is_healthy.store(matches!(said, Ok(HEALTHY)), Ordering::Relaxed);
        }
    }

    fn is_healthy(&self) -> bool {
        self.is_healthy.load(Ordering::Relaxed)
    }

    fn connect(&self, limit: Duration) -> Option<TcpStream> {
        let connected = TcpStream::connect_timeout(&self.address, limit).ok();
        let down_until = if connected.is_some() { None } else { Some(Instant::now() + REST) };
        *self.down_until.lock().unwrap_or_else(PoisonError::into_inner) = down_until;
        self.taken.fetch_add(u64::from(connected.is_some()), Ordering::Relaxed);
        connected
    }
}

/// Asks all health checks again and again, until the switch is off.
fn ask_again(pool: &Pool, off: &PipeReader) {
    while wait_readable(&[off.as_fd()], Some(ASK_PERIOD)).is_ok_and(|ready| !ready[0]) {
        pool.ask();
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
