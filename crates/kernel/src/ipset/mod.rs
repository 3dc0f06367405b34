//! Sets of addresses and ports that iptables rules ask (`-m set`).
//!
//! In: [`Request`]s, many at once. Out: the sets that the kernel has, their entries, and for each request whether it was
//! refused, and why. There is no transaction: requests are carried out in their order, and one that is refused does not hold
//! back the next. A set is replaced at once by filling another and [`Request::Swap`].
//!
//! | file | holds |
//! |---|---|
//! | `set.rs` | sets and entries, as plain data |
//! | `request.rs` | what can be asked, and a refusal of it |
//! | `wire.rs`, `read.rs` | all of it as netlink bytes, and back |
//! | `netlink.rs` | the real thing |
//!
//! Absent on purpose: kinds of sets that nobody here fills, timeouts, counters and comments. Sets of others are named in a
//! listing, whatever their kind.

mod error;
#[cfg(test)]
pub(crate) mod fuzzed;
mod netlink;
mod read;
mod request;
mod set;
mod wire;

use std::collections::BTreeSet;

pub use crate::conntrack::Family;
pub use error::{Error, Result};
pub use netlink::Netlink;
pub use request::{Refused, Request, code};
pub use set::{Entry, FoundSet, Kind, Set, SetName};

/// A kernel's sets: this machine's, or simulated ones.
pub trait Ipsets {
    /// All sets, in order, without their entries.
    fn sets(&mut self) -> Result<Vec<FoundSet>>;

    /// The entries of one set; `None` if there is no such set. Entries that our types cannot say are left out.
    fn entries(&mut self, of: &SetName) -> Result<Option<BTreeSet<Entry>>>;

    /// Whether an entry is in a set; `None` if there is no such set.
    fn contains(&mut self, set: &SetName, entry: &Entry) -> Result<Option<bool>>;

    /// Carries out requests in their order, many in one system call. Returns those that were refused; all others are done.
    /// On an error some may be done and others not: read anew.
    fn run(&mut self, requests: &[Request]) -> Result<Vec<Refused>>;

    /// How many requests were sent to the kernel since this was opened; a listing is one.
    fn messages(&self) -> u64;
}

#[cfg(test)]
mod tests;
