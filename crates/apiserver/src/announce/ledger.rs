//! What was said before, and so what is sent.
//!
//! In: announcements, and the time. Out: letters. The first of a kind is a new Event; the second begins its series; from there on
//! it is counted, and the count is sent every six minutes, as upstream's recorder does. Different ones are limited in rate.
//!
//! Upstream takes two Events for the same whatever their sentences say, and has no limit. Here another sentence is another Event:
//! it may name another port.
//!
//! Absent on purpose: a clock, and the server.

use std::time::Duration;

use jiff::Timestamp;
use model::rate::TokenBucket;

use super::Announcement;
use super::letter::{Letter, Series};

/// A series is sent so often, and forgotten when nothing was added for so long.
const EVERY: Duration = Duration::from_secs(360);
/// So many different Events may be sent at once.
const BURST: u32 = 25;
/// After that, one in so long.
const ONE_IN: Duration = Duration::from_secs(10);
/// So many are remembered.
const KNOWN_MAX: usize = 256;

/// A moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    /// Since the process started, on a clock that never goes back.
    pub(super) elapsed: Duration,
    /// For people.
    pub(super) wall: Timestamp,
}

/// What was said before.
#[derive(Debug)]
pub(super) struct Ledger {
    known: Vec<Known>,
    /// Different Events that may be sent.
    room: TokenBucket,
    /// Those of this storm that were left out.
    left_out: u64,
    last_stamp: i128,
}

#[derive(Debug)]
struct Known {
    said: Announcement,
    first: Timestamp,
    stamp: i128,
    count: u64,
    last: Moment,
    /// What the server knows: the count, and since when.
    sent: u64,
    sent_at: Duration,
}

impl Default for Ledger {
    fn default() -> Self {
        let (left_out, last_stamp) = (0, 0);
        Self { known: Vec::new(), room: TokenBucket::new(BURST, ONE_IN), left_out, last_stamp }
    }
}

impl Ledger {
    /// Something was said. The letter that goes out now, if any.
    pub(super) fn said(&mut self, said: Announcement, now: Moment) -> Option<Letter> {
        if let Some(known) = self.known.iter_mut().find(|known| known.said == said) {
            (known.count, known.last) = (known.count + 1, now);
            return known.is_due(now.elapsed).then(|| known.letter(now.elapsed));
        }
        if !self.room.take(now.elapsed) {
            self.left_out += 1;
            return None;
        }
        self.left_out = 0;
        if self.known.len() == KNOWN_MAX {
            self.known.remove(0);
        }
        // It is a part of the name, which no two have.
        self.last_stamp = now.wall.as_nanosecond().max(self.last_stamp + 1);
        let (first, stamp) = (now.wall, self.last_stamp);
        let mut known = Known { said, first, stamp, count: 1, last: now, sent: 0, sent_at: now.elapsed };
        let letter = known.letter(now.elapsed);
        self.known.push(known);
        Some(letter)
    }

    /// Is this the first that was left out of a storm?
    pub(super) fn begins_to_leave_out(&self) -> bool {
        self.left_out == 1
    }

    /// Counts that are to be sent now. What was not said for long is forgotten.
    pub(super) fn due(&mut self, now: Duration) -> Vec<Letter> {
        let due = self.known.iter_mut().filter(|known| known.is_due(now));
        let letters = due.map(|known| known.letter(now)).collect();
        self.known.retain(|known| known.count > known.sent || now < known.last.elapsed + EVERY);
        letters
    }

    /// When to ask again what is due; `None` when nothing can be until something is said.
    pub(super) fn next(&self) -> Option<Duration> {
        let counted = self.known.iter().filter(|known| known.count > known.sent);
        counted.map(|known| known.sent_at + EVERY).min()
    }

    /// The server never took this: whatever says it again is the first.
    pub(super) fn lost(&mut self, letter: &Letter) {
        self.known.retain(|known| known.stamp != letter.stamp);
    }
}

impl Known {
    /// The second begins a series; from there on it is told every now and then.
    fn is_due(&self, now: Duration) -> bool {
        self.count > self.sent && (self.sent == 1 || now >= self.sent_at + EVERY)
    }

    fn letter(&mut self, now: Duration) -> Letter {
        (self.sent, self.sent_at) = (self.count, now);
        let series = (self.count > 1).then_some(Series { count: self.count, last: self.last.wall });
        Letter { said: self.said.clone(), stamp: self.stamp, first: self.first, series }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Regarding, Tone};
    use super::*;

    fn saying(note: &str) -> Announcement {
        let (reason, action) = ("Starting", "StartKubeProxy");
        Announcement { reason, tone: Tone::Normal, action, regarding: Regarding::Node, note: note.into() }
    }

    fn at(seconds: u64) -> Moment {
        let wall = Timestamp::from_second(1_800_000_000).unwrap() + Duration::from_secs(seconds);
        Moment { elapsed: Duration::from_secs(seconds), wall }
    }

    fn count(letter: Option<Letter>) -> Option<u64> {
        letter.map(|letter| letter.series.map_or(1, |series| series.count))
    }

    #[test]
    fn what_is_said_again_is_counted_and_told_every_six_minutes() {
        let mut ledger = Ledger::default();
        assert_eq!(count(ledger.said(saying("a"), at(0))), Some(1));
        assert_eq!(count(ledger.said(saying("a"), at(1))), Some(2), "a series begins");
        for second in 2..300 {
            assert_eq!(count(ledger.said(saying("a"), at(second))), None);
        }
        assert_eq!(ledger.next(), Some(Duration::from_secs(361)));
        let due = ledger.due(Duration::from_secs(361));
        assert_eq!(due.into_iter().map(|letter| count(Some(letter))).collect::<Vec<_>>(), [Some(300)]);
        assert_eq!(ledger.next(), None);
        assert!(ledger.due(Duration::from_secs(2000)).is_empty());
        assert_eq!(count(ledger.said(saying("a"), at(2001))), Some(1), "long after, it is another one");
    }

    #[test]
    fn a_storm_of_different_ones_is_bounded_and_ends() {
        let mut ledger = Ledger::default();
        let sent = (0..10_000).filter(|n| ledger.said(saying(&n.to_string()), at(0)).is_some()).count();
        assert_eq!(sent, usize::try_from(BURST).unwrap());
        assert!(ledger.said(saying("later"), at(9)).is_none());
        assert!(ledger.said(saying("later"), at(10)).is_some());
        assert!(ledger.said(saying("at once after it"), at(10)).is_none());
        assert!(ledger.known.len() <= KNOWN_MAX);
    }

    #[test]
    fn no_two_have_one_name() {
        let mut ledger = Ledger::default();
        let first = ledger.said(saying("a"), at(0)).unwrap().stamp;
        assert_ne!(ledger.said(saying("b"), at(0)).unwrap().stamp, first);
    }

    #[test]
    fn what_the_server_never_took_is_new_when_it_is_said_again() {
        let mut ledger = Ledger::default();
        let letter = ledger.said(saying("a"), at(0)).unwrap();
        ledger.lost(&letter);
        assert_eq!(count(ledger.said(saying("a"), at(1))), Some(1));
    }
}
