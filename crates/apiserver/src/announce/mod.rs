//! What we say to the cluster: Kubernetes Events, as `kubectl events` shows them.
//!
//! ```text
//!   Announcer::say ──► queue ──► Ledger ──► letters ──► Sending ──► the API server
//! ```
//!
//! In: announcements, from whoever has something to say; saying never waits. Out: objects of events.k8s.io/v1, with upstream's
//! reporting controller, so that alerts on kube-proxy's Events keep working.
//!
//! Nothing here may cost more than it is worth. What is said again is counted in the Event that is there, different Events are
//! limited in rate, a server that goes away is asked a few times and no more, and a missing permission is one sentence. Only what is
//! said before the server was ever there waits for it, in a queue that is bounded.
//!
//! | file | what it is for |
//! |---|---|
//! | this one | what may be said, and the two ends of the queue |
//! | `ledger` | what was said before, and so what is sent |
//! | `letter` | an Event as JSON |
//! | `send` | sends it, or gives up |

mod ledger;
mod letter;
mod send;

use model::ServiceName;
use tokio::sync::mpsc::{Receiver, Sender, channel};

use crate::run::Settings;

pub use send::announce_now;

/// So many announcements may wait while the server is slow or away.
const WAITING_MAX: usize = 64;

/// Something to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announcement {
    /// Why, in one word: `reason`.
    pub reason: &'static str,
    /// How it is meant: `type`.
    pub tone: Tone,
    /// What was being done: `action`.
    pub action: &'static str,
    /// What it is about.
    pub regarding: Regarding,
    /// The sentence: `note`.
    pub note: String,
}

/// How something is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// For information.
    Normal,
    /// Somebody should look.
    Warning,
}

/// What something is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Regarding {
    /// This node.
    Node,
    /// A Service.
    Service(ServiceName),
}

/// Where announcements are made.
#[derive(Clone, Debug)]
pub struct Announcer(Sender<Announcement>);

impl Announcer {
    /// Says it, without waiting. Whether there was room for it.
    pub fn say(&self, said: Announcement) -> bool {
        self.0.try_send(said).is_ok()
    }
}

/// What sends announcements on.
#[derive(Debug)]
pub struct Sending {
    settings: Settings,
    queue: Receiver<Announcement>,
}

impl Sending {
    /// The two ends of a queue to this server.
    pub fn to(settings: &Settings) -> (Announcer, Self) {
        let (sender, queue) = channel(WAITING_MAX);
        (Announcer(sender), Self { settings: settings.clone(), queue })
    }
}
