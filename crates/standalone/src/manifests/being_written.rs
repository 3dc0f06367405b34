//! Decides how long a changed file is left alone while its writer has it open.
//!
//! `(exec 3> f; sleep 1; cat good >&3)` leaves the file empty for a second. The kernel tells when a writer closes a file
//! (`IN_CLOSE_WRITE`); a content that changed in place and was not closed since is not read as a manifest yet. That has an
//! end, so that a writer that never closes its file holds nothing back for ever.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::problem;
use crate::objects::Problem;

/// How long a changed file is left alone.
#[derive(Clone, Copy, Debug)]
pub(super) struct WriterLimits {
    /// After its last change.
    pub(super) quiet: Duration,
    /// In all, where it is shorter than before.
    pub(super) longest: Duration,
}

impl Default for WriterLimits {
    fn default() -> Self {
        Self { quiet: Duration::from_secs(3), longest: Duration::from_secs(30) }
    }
}

/// A file whose content changed, and whose writer has not closed it.
#[derive(Debug)]
pub(super) struct BeingWritten {
    since: Instant,
    changed_at: Instant,
    digest: Option<u64>,
    is_shorter: bool,
    is_quiet: bool,
    /// When to look again.
    pub(super) look_at: Instant,
}

impl BeingWritten {
    /// What is known now of a file with this content; `None` when it has waited long enough.
    pub(super) fn of(
        before: Option<Self>,
        digest: Option<u64>,
        is_shorter: bool,
        limits: WriterLimits,
        now: Instant,
    ) -> Option<Self> {
        let since = before.as_ref().map_or(now, |before| before.since);
        let unchanged = before.filter(|before| before.digest == digest);
        let changed_at = unchanged.map_or(now, |before| before.changed_at);
        let (quiet_at, end) = (changed_at + limits.quiet, since + limits.longest);
        let is_quiet = quiet_at <= now;
        if end <= now || (is_quiet && !is_shorter) {
            return None;
        }
        let look_at = if is_quiet { end } else { quiet_at.min(end) };
        Some(Self { since, changed_at, digest, is_shorter, is_quiet, look_at })
    }

    /// Worth a word only once the writer takes longer than a write does.
    pub(super) fn problem(&self, file: &Arc<Path>) -> Option<Problem> {
        let message = "is shorter than before, and its writer has not closed it; its last good content stays in force \
                       until it does, for half a minute at most";
        (self.is_quiet && self.is_shorter).then(|| problem(file, 0, message.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file with these contents, each at a time in seconds: whether it is left alone then.
    fn left_alone(is_shorter: bool, contents: &[(u64, u64)]) -> Vec<bool> {
        let (start, mut writer) = (Instant::now(), None);
        let of = |(second, digest): &(u64, u64)| {
            let now = start + Duration::from_secs(*second);
            writer = BeingWritten::of(writer.take(), Some(*digest), is_shorter, WriterLimits::default(), now);
            writer.is_some()
        };
        contents.iter().map(of).collect()
    }

    #[test]
    fn a_writer_that_never_closes_its_file_is_waited_for_until_it_was_quiet() {
        assert_eq!(left_alone(false, &[(0, 1), (2, 1), (3, 1)]), [true, true, false]);
        assert_eq!(left_alone(false, &[(0, 1), (2, 2), (4, 2), (5, 2)]), [true, true, true, false]);
        assert_eq!(left_alone(false, &[(0, 1), (2, 2), (29, 3), (30, 4)]), [true, true, true, false]);
    }

    #[test]
    fn a_file_that_became_shorter_is_distrusted_for_longer_and_not_for_ever() {
        assert_eq!(left_alone(true, &[(0, 1), (3, 1), (29, 1), (30, 1)]), [true, true, true, false]);
    }
}
