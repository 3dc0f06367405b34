//! Everything that can ever happen to the loop.

use std::collections::BTreeMap;
use std::sync::mpsc::Sender;
use std::time::Duration;

use apiserver::News;
use config::{ConfigStatus, Live};
use dataplane::checks::Finding;
use dataplane::{Meddled, SyncError, Synced};
use model::time::Timestamp;
use observe::listeners::Listener;
use observe::question::{Answer, Question};
use standalone::host::HostFacts;
use standalone::manifests::Doubts;
use standalone::objects::{Change, Problem};

use super::errands::{Done, ErrandKind};
use crate::takeover::Successor;

/// Something that happened.
#[derive(Debug)]
pub enum Event {
    /// The files were read. The first time, the changes are everything there is.
    FilesChanged {
        /// What changed in the objects.
        changes: Vec<Change>,
        /// All problems in force now.
        problems: Vec<Problem>,
        /// Of every file something is in force: its content, or its last good one. If not, objects may be missing.
        is_complete: bool,
    },
    /// What the files leave in doubt now; told before the files themselves.
    SourceInDoubt(Doubts),
    /// The API server told something, or cannot be reached.
    Told(News),
    /// These are the addresses of this host now.
    AddressesChanged(HostFacts),
    /// Links or addresses of this host changed; told where a mode keeps something of its own there.
    HostTouched,
    /// Somebody else wrote to our tables, or may have.
    Meddled(Meddled),
    /// The glance that was asked for: whether everything was taken away.
    Glanced(Result<bool, SyncError>),
    /// What was asked before anything was written: whether Services are served by what is there.
    Found(Result<bool, SyncError>),
    /// The API server was asked for a Node.
    NodeAnswered {
        /// Its name.
        name: Box<str>,
        /// Whether there is one; `None` if the server did not say.
        exists: Option<bool>,
    },
    /// What the checks of this host found.
    Examined(Vec<Finding>),
    /// The time that was asked for has come.
    Tick,
    /// Somebody wants to know something.
    Query(Question, Reply),
    /// The sync that was asked for has ended.
    Synced {
        /// What it did, or why it did not.
        result: Result<Synced, SyncError>,
        /// How long it took.
        took: Duration,
    },
    /// The deletions that were asked for have ended.
    Settled {
        /// What they did, or why they did not.
        result: Result<Synced, SyncError>,
        /// How long they took.
        took: Duration,
    },
    /// The errand that was asked for has ended.
    Ran {
        /// Which one.
        errand: ErrandKind,
        /// What it came to, or why it did not.
        result: Result<Done, String>,
    },
    /// The operator chose anew what may change while we run.
    Rechosen(Live),
    /// The config file was read anew, and so it stands with it.
    ConfigRead(ConfigStatus),
    /// These of our listeners cannot be opened now, and why; all others are open.
    NotListening(BTreeMap<Listener, String>),
    /// Another portway wants to go on in our place.
    HandOver(Successor),
    /// The process is asked to end, by this signal.
    Stop(&'static str),
    /// The thread that told of these things is gone. That is a mistake in this program.
    FeedEnded(&'static str),
}

/// Where the answer goes.
#[derive(Clone, Debug)]
pub struct Reply(pub Sender<Answer>);

/// The moment of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Since the process started, on a clock that never goes back. All pace is measured on it.
    pub elapsed: Duration,
    /// For people, and for what is written down.
    pub wall: jiff::Timestamp,
}

impl Now {
    /// The time of day, as objects tell it.
    pub fn seconds(self) -> Timestamp {
        Timestamp(self.wall.as_second())
    }
}
