//! What a program said last on its standard error: mostly the reason why it failed.
//!
//! In: its standard error. Out: the last line of it, to be read at the end of a sentence.
//!
//! However much it says, little of it is kept; and whatever it started may keep saying things for ever, so nobody waits long for an end.

use std::io::Read;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// So many bytes are kept.
const KEPT: usize = 4096;
/// So much of the line is shown.
const SHOWN: usize = 300;
/// Once the program has ended, what it said is here after so long at most.
const PATIENCE: Duration = Duration::from_millis(500);
/// So often it is looked whether all is heard.
const GLANCE: Duration = Duration::from_millis(5);

/// What was said last.
#[derive(Debug, Default)]
pub(crate) struct LastWords {
    end: Arc<Mutex<Vec<u8>>>,
    thread: Option<JoinHandle<()>>,
}

impl LastWords {
    /// Listens from now on, to the end.
    pub(crate) fn hear(mut from: impl Read + Send + 'static) -> Self {
        let end = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&end);
        let thread = thread::spawn(move || {
            let mut piece = [0; KEPT];
            while let Some(bytes) = from.read(&mut piece).ok().and_then(|count| piece.get(..count)) {
                if bytes.is_empty() {
                    return;
                }
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                kept.extend_from_slice(bytes);
                let surplus = kept.len().saturating_sub(KEPT);
                kept.drain(..surplus);
            }
        });
        Self { end, thread: Some(thread) }
    }

    /// Once the program has ended: its last line, for the end of a sentence about it. Nothing, where it said nothing.
    pub(crate) fn told(&self) -> String {
        let until = Instant::now() + PATIENCE;
        while self.thread.as_ref().is_some_and(|thread| !thread.is_finished()) && Instant::now() < until {
            thread::sleep(GLANCE);
        }
        let end = self.end.lock().unwrap_or_else(PoisonError::into_inner);
        match last_line(&String::from_utf8_lossy(&end)) {
            Some(line) => format!("; its last words: `{line}`"),
            None => String::new(),
        }
    }
}

fn last_line(text: &str) -> Option<String> {
    let line = text.lines().map(str::trim).rfind(|line| !line.is_empty())?;
    Some(line.chars().map(|c| if c.is_control() { ' ' } else { c }).take(SHOWN).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_much_that_was_said_the_last_line_is_told() {
        let text = "talk\n".repeat(10_000) + "no such\tprofile\n \n";
        let words = LastWords::hear(std::io::Cursor::new(text));
        assert_eq!(words.told(), "; its last words: `no such profile`");
        assert!(words.end.lock().unwrap().len() <= KEPT);
    }

    #[test]
    fn silence_is_not_told() {
        assert_eq!(LastWords::hear(std::io::empty()).told(), "");
        assert_eq!(LastWords::default().told(), "");
    }

    #[test]
    fn what_never_ends_is_not_waited_for() {
        let (reader, writer) = std::io::pipe().unwrap();
        std::io::Write::write_all(&mut &writer, b"log in first\n").unwrap();
        assert_eq!(LastWords::hear(reader).told(), "; its last words: `log in first`");
        drop(writer);
    }
}
