//! The program: sources of facts on the left, the command line on the right, and the model between them.
//!
//! ```text
//!   files ──manifests──► objects ──embedded──► completed objects, events ──picture──► model ──cli──► people
//! ```
//!
//! `manifests` reads and follows files. `embedded` does what a cluster's control plane would do: it gives Services their
//! addresses and finds their endpoints. `picture` is the state of one node. `cli` shows it, `run` makes a kernel follow it,
//! and `socket` lets the one ask the other.
//!
//! Absent on purpose: decisions about packets. They are the model's.

pub mod cli;
pub mod doctor;
pub mod embedded;
pub mod host;
pub mod kubeproxy;
pub mod manifests;
pub mod metrics;
pub mod objects;
pub mod picture;
pub mod run;
pub mod serve;
pub mod socket;
mod suggest;
pub mod traffic;
