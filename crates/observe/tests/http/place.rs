//! Servers of a test's own, without a loop behind them: the test says what the loop would say.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Instant;

use config::{Effective, ListenOptions};
use dataplane::Counted;
use model::{Family, Protocol};
use observe::http::{Balancers, Board, Remote, Servers, Site};
use observe::listeners::Listener;
use observe::metrics::{Gauges, Metrics, Recorder};
use observe::question::Answer;
use observe::status::Status;
use observe::traffic::{Carried, Traffic};
use serde_json::json;

use crate::client::free_port;

/// Servers on loopback.
pub(crate) struct Place {
    pub(crate) board: Board,
    pub(crate) health: SocketAddr,
    pub(crate) metrics: SocketAddr,
    remote: Option<Remote>,
    failing: Arc<Mutex<BTreeMap<Listener, String>>>,
    /// How often it was told that one cannot be opened.
    failures: Arc<AtomicUsize>,
    thread: Option<JoinHandle<()>>,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self::at(free_port("127.0.0.1"), free_port("127.0.0.1"))
    }

    pub(crate) fn at(health: SocketAddr, metrics: SocketAddr) -> Self {
        let options = ListenOptions { healthz: Some(health), metrics: Some(metrics), hard_fail: false };
        Self::with(&options, health, metrics)
    }

    pub(crate) fn nowhere() -> Self {
        let unused = ([127, 0, 0, 1], 0).into();
        Self::with(&ListenOptions::default(), unused, unused)
    }

    fn with(options: &ListenOptions, health: SocketAddr, metrics: SocketAddr) -> Self {
        let begun = Instant::now();
        let board = Board::new(move || (begun.elapsed(), jiff::Timestamp::now()));
        board.publish(crate::healthy(), counted());
        let (servers, remote) = Servers::open(options, site(&board));
        let failing = Arc::new(Mutex::new(servers.failing().clone()));
        let told = Arc::clone(&failing);
        let failures = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&failures);
        let thread = std::thread::spawn(move || {
            let tell = |failing: &BTreeMap<Listener, String>| {
                told.lock().unwrap().clone_from(failing);
                count.fetch_add(usize::from(!failing.is_empty()), Ordering::Relaxed);
                true
            };
            servers.serve(tell).unwrap();
        });
        Self { board, health, metrics, remote: Some(remote), failing, failures, thread: Some(thread) }
    }

    /// Listeners that cannot be opened, in words.
    pub(crate) fn failing(&self) -> Vec<String> {
        let failing = self.failing.lock().unwrap();
        failing.iter().map(|(listener, reason)| format!("{listener}: {reason}")).collect()
    }

    /// How often it was told that a listener cannot be opened.
    pub(crate) fn failures(&self) -> usize {
        self.failures.load(Ordering::Relaxed)
    }

    /// Load balancers are answered so.
    pub(crate) fn answer(&self, balancers: Balancers) {
        self.remote.as_ref().unwrap().answer(balancers);
    }

    pub(crate) fn close(mut self) {
        self.end();
    }

    fn end(&mut self) {
        if let Some(remote) = self.remote.take() {
            remote.close();
        }
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.end();
    }
}

fn site(board: &Board) -> Site {
    Site {
        board: board.clone(),
        mode: dataplane::nftables::MODE,
        started: jiff::Timestamp::UNIX_EPOCH,
        effective: Arc::new(Mutex::new(Effective {
            config: json!({ "kubeproxy.config.k8s.io": { "mode": "nftables" } }),
            flags: vec![("mode".into(), "nftables".into())],
        })),
        traffic: Box::new(|| Some(vec![traffic()])),
        counted: Box::new(once(Counted {
            localhost_rejected: [((Family::V4, Protocol::Udp), 9)].into(),
            ..Counted::default()
        })),
        picture: Arc::new(|| Some(Answer::Status(Box::new(large_status())))),
    }
}

/// Known once; from then on whoever knows is busy.
fn once(counted: Counted) -> impl Fn() -> Option<Counted> + Send + Sync {
    let known = Mutex::new(Some(counted));
    move || known.lock().unwrap().take()
}

/// An answer that does not fit into the buffers of a socket.
fn large_status() -> Status {
    Status { problems: vec!["x".repeat(1000); 20_000], ..Status::default() }
}

pub(crate) fn counted() -> Metrics {
    let mut recorder = Recorder::new(jiff::Timestamp::UNIX_EPOCH);
    (0..3).for_each(|_| recorder.repaired(0));
    recorder.metrics_with(Gauges { service_ports: 12, refused: 1, ..Gauges::default() })
}

fn traffic() -> Traffic {
    Traffic {
        service_port: "default/web:http/tcp".into(),
        family: "IPv4".into(),
        purpose: "localhost".into(),
        all: Carried { connections: 7, bytes_in: 100, ..Carried::default() },
        endpoints: vec![(
            "10.244.0.2:8080".parse().unwrap(),
            Carried { connections: 4, ..Carried::default() },
        )],
    }
}
