//! Watches: lines become news, as they come.

use std::time::{Duration, Instant};

use model::Event;

use super::{Follower, Stop, nonempty};
use crate::answer::Incoming;
use crate::failure::Failure;
use crate::line::{Line, read_line};
use crate::news::News;
use crate::object::{Seen, number};

/// After so many watches in a row that said nothing everything is read anew: a server may take watches and forget about them.
const SILENT_MAX: u32 = 2;
/// A watch that ends sooner than this, without a word, did not work.
const AT_ONCE: Duration = Duration::from_secs(1);

impl Follower<'_, '_> {
    pub(super) async fn follow(&mut self, mut lines: Incoming) -> Result<(), Stop> {
        let begun = Instant::now();
        let mut has_heard = false;
        loop {
            match lines.lines().await {
                Ok(Some(text)) => self.follow_lines(nonempty(&text))?,
                Ok(None) => break,
                // Where nothing happens a server may send nothing, so this is no trouble yet. The next watch shows it, if it is.
                Err(Failure::Silent(_)) if lines.is_between_lines() => {
                    self.was_silent(has_heard);
                    return Ok(());
                }
                Err(failure) => return Err(failure.into()),
            }
            (has_heard, self.silent) = (true, 0);
        }
        if has_heard || begun.elapsed() >= AT_ONCE {
            return Ok(());
        }
        Err(Failure::Cut("a watch ended as soon as it began".into()).into())
    }

    fn was_silent(&mut self, had_heard: bool) {
        self.silent = if had_heard { 0 } else { self.silent + 1 };
        if self.silent >= SILENT_MAX {
            (self.silent, self.at) = (0, None);
        }
    }

    /// What came together is told together, also what came before a line that cannot be read.
    pub(super) fn follow_lines<'l>(&mut self, lines: impl Iterator<Item = &'l [u8]>) -> Result<(), Stop> {
        let mut events = Vec::new();
        let mut ending = Ok(());
        let mut has_heard = false;
        for text in lines {
            has_heard = true;
            match read_line(self.wish.of, text) {
                Ok(line) => self.follow_line(line, &mut events)?,
                Err(failure) => {
                    ending = Err(failure.into());
                    break;
                }
            }
        }
        if has_heard && events.is_empty() && ending.is_ok() {
            self.say(News::Heard(self.wish.of))?;
        }
        self.say_changed(events)?;
        ending
    }

    fn follow_line(&mut self, line: Line, events: &mut Vec<Event>) -> Result<(), Stop> {
        match line {
            Line::Applied(seen) => self.follow_object(seen, false, events),
            Line::Gone(seen) => self.follow_object(seen, true, events),
            Line::Unreadable(report) => return self.say(News::Unreadable { of: self.wish.of, report }),
            Line::Bookmark { version, .. } => {
                self.known.heard(number(&version));
                self.at = Some(version);
            }
            Line::Unknown => {}
        }
        Ok(())
    }

    fn follow_object(&mut self, seen: Seen, is_gone: bool, events: &mut Vec<Event>) {
        let version = seen.version;
        if let Some(event) = self.known.follow(seen, is_gone) {
            events.push(event);
            self.at = version.map(|version| version.to_string()).or(self.at.take());
        }
    }
}
