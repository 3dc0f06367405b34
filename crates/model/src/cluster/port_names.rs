//! One string for each port name in use: most Services call their port `http`.

use std::collections::BTreeSet;
use std::sync::Arc;

#[derive(Debug, Default)]
pub(super) struct PortNames {
    names: BTreeSet<Arc<str>>,
    /// Names that nobody uses any more are looked for when there are this many.
    tidy_at: usize,
}

impl PortNames {
    /// Makes `name` the string that all equal names share.
    pub(super) fn share(&mut self, name: &mut Arc<str>) {
        if let Some(known) = self.names.get(name) {
            *name = Arc::clone(known);
            return;
        }
        if self.names.len() >= self.tidy_at {
            self.names.retain(|name| Arc::strong_count(name) > 1);
            self.tidy_at = 2 * self.names.len() + 64;
        }
        self.names.insert(Arc::clone(name));
    }
}
