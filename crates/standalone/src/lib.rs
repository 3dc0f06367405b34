//! Services without a cluster: what people wrote into files becomes complete objects.
//!
//! ```text
//!   files ──manifests──► objects ──control_plane──► complete objects, events
//!                                    │      │
//!                                  ipam  endpointslices
//! ```
//!
//! `manifests` reads and follows files. `control_plane` does what a cluster's control plane would do, with `ipam`, which gives
//! Services their addresses and ports and remembers them, and `endpointslices`, which finds the endpoints of selectors. `host` makes
//! this machine's Node.
//!
//! Absent on purpose: decisions about packets. They are the model's.

pub mod control_plane;
mod endpointslices;
pub mod host;
pub mod ipam;
mod json;
pub mod manifests;
pub mod objects;
pub mod suggest;
