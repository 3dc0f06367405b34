//! The settings of a run: upstream's flags and config file, and ours.
//!
//! ```text
//!   flags ──┐
//!           ├─kubeproxy──► Document ──► Settings ──► objections, configz
//!   file ───┘                  └──────► Live, while the loop runs
//! ```
//!
//! `kubeproxy` is upstream's dialect: three tables (fields, flags, gates), and what a document asks of a run. `options` are the choices,
//! each group as a value; `settings` are all of a run. `sanity` says what is odd about them on this host, `configz` shows them.
//!
//! Absent on purpose: printing, starting anything, and what a choice does.

mod configz;
pub mod kubeproxy;
mod live;
mod options;
mod sanity;
mod settings;
mod written;

pub use configz::Effective;
pub use live::{ConfigStatus, Live};
pub use options::{Arrival, ConntrackMax, ListenOptions, PaceOptions, RelaySettings, Tuning, VanishedTcp};
pub use sanity::Objections;
pub use settings::{Origin, Settings};
pub use written::node_port_addresses;
