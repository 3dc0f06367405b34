//! What a run shows of itself, to people and programs.
//!
//! ```text
//!   the loop ──► Status, Health, Metrics ─► http ────► probes, Prometheus, load balancers
//!            ──► Snapshot, Traffic ───────► socket ──► get, describe, explain, status
//! ```
//!
//! `picture` is the state of one node, `status` and `health` how the loop is doing, `traffic` what was carried, `metrics` what is
//! counted, and `doctor` what of this host stops packets. `question` is what may be asked. `http` and `socket` answer.
//!
//! Absent on purpose: anything by which something could be changed.

pub mod doctor;
pub mod health;
pub mod http;
pub mod listeners;
pub mod metrics;
pub mod picture;
pub mod question;
pub mod socket;
pub mod status;
pub mod traffic;
