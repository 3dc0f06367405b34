//! Opens the HTTP servers of a run, with all that their pages are made of.

use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, PoisonError};

use config::Effective;
use config::Settings;
use dataplane::{Counted, Mode, TrafficSource};
use observe::http::{Board, Remote, Servers, Site};
use observe::question::{Answer, Question};
use observe::traffic::Traffic;

use super::carrier::Carrier;
use super::crier::last_word;
use super::feeds;
use super::passing::Passing;
use crate::error::RunError;
use crate::reconciler::Event;
use crate::reconciler::announce::not_listening;

/// What is in force, where `/configz` and `/flagz` find it.
#[derive(Clone, Debug, Default)]
pub(super) struct Shown(Arc<Mutex<Effective>>);

impl Shown {
    /// This is in force now.
    pub(super) fn show(&self, settings: &Settings) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Effective::of(settings);
    }
}

/// Listens for HTTP. A port that cannot be had is tried again, unless the operator wants it otherwise.
pub(super) fn open(
    settings: &Settings,
    board: &Board,
    shown: &Shown,
    carrier: &Carrier,
    events: &SyncSender<Event>,
) -> Result<(Servers, Remote), RunError> {
    shown.show(settings);
    let (servers, remote) = Servers::open(&settings.serve, site(settings, board, shown, carrier, events));
    if let Some((listener, reason)) = servers.failing().iter().next().filter(|_| settings.serve.hard_fail) {
        last_word(&settings.origin, not_listening(&settings.config.node_name, listener, reason));
        return Err(RunError::NotListening { listener: listener.to_string(), reason: reason.clone() });
    }
    Ok((servers, remote))
}

/// What was carried. Where the kernel counts, the loop must be asked, which holds its doors.
fn traffic(
    mode: Mode,
    carrier: Carrier,
    events: SyncSender<Event>,
) -> Box<dyn Fn() -> Option<Vec<Traffic>> + Send + Sync> {
    if mode.traffic_source() == TrafficSource::Relay {
        return Box::new(move || carrier.traffic());
    }
    let passing = Passing::new(events, Question::Traffic);
    Box::new(move || match passing.answer()? {
        Answer::Traffic(traffic) => Some(traffic),
        _ => None,
    })
}

/// What the mode has counted for upstream's metrics, where it has such metrics: the loop holds its doors.
fn counted(mode: Mode, events: SyncSender<Event>) -> Box<dyn Fn() -> Option<Counted> + Send + Sync> {
    if !mode.counts_for_metrics() {
        return Box::new(|| None);
    }
    let passing = Passing::new(events, Question::Counted);
    Box::new(move || match passing.answer()? {
        Answer::Counted(counted) => Some(counted),
        _ => None,
    })
}

fn site(
    settings: &Settings,
    board: &Board,
    shown: &Shown,
    carrier: &Carrier,
    events: &SyncSender<Event>,
) -> Site {
    let (carrier, events) = (carrier.clone(), events.clone());
    Site {
        board: board.clone(),
        mode: settings.mode.mode,
        started: jiff::Timestamp::now(),
        effective: Arc::clone(&shown.0),
        traffic: traffic(settings.mode.mode, carrier, events.clone()),
        counted: counted(settings.mode.mode, events.clone()),
        picture: Arc::new(move || feeds::ask(&events, Question::Picture)),
    }
}
