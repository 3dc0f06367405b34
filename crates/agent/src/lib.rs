//! The loop of a node: makes a kernel follow the picture of this node, for as long as the process lives.
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
//! What it has to say to the cluster goes out as an [`apiserver::Announcement`]; how healthy it is, a server reads from
//! [`observe::health::HealthFacts`].
//!
//! | module | what it is for |
//! |---|---|
//! | `reconciler` | the loop: state, and the pure step |
//! | `runtime` | threads, clocks and files: feeds the loop and carries out what it wants |
//! | `takeover` | locks, and how one process goes on in the place of another |
//! | `error` | why a run did not start, or ended by itself |
//!
//! Absent on purpose: decisions about packets (the model's) and rules (the dataplane's).

mod error;
mod reconciler;
mod runtime;
mod takeover;

pub use error::RunError;
pub use reconciler::{Done, Effect, Errand, ErrandKind, Event, Line, Loop, Now, Reply, Start};
pub use runtime::{End, Prepared, prepare, run};
pub use takeover::{RunDir, Successor};
