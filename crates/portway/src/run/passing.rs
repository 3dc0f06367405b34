//! A question to the loop by who cannot wait for it: the thread that answers health checks.
//!
//! In: who wants to know what was carried. Out: the loop's answer if it comes at once, else `None`; then the next one who asks gets what
//! came meanwhile, and nobody asks twice.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::effect::Answer;
use super::event::{Event, Question, Reply};
use crate::traffic::Traffic;

/// An idle loop has answered by then; nobody notices that a health check took so long.
const AT_ONCE: Duration = Duration::from_millis(30);

/// Somebody who asks.
#[derive(Debug)]
pub(super) struct Passing {
    events: SyncSender<Event>,
    /// What was asked and not answered.
    waiting: Mutex<Option<Receiver<Answer>>>,
}

impl Passing {
    pub(super) fn new(events: SyncSender<Event>) -> Self {
        Self { events, waiting: Mutex::default() }
    }

    /// What was carried; `None` while the loop is busy.
    pub(super) fn traffic(&self) -> Option<Vec<Traffic>> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = match waiting.take() {
            Some(answer) => answer,
            None => self.ask()?,
        };
        match answer.recv_timeout(AT_ONCE) {
            Ok(Answer::Traffic(traffic)) => Some(traffic),
            Ok(_) | Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => {
                *waiting = Some(answer);
                None
            }
        }
    }

    fn ask(&self) -> Option<Receiver<Answer>> {
        let (reply, answer) = channel();
        self.events.try_send(Event::Query(Question::Traffic, Reply(reply))).ok()?;
        Some(answer)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use super::*;

    #[test]
    fn a_busy_loop_is_asked_once_and_its_late_answer_is_taken() {
        let (events, inbox) = sync_channel(4);
        let passing = Passing::new(events);
        assert_eq!(passing.traffic(), None);
        assert_eq!(passing.traffic(), None);
        let Ok(Event::Query(Question::Traffic, Reply(reply))) = inbox.try_recv() else {
            panic!("nobody asked")
        };
        assert!(inbox.try_recv().is_err(), "it was asked twice");
        reply.send(Answer::Traffic(Vec::new())).unwrap();
        assert_eq!(passing.traffic(), Some(Vec::new()));
        assert_eq!(passing.traffic(), None);
        assert!(inbox.try_recv().is_ok(), "then it is asked anew");
    }
}
