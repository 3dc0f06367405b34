//! Opens the HTTP servers of a run, with all that their pages are made of.

use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use super::announce::Announcement;
use super::carrier::Carrier;
use super::event::{Event, Question};
use super::shell::Settings;
use super::{RunError, feeds};
use crate::serve::{self, Board, Remote, Servers, Site};

/// Listens for HTTP. A port that cannot be had is tried again, unless the operator wants it otherwise.
pub(super) fn open(
    settings: &Settings,
    board: &Board,
    carrier: &Carrier,
    events: &SyncSender<Event>,
) -> Result<(Servers, Remote), RunError> {
    let (servers, remote) = Servers::open(&settings.serve, site(settings, board, carrier, events));
    if let Some((listener, reason)) = servers.failing().iter().next().filter(|_| settings.serve.hard_fail) {
        Announcement::not_listening(&settings.config.node_name, listener, reason).log();
        return Err(RunError::NotListening { listener: listener.to_string(), reason: reason.clone() });
    }
    Ok((servers, remote))
}

fn site(settings: &Settings, board: &Board, carrier: &Carrier, events: &SyncSender<Event>) -> Site {
    let (carrier, events) = (carrier.clone(), events.clone());
    Site {
        board: board.clone(),
        mode: settings.wish.mode,
        started: jiff::Timestamp::now(),
        config: serve::config(settings),
        flags: settings.flags.clone(),
        traffic: Box::new(move || carrier.traffic()),
        picture: Arc::new(move || feeds::ask(&events, Question::Picture)),
    }
}
