//! WHAT should happen to a packet, and why.
//!
//! In: facts (Services, EndpointSlices, this Node, ServiceCIDRs), one [`Event`] at a time.
//! Out: a [`ForwardingTable`], the one input of every dataplane, and [`ForwardingTable::fate`], the reference answer
//! that every dataplane is tested against.
//!
//! ```text
//!   JSON object ──object──► fact ──Cluster::apply──► Cluster ──ForwardingTable::update──► ForwardingTable ──fate──► Answer
//!                  │                                                    │
//!                  └── reports ◄────────────────────────────────────────┘
//! ```
//!
//! Nothing here can fail. A malformed object is data: its good part is kept, its bad part becomes a [`Report`] that names
//! object, field and value. Both the table and the reports are functions of the facts alone, never of their order.
//!
//! Absent on purpose: I/O, clocks, threads, randomness, and the words of any mode. `clippy.toml` beside this crate keeps
//! it so. Health of endpoints is absent too: Kubernetes has already judged it.

#![warn(missing_docs)]

pub mod affinity;
pub mod cluster;
pub mod config;
pub mod facts;
pub mod fate;
pub mod flows;
mod frontend;
pub mod name;
pub mod net;
pub mod object;
mod place;
pub mod rate;
pub mod report;
pub mod table;
pub mod time;

pub use cluster::{Changed, Cluster, Event, VanishedEndpoints};
pub use config::{Config, DetectLocal, NodePortAddress, Rechoice};
pub use fate::{Answer, Fate, Landing, Packet, Promises, Why};
pub use frontend::{Frontend, FrontendKind};
pub use name::{ObjectRef, ServiceName, ServicePortId};
pub use net::{ByFamily, Family, Protocol};
pub use place::Place;
pub use report::{Report, Severity};
pub use table::{Action, Delta, Endpoint, ForwardingTable, Pool, Route, ServicePort};
