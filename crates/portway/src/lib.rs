//! The program: the loop of a node, what it shows of itself, and the command line.
//!
//! ```text
//!   objects, events ──picture──► model ──run──► kernel
//!                        └────────cli──► people
//! ```
//!
//! `picture` is the state of one node. `cli` shows it, `run` makes a kernel follow it, and `socket` lets the one ask the other.
//!
//! Absent on purpose: decisions about packets. They are the model's.

pub mod cli;
pub mod doctor;
pub mod kubeproxy;
pub mod metrics;
pub mod picture;
pub mod run;
pub mod serve;
pub mod socket;
pub mod traffic;
