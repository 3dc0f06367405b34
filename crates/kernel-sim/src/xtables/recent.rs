//! Who was seen when, as the module `xt_recent` keeps it.
//!
//! A list holds so many sources; a new one pushes out the one that was seen longest ago. `--reap` takes out at most one at a
//! time: the oldest, if it is too old, and only when the source that is asked about is in the list.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

/// The kernel's `ip_list_tot` unless the module was loaded with another.
const SOURCES_MAX: usize = 100;

/// All lists.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Lists(BTreeMap<String, Vec<Seen>>);

/// A source and when it was last seen; the oldest stands first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seen {
    source: IpAddr,
    at: Duration,
}

impl Lists {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn retain(&mut self, is_kept: impl Fn(&str) -> bool) {
        self.0.retain(|list, _| is_kept(list));
    }

    /// Who is in a list, the oldest first.
    pub(super) fn sources(&self, list: &str) -> Vec<(IpAddr, Duration)> {
        self.0.get(list).into_iter().flatten().map(|seen| (seen.source, seen.at)).collect()
    }

    pub(super) fn set(&mut self, list: &str, source: IpAddr, now: Duration) {
        let seen = self.0.entry(list.to_owned()).or_default();
        if let Some(at) = seen.iter().position(|seen| seen.source == source) {
            seen.remove(at);
        } else if seen.len() >= SOURCES_MAX {
            seen.remove(0);
        }
        seen.push(Seen { source, at: now });
    }

    /// Whether the source was seen at most so long ago.
    pub(super) fn check(
        &mut self,
        list: &str,
        source: IpAddr,
        within: Duration,
        reap: bool,
        now: Duration,
    ) -> bool {
        let Some(seen) = self.0.get_mut(list) else { return false };
        let Some(found) = seen.iter().find(|seen| seen.source == source).copied() else { return false };
        let is_alive = |seen: &Seen| seen.at + within >= now;
        if reap && seen.first().is_some_and(|oldest| !is_alive(oldest)) {
            seen.remove(0);
        }
        is_alive(&found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(last: u8) -> IpAddr {
        [10, 0, 0, last].into()
    }

    const fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_source_is_remembered_for_as_long_as_was_asked() {
        let mut lists = Lists::default();
        lists.set("a", client(1), at(5));
        let mut check = |source, now| lists.check("a", source, at(10), false, at(now));
        assert!(check(client(1), 5) && check(client(1), 15));
        assert!(!check(client(1), 16) && !check(client(2), 5));
    }

    #[test]
    fn the_hundred_and_first_source_pushes_out_the_oldest() {
        let mut lists = Lists::default();
        (0..100).for_each(|last| lists.set("a", client(last), at(u64::from(last))));
        // It is not the oldest any more.
        lists.set("a", client(0), at(100));
        lists.set("a", client(100), at(101));
        let sources = lists.sources("a");
        assert_eq!(sources.len(), 100);
        assert_eq!((sources[0].0, sources[98].0, sources[99].0), (client(2), client(0), client(100)));
    }

    #[test]
    fn only_the_oldest_is_reaped_and_only_for_one_that_is_known() {
        let mut lists = Lists::default();
        (1..=3).for_each(|last| lists.set("a", client(last), at(0)));
        lists.set("a", client(4), at(50));
        assert!(!lists.check("a", client(9), at(10), true, at(55)));
        assert_eq!(lists.sources("a").len(), 4);
        assert!(lists.check("a", client(4), at(10), true, at(55)));
        assert_eq!(lists.sources("a").first().unwrap().0, client(2));
    }
}
