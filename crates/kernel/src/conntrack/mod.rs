//! The connection tracker: which flows the kernel remembers, and how it is made to forget some.
//!
//! In: a [`Filter`], and a question that is asked of each entry. Out: entries, one at a time and never all at once (a busy
//! node has a million), and those chosen are deleted.
//!
//! | file | holds |
//! |---|---|
//! | `entry.rs` | an entry and a filter, as plain data |
//! | `wire.rs`, `read.rs` | both as netlink bytes, and back |
//! | `netlink.rs`, `requests.rs` | the real thing |
//!
//! Absent on purpose: which flows are stale, and why. Making entries is [`Netlink::create`], for tests and benches alone.

mod entry;
mod error;
#[cfg(test)]
pub(crate) mod fuzzed;
mod netlink;
mod read;
mod requests;
mod wire;

pub use entry::{Entry, Family, Filter, Tuple, Zone};
pub use error::{Error, Result};
pub use netlink::Netlink;

/// A connection tracker: this kernel's, or a simulated one.
pub trait Conntrack {
    /// Whether the kernel itself looks for what is asked. If not, each listing sends the family's whole table, so one
    /// listing for many things is better than many. It is believed until a listing shows otherwise.
    fn filters(&self) -> bool;

    /// Asks `choose` about each entry that `filter` matches, at least once, and deletes those that it says yes to.
    ///
    /// Entries that come while it runs may be missed. An entry that goes meanwhile is no error, and a new flow with the
    /// same addresses and ports is not taken for the old one.
    fn delete_where(&mut self, filter: &Filter, choose: &mut dyn FnMut(&Entry) -> bool) -> Result<Deleted>;

    /// Deletes these entries, and says how many of them were there still.
    fn delete(&mut self, entries: &[Entry]) -> Result<u64>;

    /// Shows each entry that `filter` matches, at least once.
    fn visit(&mut self, filter: &Filter, visit: &mut dyn FnMut(&Entry)) -> Result<Deleted> {
        self.delete_where(filter, &mut |entry| {
            visit(entry);
            false
        })
    }
}

/// What a walk through the table came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Deleted {
    /// Entries that the kernel sent: those that match, and a few others, if it filters; else all of the family.
    pub sent: u64,
    /// Entries that were deleted by us.
    pub deleted: u64,
}

#[cfg(test)]
mod tests;
