//! What modes count for upstream's metrics about a move between modes, and counts that never go back.
//!
//! In: what the kernel has counted for one rule, whenever somebody looks. Out: a total of this process, which grows as Prometheus wants it
//! to: it begins with 0, and a rule that was written anew, and so counts from 0 again, goes on where the old one was.

use std::collections::BTreeMap;

use kernel::RulePackets;
use model::{ByFamily, Family, Protocol};

/// What a mode has counted since this process began. What is not known is absent: a mode has no rule for it, or nobody could look yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Packets that were dropped because the connection tracker finds them invalid.
    pub invalid_dropped: Option<u64>,
    /// First packets, and so connections, to node ports on loopback addresses that rules or listeners took.
    pub localhost_accepted: Option<u64>,
    /// First packets to node ports on loopback addresses that neither rules nor listeners of ours serve.
    pub localhost_rejected: BTreeMap<(Family, Protocol), u64>,
    /// How often a listener for a node port on localhost could not be opened.
    pub listener_failures: ByFamily<u64>,
    /// What the mode counts that no other does.
    pub own: Vec<ModeMetric>,
}

/// A counter of one mode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModeMetric {
    /// Its name behind `portway_`, with the mode's name first and `_total` last.
    pub name: &'static str,
    pub help: &'static str,
    pub value: u64,
}

/// What a look for a rule has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Met {
    /// It is not known which rule it is.
    Unknown,
    /// There is no such rule.
    NoRule,
    /// It has counted this.
    Packets(RulePackets),
}

/// What a rule has counted while this process lives, however often it was written anew.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RunningCount {
    total: u64,
    /// What the last look has shown; `None` before the first.
    last: Option<RulePackets>,
    /// The last look has shown less than the one before.
    is_in_doubt: bool,
}

impl RunningCount {
    /// `None` before the first look.
    pub(crate) fn total(&self) -> Option<u64> {
        self.last.map(|_| self.total)
    }

    /// Somebody has looked. What the first look shows was counted before this process began.
    ///
    /// A legacy program that changes any rule of a table exchanges all of it, and adds the counts of the old one a moment later. So a count
    /// that went back is believed only if the next look shows no more.
    pub(crate) fn see(&mut self, met: Met) {
        let now = match met {
            Met::Unknown => return,
            Met::NoRule => RulePackets::default(),
            Met::Packets(packets) => packets,
        };
        let last = *self.last.get_or_insert(now);
        let is_same = now.handle == last.handle;
        let is_less = is_same && now.packets < last.packets;
        if is_less && !std::mem::replace(&mut self.is_in_doubt, true) {
            return;
        }
        let before = if is_same && !is_less { last.packets } else { 0 };
        self.total += now.packets - before;
        (self.last, self.is_in_doubt) = (Some(now), false);
    }

    /// The rule was written anew: it counts from 0.
    pub(crate) fn begin_anew(&mut self) {
        (self.last, self.is_in_doubt) = (Some(RulePackets::default()), false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Legacy rules have no handle.
    fn legacy(packets: u64) -> Met {
        Met::Packets(RulePackets { handle: 0, packets })
    }

    fn nft(handle: u64, packets: u64) -> Met {
        Met::Packets(RulePackets { handle, packets })
    }

    fn totals(looks: &[Met]) -> Vec<Option<u64>> {
        let mut count = RunningCount::default();
        let see = |met: &Met| {
            count.see(*met);
            count.total()
        };
        looks.iter().map(see).collect()
    }

    #[test]
    fn what_was_counted_before_this_process_is_not_its_own() {
        assert_eq!(totals(&[Met::Unknown, nft(7, 100), nft(7, 103)]), [None, Some(0), Some(3)]);
        assert_eq!(totals(&[Met::NoRule, nft(7, 2)]), [Some(0), Some(2)], "the rule is of this process");
    }

    #[test]
    fn a_new_rule_goes_on_where_the_old_one_was() {
        let looks = [nft(7, 0), nft(7, 5), nft(9, 8), nft(9, 9)];
        assert_eq!(totals(&looks), [Some(0), Some(5), Some(13), Some(14)]);
        let gone = [nft(7, 0), nft(7, 5), Met::NoRule, nft(9, 1)];
        assert_eq!(totals(&gone), [Some(0), Some(5), Some(5), Some(6)]);
        let mut count = RunningCount::default();
        count.see(legacy(0));
        count.see(legacy(5));
        count.begin_anew();
        count.see(legacy(6));
        assert_eq!(count.total(), Some(11), "more than before, and yet all of it is new");
    }

    #[test]
    fn a_count_that_is_back_a_moment_later_is_not_counted_twice() {
        let looks = [legacy(50), legacy(60), legacy(1), legacy(62)];
        assert_eq!(totals(&looks), [Some(0), Some(10), Some(10), Some(12)]);
    }

    #[test]
    fn a_count_that_stays_lower_was_set_to_zero() {
        let looks = [legacy(50), legacy(60), legacy(1), legacy(2), legacy(4)];
        assert_eq!(totals(&looks), [Some(0), Some(10), Some(10), Some(12), Some(14)]);
        assert_eq!(totals(&[nft(7, 9), nft(7, 3), nft(7, 3)]), [Some(0), Some(0), Some(3)]);
    }
}
