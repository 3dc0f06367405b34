//! The pages of the metrics port: `/metrics`, and what people look at.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use config::Effective;
use dataplane::Counted;
use dataplane::Mode;
use hyper::StatusCode;
use jiff::Timestamp;

use super::answer::{Answer, Asked, JSON, Page};
use super::board::Board;
use super::{state, zpages};
use crate::metrics::{self, Scrape};
use crate::question;
use crate::traffic::Traffic;

/// All that the pages are made of.
pub struct Site {
    /// What the loop tells.
    pub board: Board,
    /// The mode.
    pub mode: Mode,
    /// When the process started.
    pub started: Timestamp,
    /// What is in force, for `/configz` and `/flagz`. The loop replaces it when the operator chooses anew.
    pub effective: Arc<Mutex<Effective>>,
    /// What the relay has carried; `None` when it is busy.
    pub traffic: Box<dyn Fn() -> Option<Vec<Traffic>> + Send + Sync>,
    /// What the mode has counted for upstream's metrics; `None` when the loop is busy.
    pub counted: Box<dyn Fn() -> Option<Counted> + Send + Sync>,
    /// Asks the loop for its picture; `None` when it is busy, or is ending. It may wait.
    pub picture: Arc<dyn Fn() -> Option<question::Answer> + Send + Sync>,
}

/// The metrics port.
#[derive(Debug)]
pub(super) struct MetricsPage {
    site: Site,
    /// What was last known of the relay.
    traffic: Mutex<Arc<Vec<Traffic>>>,
    /// What was last known of what the mode has counted.
    counted: Mutex<Counted>,
    state: state::Turn,
    /// How often somebody asked for `/healthz` here.
    pings: AtomicU64,
}

/// What there is.
const PATHS: [&str; 9] = [
    "/configz",
    "/flagz",
    "/healthz",
    "/livez",
    "/metrics",
    "/metrics/slis",
    "/proxyMode",
    "/state",
    "/statusz",
];

impl MetricsPage {
    pub(super) fn new(site: Site) -> Self {
        Self {
            site,
            traffic: Mutex::default(),
            counted: Mutex::default(),
            state: state::Turn::default(),
            pings: AtomicU64::new(0),
        }
    }

    fn metrics(&self) -> Answer {
        let notes = self.site.board.read();
        let uptime = self.site.board.elapsed();
        let page = metrics::page(&Scrape {
            mode: self.site.mode,
            families: &notes.health.families,
            metrics: &notes.metrics,
            probes: &notes.probes,
            is_healthy: notes.health.judge(uptime).is_healthy,
            uptime,
            traffic: &self.traffic(),
            counted: &self.counted(),
        });
        Answer::new(StatusCode::OK, metrics::CONTENT_TYPE, page)
    }

    /// What was carried. While the relay is busy with changes, what was known before.
    fn traffic(&self) -> Arc<Vec<Traffic>> {
        let mut known = self.traffic.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(traffic) = (self.site.traffic)() {
            *known = Arc::new(traffic);
        }
        Arc::clone(&known)
    }

    /// What the mode has counted. While the loop is busy, what was known before.
    fn counted(&self) -> Counted {
        let mut known = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(counted) = (self.site.counted)() {
            *known = counted;
        }
        known.clone()
    }

    fn effective(&self) -> MutexGuard<'_, Effective> {
        self.site.effective.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The picture is for people on this host: the metrics port may be open to others.
    fn state(&self, by: IpAddr) -> Answer {
        if by.to_canonical().is_loopback() {
            return self.state.answer(Arc::clone(&self.site.picture));
        }
        Answer::refusal(StatusCode::FORBIDDEN, "403: the picture is told on this host only: ask at 127.0.0.1")
    }
}

impl Page for MetricsPage {
    fn answer(&self, asked: &Asked<'_>) -> Answer {
        let site = &self.site;
        match asked.path {
            "/metrics" => self.metrics(),
            "/proxyMode" => Answer::text(site.mode.name()),
            "/metrics/slis" => {
                let page = metrics::slis(self.pings.load(Ordering::Relaxed));
                Answer::new(StatusCode::OK, metrics::CONTENT_TYPE, page)
            }
            "/healthz" => {
                self.pings.fetch_add(1, Ordering::Relaxed);
                Answer::text("ok")
            }
            "/healthz/ping" | "/livez" => Answer::text("ok"),
            "/configz" => Answer::new(StatusCode::OK, JSON, self.effective().config.to_string()),
            "/flagz" => Answer::text(zpages::flagz(&self.effective().flags)),
            "/statusz" => Answer::text(zpages::statusz(site.started, site.board.elapsed(), &PATHS)),
            "/state" => self.state(asked.by),
            _ => Answer::not_found(&PATHS),
        }
    }
}

impl std::fmt::Debug for Site {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Site").field("mode", &self.mode).finish_non_exhaustive()
    }
}
