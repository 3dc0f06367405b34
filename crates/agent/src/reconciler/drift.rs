//! Others who write to what is ours: when that is put right, and when it has become a war.
//!
//! What somebody changed is put right at once. A program that comes back more than [`RETURNS_MAX`] times in [`WINDOW`] does
//! not stop because we do the same again faster: it is named, once, and from then on what it does is put right every
//! [`TRUCE`] at most, until it has been quiet for that long.
//!
//! Absent on purpose: a clock, and what was changed. A full compare finds that.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use dataplane::Meddled;
use observe::status::{DriftStatus, Repair};

use super::event::Now;
use super::figures::text;

/// A program may come back so often.
const RETURNS_MAX: usize = 3;
/// In so much time.
const WINDOW: Duration = Duration::from_secs(10);
/// What a program does that comes back more often is put right after so much time.
const TRUCE: Duration = Duration::from_secs(10);
/// After a compare because of a loss, the next one of that kind waits so long: one is enough for all that is lost in a while.
const LOSS_REST: Duration = Duration::from_secs(4);
/// So many programs are remembered; names may be made up.
const PROGRAMS_MAX: usize = 32;

/// What is remembered of others.
#[derive(Debug, Default)]
pub(super) struct Drift {
    /// When each program came back, the last time last.
    returns: BTreeMap<String, VecDeque<Duration>>,
    fighting: BTreeSet<String>,
    compared_at: Option<Duration>,
    /// When everything was last compared because of a loss, and when it will be.
    lost: Losses,
    /// Who was heard since the last full compare.
    suspect: Option<String>,
    heard: u64,
    last: Option<(Now, Option<String>, usize)>,
}

/// Notifications that did not come.
#[derive(Debug, Default)]
struct Losses {
    count: u64,
    compared_at: Option<Duration>,
    planned_at: Option<Duration>,
}

/// What follows from something that was heard.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Heard {
    /// When to compare everything.
    pub(super) compare_at: Duration,
    /// A war has just begun, with this program.
    pub(super) war: Option<String>,
}

impl Drift {
    /// Takes in that somebody may have written.
    pub(super) fn hear(&mut self, meddled: &Meddled, now: Duration) -> Heard {
        let Meddled::By { program, process } = meddled else { return self.hear_nothing(now) };
        self.heard += 1;
        let is_new = self.count_return(program, now);
        self.suspect = Some(format!("{program} (process {process})"));
        let rest = self.compared_at.map_or(Duration::ZERO, |at| at + TRUCE);
        let compare_at = if self.fighting.contains(program) { now.max(rest) } else { now };
        Heard { compare_at, war: is_new.then(|| program.clone()) }
    }

    /// Something happened of which nothing is known. One compare is enough for all that is lost in a while.
    fn hear_nothing(&mut self, now: Duration) -> Heard {
        self.lost.count += 1;
        let rest = self.lost.compared_at.map_or(Duration::ZERO, |at| at + LOSS_REST);
        let compare_at = *self.lost.planned_at.get_or_insert(now.max(rest));
        Heard { compare_at, war: None }
    }

    /// Whether this return is the one that makes it a war. What a program does before we could react is one return.
    fn count_return(&mut self, program: &str, now: Duration) -> bool {
        self.forget_the_quiet(now);
        let times = self.returns.entry(program.to_owned()).or_default();
        let is_return = times.back().is_none_or(|last| self.compared_at.is_some_and(|at| at >= *last));
        if is_return {
            times.push_back(now);
        }
        times.len() > RETURNS_MAX && self.fighting.insert(program.to_owned())
    }

    fn is_at_war(&self, program: &str, now: Now) -> bool {
        let last = self.returns.get(program).and_then(VecDeque::back);
        last.is_some_and(|last| *last + WINDOW + TRUCE > now.elapsed)
    }

    /// Does somebody come back again and again?
    pub(super) fn is_at_war_with_anybody(&self, now: Now) -> bool {
        self.fighting.iter().any(|program| self.is_at_war(program, now))
    }

    fn forget_the_quiet(&mut self, now: Duration) {
        for (program, times) in &mut self.returns {
            // A war lasts as long as its program comes back after each truce.
            let window = if self.fighting.contains(program) { WINDOW + TRUCE } else { WINDOW };
            while times.front().is_some_and(|time| *time + window <= now) {
                times.pop_front();
            }
        }
        self.returns.retain(|_, times| !times.is_empty());
        while self.returns.len() >= PROGRAMS_MAX {
            self.returns.pop_first();
        }
        self.fighting.retain(|program| self.returns.contains_key(program));
    }

    /// Everything was compared. `operations` is what had to be written although nothing was new on our side, if anything.
    /// Returns who is to blame.
    pub(super) fn compared(&mut self, operations: Option<usize>, now: Now) -> Option<String> {
        self.compared_at = Some(now.elapsed);
        if self.lost.planned_at.take().is_some() {
            self.lost.compared_at = Some(now.elapsed);
        }
        let suspect = self.suspect.take();
        if let Some(operations) = operations {
            self.last = Some((now, suspect.clone(), operations));
        }
        suspect
    }

    /// Was somebody heard whose doing was not looked at yet?
    pub(super) fn has_suspect(&self) -> bool {
        self.suspect.is_some()
    }

    /// May something be wrong with the kernel, which the next compare shows?
    pub(super) fn is_suspicious(&self) -> bool {
        self.suspect.is_some() || self.lost.planned_at.is_some()
    }

    /// What may be wrong with the kernel until the next compare, in words; `None` if nothing was heard.
    pub(super) fn suspicion(&self) -> Option<String> {
        let by = self.suspect.as_ref().map(|suspect| format!("{suspect} changed our tables"));
        by.or_else(|| {
            self.lost.planned_at.map(|_| "the kernel could not tell all that others changed".to_owned())
        })
    }

    /// The programs that keep changing our tables.
    pub(super) fn conflict(&self) -> Option<String> {
        let programs: Vec<&str> = self.fighting.iter().map(String::as_str).collect();
        (!programs.is_empty()).then(|| format!("{} keeps changing our tables", programs.join(", ")))
    }

    /// How many programs keep changing our tables.
    pub(super) fn fighting(&self) -> usize {
        self.fighting.len()
    }

    /// For people. What was repaired is counted elsewhere.
    pub(super) fn status(&self, now: Now) -> DriftStatus {
        let repair = |(at, by, operations): &(Now, Option<String>, usize)| Repair {
            at: text(at.seconds()),
            seconds_ago: now.elapsed.saturating_sub(at.elapsed).as_secs(),
            by: by.clone(),
            operations: *operations,
        };
        DriftStatus {
            heard: self.heard,
            lost: self.lost.count,
            last: self.last.as_ref().map(repair),
            fighting: self.fighting.iter().filter(|program| self.is_at_war(program, now)).cloned().collect(),
            ..DriftStatus::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn by(program: &str) -> Meddled {
        Meddled::By { program: program.to_owned(), process: 7 }
    }

    fn at(elapsed: Duration) -> Now {
        Now { elapsed, wall: jiff::Timestamp::UNIX_EPOCH }
    }

    /// Somebody writes at these seconds, and each time it is put right when it is due. When that was, and how often
    /// somebody was named.
    fn play(seconds: &[u64]) -> (Vec<u64>, usize) {
        let (mut drift, mut repaired, mut named) = (Drift::default(), Vec::new(), 0);
        for second in seconds {
            let heard = drift.hear(&by("nft"), SECOND * u32::try_from(*second).unwrap());
            named += usize::from(heard.war.is_some());
            repaired.push(heard.compare_at.as_secs());
            drift.compared(Some(1), at(heard.compare_at));
        }
        (repaired, named)
    }

    #[test]
    fn what_somebody_does_is_put_right_at_once() {
        assert_eq!(play(&[1, 20, 21, 22, 40]), (vec![1, 20, 21, 22, 40], 0));
    }

    #[test]
    fn who_comes_back_more_than_three_times_in_ten_seconds_is_named_once_and_waits() {
        let (repaired, named) = play(&[1, 2, 3, 4, 14, 25, 36]);
        assert_eq!((repaired, named), (vec![1, 2, 3, 13, 23, 33, 43], 1));
    }

    #[test]
    fn a_war_ends_when_its_program_is_quiet_and_may_begin_anew() {
        let (repaired, named) = play(&[1, 2, 3, 4, 60, 61, 62, 63]);
        assert_eq!((repaired, named), (vec![1, 2, 3, 13, 60, 61, 62, 72], 2));
    }

    #[test]
    fn many_writes_before_we_could_react_are_one() {
        let mut drift = Drift::default();
        for _ in 0..50 {
            assert_eq!(drift.hear(&by("nft"), SECOND), Heard { compare_at: SECOND, war: None });
        }
        assert_eq!(drift.status(at(SECOND)).heard, 50);
    }

    #[test]
    fn a_war_with_one_program_does_not_hold_back_what_another_does() {
        let mut drift = Drift::default();
        for second in 1..6 {
            drift.hear(&by("nft"), SECOND * second);
            drift.compared(Some(1), at(SECOND * second));
        }
        assert_eq!(drift.hear(&by("nft"), SECOND * 6).compare_at, SECOND * 15);
        assert_eq!(drift.hear(&by("firewalld"), SECOND * 6).compare_at, SECOND * 6);
        assert_eq!(drift.status(at(SECOND * 6)).fighting, ["nft"]);
    }

    #[test]
    fn lost_notifications_lead_to_one_compare_and_not_to_one_each() {
        let mut drift = Drift::default();
        assert_eq!(drift.hear(&Meddled::Unknown, SECOND).compare_at, SECOND);
        drift.compared(None, at(SECOND));
        for _ in 0..50 {
            assert_eq!(drift.hear(&Meddled::Unknown, SECOND * 2).compare_at, SECOND * 5);
        }
        drift.compared(None, at(SECOND * 5));
        assert_eq!(
            drift.hear(&Meddled::Unknown, SECOND * 40).compare_at,
            SECOND * 40,
            "however many were lost before"
        );
    }

    #[test]
    fn programs_without_number_take_no_memory_without_end() {
        let mut drift = Drift::default();
        for number in 0..1_000 {
            drift.hear(&by(&format!("program-{number}")), SECOND);
        }
        assert!(drift.returns.len() <= PROGRAMS_MAX);
    }
}
