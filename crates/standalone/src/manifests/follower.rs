//! Hears when one file may have changed: by a write, by a rename over it, by the swap of a link on the way to it, as a ConfigMap is
//! updated.
//!
//! In: a path. Out: the end of a wait. What changed is found by reading; a wait that ends for nothing costs one look at the file.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{RereadRequest, Source, SourceError};

/// Follows one file.
#[derive(Debug)]
pub struct Follower {
    path: PathBuf,
    source: Option<Source>,
    reread: RereadRequest,
}

impl Follower {
    /// Follows this file, as soon as that can be. The request ends a wait, too.
    pub fn of(path: &Path, reread: RereadRequest) -> Self {
        let mut follower = Self { path: path.to_owned(), source: None, reread };
        if let Err(error) = follower.begin() {
            tracing::warn!(
                "changes of `{}` are not heard, so it is read now and then: {error}",
                path.display()
            );
        }
        follower
    }

    /// Waits until the file may have changed, or for so long. While it cannot be followed, the time is waited out. Returns whether
    /// somebody requested to read the file again.
    pub fn wait(&mut self, timeout: Duration) -> bool {
        self.wait_for_change(timeout);
        self.reread.take()
    }

    fn wait_for_change(&mut self, timeout: Duration) {
        if self.source.is_none()
            && let Err(error) = self.begin()
        {
            tracing::debug!(%error, "a file is not followed yet");
        }
        let Some(source) = &mut self.source else { return self.reread.wait(timeout) };
        match source.wait(timeout) {
            // The way to the file may be another now.
            Ok(_) => drop(source.look()),
            Err(error) => {
                tracing::debug!(%error, "a file is no longer followed: trying again");
                self.source = None;
            }
        }
    }

    fn begin(&mut self) -> Result<(), SourceError> {
        let mut source = Source::open(std::slice::from_ref(&self.path))?;
        source.reread_on(&self.reread);
        source.follow()?;
        self.source = Some(source);
        Ok(())
    }
}
