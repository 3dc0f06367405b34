//! How many descriptors the relay may use: connections wait before the kernel would refuse one.
//!
//! In: the limit of this process. Out: permits, each for one or two descriptors, given back when dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Of all descriptors, so many are left to the rest of the process, ...
const RESERVE: u64 = 256;
/// ... but never more than this part of them.
const RESERVE_PART: u64 = 4;

/// The descriptors that the relay may use.
#[derive(Debug)]
pub(super) struct Files {
    limit: u64,
    most: u64,
    used: AtomicU64,
}

/// The right to have so many descriptors open.
#[derive(Debug)]
pub(super) struct Permit {
    files: Arc<Files>,
    count: u64,
}

impl Files {
    /// Of a process that may have `limit` files open.
    pub(super) fn new(limit: u64) -> Self {
        Self { limit, most: limit - RESERVE.min(limit / RESERVE_PART), used: AtomicU64::new(0) }
    }

    /// What the process may have.
    pub(super) fn limit(&self) -> u64 {
        self.limit
    }

    /// Is there room for another connection?
    pub(super) fn has_room(&self) -> bool {
        self.used.load(Relaxed) + 2 <= self.most
    }

    /// The right to open so many, if there is room.
    pub(super) fn take(self: &Arc<Self>, count: u64) -> Option<Permit> {
        let permit = Permit { files: Arc::clone(self), count };
        let before = self.used.fetch_add(count, Relaxed);
        // Without room the permit is dropped, and so given back.
        (before + count <= self.most).then_some(permit)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.files.used.fetch_sub(self.count, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permits_end_with_the_room_and_come_back_when_dropped() {
        let files = Arc::new(Files::new(8));
        let permits: Vec<_> = (0..3).map(|_| files.take(2).unwrap()).collect();
        assert!(!files.has_room());
        assert!(files.take(2).is_none());
        drop(permits);
        assert!(files.has_room());
        assert!(files.take(6).is_some());
    }
}
