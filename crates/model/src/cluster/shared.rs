//! One copy of what many objects repeat: most Services call their port `http`, most slices lead to 8080.

use std::collections::BTreeSet;
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct Shared<T: ?Sized> {
    values: BTreeSet<Arc<T>>,
    /// Values that nobody uses any more are looked for when there are this many.
    tidy_at: usize,
}

impl<T: ?Sized> Default for Shared<T> {
    fn default() -> Self {
        Self { values: BTreeSet::new(), tidy_at: 0 }
    }
}

impl<T: ?Sized + Ord> Shared<T> {
    /// Makes `value` the copy that all equal ones share.
    pub(super) fn share(&mut self, value: &mut Arc<T>) {
        if let Some(known) = self.values.get(value) {
            *value = Arc::clone(known);
            return;
        }
        if self.values.len() >= self.tidy_at {
            self.values.retain(|value| Arc::strong_count(value) > 1);
            self.tidy_at = 2 * self.values.len() + 64;
        }
        self.values.insert(Arc::clone(value));
    }
}
