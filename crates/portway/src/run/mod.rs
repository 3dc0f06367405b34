//! `portway run`: makes a kernel follow the picture of this node, for as long as the process lives.
//!
//! ```text
//!   files ───────┐                                          ┌──► dataplane ──┐
//!   addresses ───┤                                          │                │ Synced, Settled, Ran
//!   notifications┤                                          │                │
//!   signals ─────┼──► Event ──► Loop::step(event, now) ──► Effect            │
//!   questions ───┤                                          │                │
//!   timer ───────┘ ◄──────────────────── WakeAt ────────────┘ ◄──────────────┘
//! ```
//!
//! One value, [`Loop`], owns all state. [`Event`] is everything that can ever happen to it, [`Effect`] everything that it can
//! ever want. It reads no clock and touches no kernel, so a test drives the very same loop with a clock of its own.
//! `shell` feeds it and carries out the effects; `feeds` are the threads that wait for the outside.
//!
//! Absent on purpose: decisions about packets (the model's) and rules (the dataplane's).

mod beside;
mod carrier;
mod drift;
mod effect;
mod errands;
mod error;
mod event;
mod families;
mod feeds;
mod handover;
mod ipvs;
mod localnet;
mod lock;
mod log;
mod open;
mod pace;
mod shell;
mod state;
mod status;

pub use carrier::RelaySettings;
pub use drift::{DriftStatus, Repair};
pub use effect::{Answer, Effect, Line, Work};
pub use errands::{Done, Errand, ErrandKind};
pub use error::RunError;
pub use event::{Event, Now, Question, Reply};
pub use families::{Families, HostKernel, refused};
pub use handover::{Arrival, Successor};
pub use ipvs::IpvsStatus;
pub use localnet::Localnet;
pub use lock::RunDir;
pub use open::{Opened, Wish, iptables_options, open, open_ipvs, userspace_options};
pub use pace::PaceOptions;
pub use shell::{End, Settings, run};
pub use state::{Loop, Start};
pub use status::{Beside, Failures, LastSync, Pending, RelayStatus, Status};
