//! The HTTP servers: health, metrics, what people look at, and the health checks that load balancers ask for.
//!
//! ```text
//!   the loop ──► Board ──────────────► pages ──► answers
//!            ──► balancers (a watch) ──► doors: opened and closed live
//!   doors ──► Event::NotListening ──► the loop
//! ```
//!
//! One thread serves all. It owns nothing that the loop needs, and asks the loop only for `/state`: answers come while a sync is
//! under way or hangs. Whoever connects has so much time and so much memory and no more, and whoever says nothing makes room
//! for others (`crowd`).
//!
//! | file | what it is for |
//! |---|---|
//! | `board` | what the loop tells us: health, and the metrics |
//! | `health` | `/healthz` and `/livez` |
//! | `balancers` | `healthCheckNodePort`: who listens where, and what is answered |
//! | `metrics` | the pages of the metrics port |
//! | `zpages` | flags, status |
//! | `state` | the whole picture, streamed |
//! | `doors` | listeners that are opened, tried again and closed |
//! | `crowd` | how many connections there may be |
//! | `connection` | one of them, with its limits |
//! | `answer` | what is answered, as HTTP |
//!
//! Absent on purpose: TLS, and anything by which something could be changed.

mod answer;
mod balancers;
mod board;
mod connection;
mod crowd;
mod doors;
mod health;
mod metrics;
mod state;
mod zpages;

use std::collections::BTreeMap;
use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use config::ListenOptions;
use tokio::sync::watch;

pub use balancers::Balancers;
pub use board::Board;
pub use metrics::Site;

use crate::listeners::Listener;
use doors::Doors;

/// Servers that listen and do not answer yet.
#[derive(Debug)]
pub struct Servers {
    doors: Doors,
    balancers: watch::Receiver<Balancers>,
    closed: Sender<()>,
}

/// The loop's end of them.
#[derive(Debug)]
pub struct Remote {
    balancers: watch::Sender<Balancers>,
    closed: Receiver<()>,
}

impl Servers {
    /// Listens where it can. What cannot be had is told, and tried again while they serve.
    pub fn open(options: &ListenOptions, site: Site) -> (Self, Remote) {
        let (send, balancers) = watch::channel(Balancers::default());
        let (closed, has_closed) = channel();
        let mut doors = Doors::new(options, site, balancers.clone());
        doors.listen();
        (Self { doors, balancers, closed }, Remote { balancers: send, closed: has_closed })
    }

    /// Listeners that could not be opened, and why.
    pub fn failing(&self) -> &BTreeMap<Listener, String> {
        self.doors.failing()
    }

    /// Answers until the other end is closed. `tell` is told of listeners that cannot be opened, whenever that changes, and says
    /// whether it could take that in.
    pub fn serve(self, tell: impl Fn(&BTreeMap<Listener, String>) -> bool) -> io::Result<()> {
        let Self { mut doors, mut balancers, closed } = self;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(doors.keep(&mut balancers, tell));
        // Every socket is closed by this, before the other end is told.
        drop(doors);
        drop(runtime);
        drop(closed);
        Ok(())
    }
}

impl Remote {
    /// Answers load balancers like this from now on.
    pub fn answer(&self, balancers: Balancers) {
        self.balancers.send_replace(balancers);
    }

    /// Ends the servers, and waits until their ports are free.
    pub fn close(self) {
        drop(self.balancers);
        // It ends by the other end's going away. A thread that hangs is not waited for.
        let _ = self.closed.recv_timeout(Duration::from_secs(2));
    }
}
