//! Watches: lines become news, as they come.

use std::time::Instant;

use model::Event;

use super::{Follower, Stop, Way, nonempty};
use crate::answer::Incoming;
use crate::failure::Failure;
use crate::line::{Line, read_line};
use crate::news::News;
use crate::object::{Seen, number};

/// After so many watches in a row that said nothing, which is five minutes, everything is read anew: a server may take watches and forget
/// about them. Not sooner: one that sends no bookmarks would be asked for whole lists all the time.
const SILENT_MAX: u32 = 4;

impl Follower<'_, '_> {
    /// Follows a watch that began then. Watches without failure for a while have worked, also where they end soon or say nothing: the
    /// next failure is a first one.
    pub(super) async fn follow(&mut self, lines: Incoming, begun: Instant) -> Result<(), Stop> {
        let since = *self.watches_since.get_or_insert(begun);
        let ended = self.follow_to_its_end(lines, begun).await;
        if since.elapsed() >= self.pace.calm {
            self.back_off.reset();
            self.gone_back_off.reset();
        }
        ended
    }

    async fn follow_to_its_end(&mut self, mut lines: Incoming, begun: Instant) -> Result<(), Stop> {
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
            // What happened meanwhile comes at once. Whether it is cut after that shows when nothing more comes.
            if self.way != Way::Found
                && (begun.elapsed() >= self.pace.at_once || lines.is_quiet(self.pace.at_once).await?)
            {
                self.found();
            }
        }
        if begun.elapsed() >= self.pace.at_once {
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
                Ok(line) => {
                    self.understood();
                    self.follow_line(line, &mut events)?;
                }
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
