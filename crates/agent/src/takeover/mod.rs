//! How one portway goes on in the place of another: locks that one process holds, and the call that hands them over.

mod handover;
mod lock;

pub use handover::Successor;
pub(crate) use handover::{Door, Inheritance, Locks};
pub use lock::RunDir;
