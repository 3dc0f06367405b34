//! Our listeners: opened where they are wanted, tried again where they cannot be had, closed when nobody wants them.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use config::ListenOptions;
use dataplane::programs::HAS_IPV6;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::answer::Page;
use super::balancers::{BalancerPage, Balancers};
use super::board::Board;
use super::connection::attend;
use super::crowd::Crowd;
use super::health::HealthPage;
use super::metrics::{MetricsPage, Site};
use crate::listeners::Listener;

/// A port that cannot be had is tried again after so long. Upstream waits five times as long: a portway that has taken over would
/// seem dead meanwhile.
const AGAIN: Duration = Duration::from_secs(1);
/// When the system has no descriptor left for a new client, wait so long for one.
const OUT_OF_DESCRIPTORS: Duration = Duration::from_millis(200);
/// Connections to one of our own ports.
const CLIENTS_MAX: usize = 100;
/// Connections of load balancers, to all Services together.
const BALANCERS_MAX: usize = 500;

/// All listeners.
pub(super) struct Doors {
    board: Board,
    pages: BTreeMap<Listener, Arc<dyn Page>>,
    balancers: watch::Receiver<Balancers>,
    crowds: [Crowd; 3],
    waiting: BTreeMap<Listener, std::net::TcpListener>,
    open: BTreeMap<Listener, Door>,
    failing: BTreeMap<Listener, String>,
}

/// An open listener, which is closed when this is dropped. Who is connected may stay.
#[derive(Debug)]
struct Door(JoinHandle<()>);

impl Door {
    /// Closes it now. A task that is only told to end would still hold the port when the next one wants it.
    async fn close(mut self) {
        self.0.abort();
        let _ = (&mut self.0).await;
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Doors {
    pub(super) fn new(options: &ListenOptions, site: Site, balancers: watch::Receiver<Balancers>) -> Self {
        let board = site.board.clone();
        let health: Arc<dyn Page> = Arc::new(HealthPage { board: board.clone() });
        let metrics: Arc<dyn Page> = Arc::new(MetricsPage::new(site));
        let mut pages = BTreeMap::new();
        for at in options.healthz.into_iter().flat_map(everywhere) {
            pages.insert(Listener::Health(at), Arc::clone(&health));
        }
        for at in options.metrics.into_iter().flat_map(everywhere) {
            pages.insert(Listener::Metrics(at), Arc::clone(&metrics));
        }
        let crowds = [CLIENTS_MAX, CLIENTS_MAX, BALANCERS_MAX].map(Crowd::new);
        let (waiting, open, failing) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { board, pages, balancers, crowds, waiting, open, failing }
    }

    pub(super) fn failing(&self) -> &BTreeMap<Listener, String> {
        &self.failing
    }

    /// Listens where that is wanted and not done yet.
    pub(super) fn listen(&mut self) {
        let wanted = self.wanted();
        self.failing.clear();
        for listener in wanted {
            if self.waiting.contains_key(&listener) || self.open.contains_key(&listener) {
                continue;
            }
            match kernel::socket::listen_tcp(listener.address()) {
                Ok(socket) => drop(self.waiting.insert(listener, socket)),
                Err(error) => drop(self.failing.insert(listener, sentence(&error))),
            }
        }
    }

    /// Keeps open what is wanted, until the other end of the watch is gone.
    pub(super) async fn keep(
        &mut self,
        balancers: &mut watch::Receiver<Balancers>,
        tell: impl Fn(&BTreeMap<Listener, String>) -> bool,
    ) {
        let mut told = BTreeMap::new();
        loop {
            self.serve();
            if told != self.failing && tell(&self.failing) {
                told.clone_from(&self.failing);
            }
            let is_settled = self.failing.is_empty() && told.is_empty();
            let wait = if is_settled { Duration::MAX } else { AGAIN };
            if let Ok(Err(_)) = timeout(wait, balancers.changed()).await {
                return;
            }
            balancers.mark_unchanged();
            let wanted = self.wanted();
            let open = std::mem::take(&mut self.open).into_iter();
            let (kept, unwanted): (_, BTreeMap<_, _>) =
                open.partition(|(listener, _)| wanted.contains(listener));
            self.open = kept;
            for door in unwanted.into_values() {
                door.close().await;
            }
            self.waiting.retain(|listener, _| wanted.contains(listener));
            self.listen();
        }
    }

    fn wanted(&self) -> Vec<Listener> {
        let balancers = self.balancers.borrow();
        let services = balancers.0.keys().map(|(service, at)| Listener::Balancers(service.clone(), *at));
        self.pages.keys().cloned().chain(services).collect()
    }

    /// Answers at the sockets that were opened.
    fn serve(&mut self) {
        for (listener, socket) in std::mem::take(&mut self.waiting) {
            let (page, crowd) = self.behind(&listener);
            match TcpListener::from_std(socket) {
                Ok(socket) => {
                    let door = Door(tokio::spawn(accept(socket, page, crowd)));
                    self.open.insert(listener, door);
                }
                Err(error) => drop(self.failing.insert(listener, sentence(&error))),
            }
        }
    }

    fn behind(&self, listener: &Listener) -> (Arc<dyn Page>, Crowd) {
        let [health, metrics, balancers] = &self.crowds;
        let crowd = match listener {
            Listener::Health(_) => health,
            Listener::Metrics(_) => metrics,
            Listener::Balancers(..) => balancers,
        };
        let page = match listener {
            Listener::Balancers(service, at) => Arc::new(BalancerPage {
                board: self.board.clone(),
                balancers: self.balancers.clone(),
                of: (service.clone(), *at),
            }),
            own => Arc::clone(&self.pages[own]),
        };
        (page, crowd.clone())
    }
}

impl std::fmt::Debug for Doors {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Doors")
            .field("open", &self.open)
            .field("failing", &self.failing)
            .finish_non_exhaustive()
    }
}

async fn accept(socket: TcpListener, page: Arc<dyn Page>, crowd: Crowd) {
    loop {
        match socket.accept().await {
            Ok((stream, from)) => {
                let page = Arc::clone(&page);
                let admitted = crowd
                    .admit(|ticket| tokio::spawn(attend(stream, from.ip(), page, ticket)).abort_handle());
                if admitted.is_none() {
                    tracing::debug!("too many clients are being answered: one is sent away");
                }
            }
            Err(error) => {
                tracing::debug!(%error, "a client was not accepted");
                sleep(OUT_OF_DESCRIPTORS).await;
            }
        }
    }
}

/// As upstream, `0.0.0.0` and `::` mean all addresses, of both families.
fn everywhere(at: SocketAddr) -> Vec<SocketAddr> {
    if !at.ip().is_unspecified() {
        return vec![at];
    }
    let has_ipv6 = std::path::Path::new(HAS_IPV6).exists();
    let v6 = has_ipv6.then(|| SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), at.port()));
    [SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), at.port())].into_iter().chain(v6).collect()
}

fn sentence(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            "another program has this port: end it, or choose another port".to_owned()
        }
        io::ErrorKind::AddrNotAvailable => "this host does not have this address".to_owned(),
        io::ErrorKind::PermissionDenied => "this process may not use this port: run as root".to_owned(),
        _ => error.to_string(),
    }
}
