//! What was told so far: names and versions, nothing else.
//!
//! From it follows what a new list changes: an object of a version that was told is not told again, and one that is missing is
//! gone. And by it nothing goes back in time: a list older than what was told is refused as a whole, a line older than it is
//! left out.

use std::collections::HashMap;

use model::{Event, Report};

use crate::failure::Failure;
use crate::news::{Trigger, Watched};
use crate::object::{Name, Seen, gone};

/// What was told of one kind.
#[derive(Debug)]
pub(crate) struct Known {
    of: Watched,
    entries: HashMap<Name, Entry>,
    /// The number of the list under way, or of the last one.
    round: u32,
    /// The newest version that was told.
    newest: Option<u64>,
    /// When what is being told happened.
    triggers: Vec<Trigger>,
}

#[derive(Debug)]
struct Entry {
    version: Option<u64>,
    round: u32,
}

/// A list under way.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    /// Whether it may be older than what was told shows only at its end: until then it is kept.
    is_held: bool,
    held: Vec<Seen>,
    pub(crate) unreadable: Vec<Report>,
}

impl Known {
    pub(crate) fn new(of: Watched) -> Self {
        Self { of, entries: HashMap::new(), round: 0, newest: None, triggers: Vec::new() }
    }

    /// When what was told since the last call happened. What is gone does not say when it went.
    pub(crate) fn take_triggers(&mut self) -> Vec<Trigger> {
        std::mem::take(&mut self.triggers)
    }

    /// A list begins.
    pub(crate) fn begin(&mut self) -> Listing {
        self.round = self.round.wrapping_add(1);
        Listing { is_held: self.newest.is_some(), ..Listing::default() }
    }

    /// An object of a list. What is to be told at once, if anything.
    pub(crate) fn list(&mut self, listing: &mut Listing, object: Result<Seen, Report>) -> Option<Event> {
        let seen = match object {
            Ok(seen) => seen,
            Err(report) => {
                listing.unreadable.push(report);
                return None;
            }
        };
        if let Some(entry) = self.entries.get_mut(&seen.name) {
            entry.round = self.round;
            if entry.version.is_some() && entry.version == seen.version {
                return None;
            }
        }
        if listing.is_held {
            listing.held.push(seen);
            return None;
        }
        Some(self.tell(seen))
    }

    /// A list of this version is complete. What is to be told, unless it is older than what was told already.
    pub(crate) fn end(&mut self, listing: &mut Listing, version: Option<u64>) -> Result<Vec<Event>, Failure> {
        self.refuse_older(version)?;
        self.newest = version.or(self.newest);
        let held = std::mem::take(&mut listing.held);
        let mut events: Vec<Event> = held.into_iter().map(|seen| self.tell(seen)).collect();
        let (of, round) = (self.of, self.round);
        let missing = self.entries.extract_if(|_, entry| entry.round != round);
        events.extend(missing.map(|(name, _)| gone(of, name)));
        Ok(events)
    }

    /// A list of this version may not be older than what was told already.
    pub(crate) fn refuse_older(&self, version: Option<u64>) -> Result<(), Failure> {
        match (version, self.newest) {
            (Some(theirs), Some(ours)) if theirs < ours => Err(Failure::Older { theirs, ours }),
            _ => Ok(()),
        }
    }

    /// An object changed. What is to be told, unless it is old news.
    pub(crate) fn follow(&mut self, seen: Seen, is_gone: bool) -> Option<Event> {
        if self.is_old(seen.version) {
            return None;
        }
        self.heard(seen.version);
        if !is_gone {
            return Some(self.tell(seen));
        }
        self.entries.remove(&seen.name)?;
        Some(gone(self.of, seen.name))
    }

    /// Everything up to this version was told.
    pub(crate) fn heard(&mut self, version: Option<u64>) {
        self.newest = self.newest.max(version);
    }

    /// Whatever the server has is believed, however old.
    pub(crate) fn believe(&mut self) {
        self.newest = None;
        self.entries.values_mut().for_each(|entry| entry.version = None);
    }

    fn is_old(&self, version: Option<u64>) -> bool {
        matches!((version, self.newest), (Some(theirs), Some(ours)) if theirs <= ours)
    }

    fn tell(&mut self, seen: Seen) -> Event {
        self.triggers.extend(seen.trigger);
        self.entries.insert(seen.name, Entry { version: seen.version, round: self.round });
        Event::Apply(seen.fact)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::read;
    use serde_json::json;

    fn seen(name: &str, version: u64) -> Seen {
        let object = json!({"metadata": {"name": name, "resourceVersion": version.to_string()}});
        read(Watched::Node, &object).unwrap()
    }

    fn list(known: &mut Known, version: u64, objects: &[(&str, u64)]) -> Result<Vec<String>, Failure> {
        let mut listing = known.begin();
        let mut told: Vec<Event> = objects
            .iter()
            .filter_map(|(name, version)| known.list(&mut listing, Ok(seen(name, *version))))
            .collect();
        told.extend(known.end(&mut listing, Some(version))?);
        let mut words: Vec<String> = told.iter().map(words).collect();
        words.sort();
        Ok(words)
    }

    fn words(event: &Event) -> String {
        match event {
            Event::Apply(model::facts::Fact::Node(node)) => format!("+{}", node.name),
            Event::DeleteNode(name) => format!("-{name}"),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn a_second_list_tells_only_what_is_different() {
        let mut known = Known::new(Watched::Node);
        assert_eq!(list(&mut known, 9, &[("a", 3), ("b", 4)]).unwrap(), ["+a", "+b"]);
        assert_eq!(list(&mut known, 12, &[("a", 3), ("c", 11)]).unwrap(), ["+c", "-b"]);
        assert_eq!(list(&mut known, 13, &[("a", 3), ("c", 11)]).unwrap(), Vec::<String>::new());
    }

    #[test]
    fn an_older_list_is_refused_and_changes_nothing() {
        let mut known = Known::new(Watched::Node);
        list(&mut known, 9, &[("a", 3), ("b", 4)]).unwrap();
        known.follow(seen("c", 20), false).unwrap();
        assert_eq!(list(&mut known, 19, &[("a", 2)]), Err(Failure::Older { theirs: 19, ours: 20 }));
        assert_eq!(list(&mut known, 20, &[("a", 3), ("b", 4), ("c", 20)]).unwrap(), Vec::<String>::new());
        known.believe();
        assert_eq!(list(&mut known, 5, &[("a", 3)]).unwrap(), ["+a", "-b", "-c"].map(String::from).to_vec());
    }

    #[test]
    fn old_news_of_a_watch_are_left_out() {
        let mut known = Known::new(Watched::Node);
        list(&mut known, 9, &[("a", 3)]).unwrap();
        assert!(known.follow(seen("a", 8), false).is_none(), "older than the list");
        assert!(known.follow(seen("a", 10), true).is_some());
        assert!(known.follow(seen("a", 10), false).is_none(), "it does not come back to life");
        assert!(known.follow(seen("a", 11), false).is_some());
        known.heard(Some(15));
        assert!(known.follow(seen("a", 12), true).is_none(), "older than a bookmark");
    }

    #[test]
    fn a_list_that_broke_off_leaves_nothing_behind_that_the_next_one_does_not_have() {
        let mut known = Known::new(Watched::Node);
        let mut first = known.begin();
        assert!(known.list(&mut first, Ok(seen("a", 3))).is_some());
        assert_eq!(list(&mut known, 12, &[("b", 11)]).unwrap(), ["+b", "-a"]);
    }
}
