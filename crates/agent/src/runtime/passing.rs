//! A question to the loop by who cannot wait for it: the thread that answers health checks.
//!
//! In: one question, of who asks it again and again. Out: the loop's answer if it comes at once, else `None`; then the next one who asks
//! gets what came meanwhile, and nobody asks twice.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use observe::question::{Answer, Question};

use crate::reconciler::{Event, Reply};

/// An idle loop has answered by then; nobody notices that a health check took so long.
const AT_ONCE: Duration = Duration::from_millis(30);

/// Somebody who asks.
#[derive(Debug)]
pub(super) struct Passing {
    events: SyncSender<Event>,
    question: Question,
    /// What was asked and not answered.
    waiting: Mutex<Option<Receiver<Answer>>>,
}

impl Passing {
    pub(super) fn new(events: SyncSender<Event>, question: Question) -> Self {
        Self { events, question, waiting: Mutex::default() }
    }

    /// The answer; `None` while the loop is busy.
    pub(super) fn answer(&self) -> Option<Answer> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = match waiting.take() {
            Some(answer) => answer,
            None => self.ask()?,
        };
        match answer.recv_timeout(AT_ONCE) {
            Ok(answer) => Some(answer),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => {
                *waiting = Some(answer);
                None
            }
        }
    }

    fn ask(&self) -> Option<Receiver<Answer>> {
        let (reply, answer) = channel();
        self.events.try_send(Event::Query(self.question, Reply(reply))).ok()?;
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
        let passing = Passing::new(events, Question::Traffic);
        assert_eq!(passing.answer(), None);
        assert_eq!(passing.answer(), None);
        let Ok(Event::Query(Question::Traffic, Reply(reply))) = inbox.try_recv() else {
            panic!("nobody asked")
        };
        assert!(inbox.try_recv().is_err(), "it was asked twice");
        reply.send(Answer::Traffic(Vec::new())).unwrap();
        assert_eq!(passing.answer(), Some(Answer::Traffic(Vec::new())));
        assert_eq!(passing.answer(), None);
        assert!(inbox.try_recv().is_ok(), "then it is asked anew");
    }
}
