//! Ends a thread that waits for sockets: dropping the one end is readable at the other.

use std::io::{self, PipeReader, PipeWriter};
use std::thread::JoinHandle;

/// A thread with its off switch; dropping it ends the thread and waits until it has ended.
#[derive(Debug)]
pub(crate) struct Running<T> {
    switch: Option<PipeWriter>,
    thread: Option<JoinHandle<io::Result<T>>>,
}

/// Makes a switch and what to watch: it becomes readable when the thread has to end.
pub(crate) fn switch() -> io::Result<(PipeWriter, PipeReader)> {
    let (reader, writer) = io::pipe()?;
    Ok((writer, reader))
}

impl<T> Running<T> {
    pub(crate) fn new(switch: PipeWriter, thread: JoinHandle<io::Result<T>>) -> Self {
        Self { switch: Some(switch), thread: Some(thread) }
    }
}

impl<T> Drop for Running<T> {
    fn drop(&mut self) {
        drop(self.switch.take());
        // A panic inside has already been printed by that thread.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}
