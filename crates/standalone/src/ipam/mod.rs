//! The addresses and ports of Services, where no cluster gives them.
//!
//! In: what Services ask for. Out: what each is given, which it keeps for as long as it lives and longer.
//!
//! `options` says from which ranges, `ranges` divides them, `allocate` decides who gets what, and `store` has it on the disk before
//! anybody is told. `host` refuses ranges that this machine uses for something else.

pub(crate) mod allocate;
mod error;
pub(crate) mod host;
mod options;
pub(crate) mod ranges;
pub(crate) mod store;

pub use error::StoreError;
pub use host::{HostNetwork, refuse_overlap};
pub use options::{Options, default_state_dir, default_state_dir_to_read};
