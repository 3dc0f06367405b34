//! Sends what the loop has to say to the cluster.

use std::time::Duration;
use std::{io, thread};

use apiserver::{Announcement, Announcer, Sending, announce_now};
use config::Origin;

use crate::error::RunError;

/// So long the last word of a process that ends may take.
const LAST_WORD: Duration = Duration::from_secs(2);

/// Where announcements go.
#[derive(Clone, Debug)]
pub(super) struct Crier(Option<Announcer>);

impl Crier {
    /// To the API server, where there is one. A thread of its own sends them; nothing depends on it.
    pub(super) fn start(origin: &Origin) -> Result<Self, RunError> {
        let Origin::Server(settings) = origin else { return Ok(Self(None)) };
        let (announcer, sending) = Sending::to(settings);
        let send = move || {
            if let Err(error) = sending.serve(&mut |sentence| tracing::warn!("{sentence}")) {
                tracing::warn!(%error, "Events are not sent");
            }
        };
        let thread = thread::Builder::new().name("Events".into()).spawn(send);
        thread.map_err(|source: io::Error| RunError::System { action: "start a thread", source })?;
        Ok(Self(Some(announcer)))
    }

    /// Says it. What nobody has time for is dropped.
    pub(super) fn say(&self, said: Announcement) {
        log(&said);
        if let Self(Some(announcer)) = self
            && !announcer.say(said)
        {
            tracing::debug!("too many Events wait: one is dropped");
        }
    }
}

/// Says it, and waits until it is said, or for a moment.
pub(super) fn last_word(origin: &Origin, said: Announcement) {
    log(&said);
    if let Origin::Server(settings) = origin {
        announce_now(settings, said, LAST_WORD);
    }
}

fn log(said: &Announcement) {
    tracing::debug!(reason = said.reason, regarding = ?said.regarding, "{}", said.note);
}
