//! A request to read files again although no change was heard, as an operator makes it with SIGHUP.
//!
//! In: the request, from any thread. Out: the end of a wait for changes, and a mark that says why it ended.

use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

/// The request. Its clones are the same one.
#[derive(Clone, Debug, Default)]
pub struct RereadRequest {
    state: Arc<Mutex<State>>,
    made: Arc<Condvar>,
}

#[derive(Debug, Default)]
struct State {
    is_pending: bool,
    /// Ends the wait of a watch. Weak, so that a watch whose thread has ended is noticed.
    waker: Weak<SyncSender<()>>,
}

impl RereadRequest {
    /// Makes it. Whoever waits for changes reads everything again.
    pub fn make(&self) {
        let mut state = self.lock();
        state.is_pending = true;
        if let Some(waker) = state.waker.upgrade() {
            // Full: a signal waits already, and one is enough.
            let _ = waker.try_send(());
        }
        self.made.notify_all();
    }

    pub fn is_pending(&self) -> bool {
        self.lock().is_pending
    }

    /// Whether it was made since the last call.
    pub fn take(&self) -> bool {
        std::mem::take(&mut self.lock().is_pending)
    }

    /// Waits for it, where there is nothing else to wait for.
    pub fn wait(&self, timeout: Duration) {
        let is_missing = |state: &mut State| !state.is_pending;
        // A poisoned lock ends the wait early, which costs one look at the files.
        drop(self.made.wait_timeout_while(self.lock(), timeout, is_missing));
    }

    /// From now on it ends the waits of this watch.
    pub(super) fn wake(&self, waker: Weak<SyncSender<()>>) {
        self.lock().waker = waker;
    }

    /// Nothing that runs under this lock can leave it half-changed, so a panic elsewhere does not matter.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::Source;
    use super::*;

    /// A file that changes without a sound: by a second name in a folder that is not watched.
    #[test]
    fn a_request_ends_the_wait_and_reads_what_nobody_heard_of() {
        let folder = std::env::temp_dir().join(format!("portway-reread-{}", std::process::id()));
        let manifests = folder.join("manifests");
        fs::create_dir_all(&manifests).unwrap();
        let service = |name: &str| format!("apiVersion: v1\nkind: Service\nmetadata: {{ name: {name} }}\n");
        fs::write(manifests.join("a.yaml"), service("one")).unwrap();
        fs::hard_link(manifests.join("a.yaml"), folder.join("second")).unwrap();
        let request = RereadRequest::default();
        let mut source = Source::open(&[manifests]).unwrap();
        source.follow().unwrap();
        source.reread_on(&request);
        assert!(source.wait(Duration::ZERO).unwrap());
        assert_eq!(source.changes().0.len(), 1);
        fs::write(folder.join("second"), service("two")).unwrap();
        assert!(!source.wait(Duration::ZERO).unwrap(), "nobody heard of it");
        let other = request.clone();
        let thread = std::thread::spawn(move || other.make());
        assert!(source.wait(Duration::from_secs(10)).unwrap());
        thread.join().unwrap();
        assert_eq!(source.changes().0.len(), 2, "one Service is gone, and one is new");
        assert!(!request.is_pending());
        fs::remove_dir_all(folder).unwrap();
    }
}
