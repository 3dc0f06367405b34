//! How a mode notices writes of other programs to what is ours.

use std::fmt;
use std::time::Duration;

use crate::Meddled;

/// How writes of other programs to what is ours are noticed.
pub enum DriftSource {
    /// The kernel notifies of each.
    Events(Box<dyn ForeignWrites>),
    /// [`Dataplane::is_flushed`](crate::Dataplane::is_flushed), as often as this.
    Poll(Duration),
    /// Changes of this host's links and addresses: the mode keeps some.
    HostEvents,
}

/// Hears of writes of other programs to what is ours.
pub trait ForeignWrites: Send {
    /// The next one; `None` after this long, or when what was heard is not about us. The error is a sentence.
    fn next(&mut self, limit: Duration) -> Result<Option<Meddled>, String>;
}

impl fmt::Debug for DriftSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Events(_) => f.write_str("Events"),
            Self::Poll(interval) => f.debug_tuple("Poll").field(interval).finish(),
            Self::HostEvents => f.write_str("HostEvents"),
        }
    }
}
