//! `portway run`: makes a kernel follow the picture of this node, for as long as the process lives.
//!
//! ```text
//!   files, server┐                                          ┌──► dataplane ──┐
//!   addresses ───┤                                          │                │ Synced, Settled, Ran
//!   notifications┤                                          │                │
//!   signals ─────┼──► Event ──► Loop::step(event, now) ──► Effect            │
//!   questions ───┤                                          │                │
//!   timer ───────┘ ◄──────────────────── WakeAt ────────────┘ ◄──────────────┘
//! ```
//!
//! One value, [`Loop`], owns all state. [`Event`] is everything that can ever happen to it, [`Effect`] everything that it can
//! ever want. It reads no clock and touches no kernel, so a test drives the very same loop with a clock of its own.
//! What it has to say to the cluster goes out as an [`apiserver::Announcement`]; how healthy it is, a server reads from [`HealthFacts`].
//! `shell` feeds it and carries out the effects; `feeds` are the threads that wait for the outside.
//!
//! Absent on purpose: decisions about packets (the model's) and rules (the dataplane's).

mod announce;
mod beside;
mod carrier;
mod drift;
mod effect;
mod errands;
mod error;
mod event;
mod examine;
mod feeds;
mod handover;
mod health;
mod http;
mod listeners;
mod live;
mod lock;
mod log;
mod origin;
mod pace;
mod passing;
mod sanity;
mod shell;
mod state;
mod status;
mod tuning;

pub use carrier::RelaySettings;
pub use drift::{DriftStatus, Repair};
pub use effect::{Answer, Effect, Line};
pub use errands::{Done, Errand, ErrandKind, Pass};
pub use error::RunError;
pub use event::{Event, Now, Question, Reply};
pub use handover::{Arrival, Successor};
pub use health::{Health, HealthFacts, Readiness};
pub use listeners::Listener;
pub use live::{ConfigStatus, Live};
pub use lock::RunDir;
pub use origin::Origin;
pub use pace::PaceOptions;
pub use sanity::Objections;
pub use shell::{End, Settings, run};
pub use state::{Loop, Start, VanishedTcp};
pub use status::{
    Beside, Failures, LastSync, NodeStanding, Pending, RelayStatus, ServerStatus, ServerTrouble, Status,
};
pub use tuning::{ConntrackMax, Prepared, Tuning};
