//! Lets so many single writes through, and then none: handles that share a gate fail one after the other, so that the kernel can be
//! looked at after each write.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many writes may still pass, and how many have.
#[derive(Clone, Debug)]
pub(crate) struct Gate {
    left: Arc<AtomicUsize>,
    passed: Arc<AtomicUsize>,
}

impl Default for Gate {
    fn default() -> Self {
        Self { left: Arc::new(usize::MAX.into()), passed: Arc::default() }
    }
}

impl Gate {
    /// From now on so many pass.
    pub(crate) fn let_through(&self, writes: usize) {
        self.left.store(writes, Ordering::Relaxed);
        self.passed.store(0, Ordering::Relaxed);
    }

    pub(crate) fn passed(&self) -> usize {
        self.passed.load(Ordering::Relaxed)
    }

    pub(crate) fn is_shut(&self) -> bool {
        self.left.load(Ordering::Relaxed) == 0
    }

    /// Whether the next write passes.
    pub(crate) fn passes(&self) -> bool {
        let left = self.left.load(Ordering::Relaxed);
        self.left.store(left.saturating_sub(1), Ordering::Relaxed);
        self.passed.fetch_add(usize::from(left > 0), Ordering::Relaxed);
        left > 0
    }
}
