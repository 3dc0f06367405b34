//! What several service ports need together, counted: it appears with the first and goes with the last.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::class::{Class, Door};
use super::elements::Needs;

/// How often each thing is needed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) classes: Count<(Door, Class)>,
    pub(super) cluster_addresses: Count<IpAddr>,
    pub(super) hairpins: Count<IpAddr>,
    pub(super) reply_sources: Count<(IpAddr, u16)>,
}

impl Counts {
    pub(super) fn add(&mut self, needs: &Needs) {
        self.classes.add(&needs.classes);
        self.cluster_addresses.add(&needs.cluster_addresses);
        self.hairpins.add(&needs.hairpins);
        self.reply_sources.add(&needs.reply_sources);
    }

    pub(super) fn remove(&mut self, needs: &Needs) {
        self.classes.remove(&needs.classes);
        self.cluster_addresses.remove(&needs.cluster_addresses);
        self.hairpins.remove(&needs.hairpins);
        self.reply_sources.remove(&needs.reply_sources);
    }

    /// What appeared or went until now is no news.
    pub(super) fn forget_touched(&mut self) {
        self.classes.forget_touched();
        self.cluster_addresses.forget_touched();
        self.hairpins.forget_touched();
        self.reply_sources.forget_touched();
    }
}

/// How often each `T` is needed, and which of them appeared or went since the last look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Count<T> {
    counts: BTreeMap<T, u32>,
    /// What appeared or went, perhaps several times, and whether it was needed at the last look.
    touched: BTreeMap<T, bool>,
}

impl<T> Default for Count<T> {
    fn default() -> Self {
        Self { counts: BTreeMap::new(), touched: BTreeMap::new() }
    }
}

impl<T: Ord + Copy> Count<T> {
    pub(super) fn add(&mut self, needed: &BTreeSet<T>) {
        for thing in needed {
            let count = self.counts.entry(*thing).or_insert(0);
            *count += 1;
            if *count == 1 {
                self.touched.entry(*thing).or_insert(false);
            }
        }
    }

    pub(super) fn remove(&mut self, needed: &BTreeSet<T>) {
        for thing in needed {
            let Some(count) = self.counts.get_mut(thing) else { continue };
            *count -= 1;
            if *count == 0 {
                self.counts.remove(thing);
                self.touched.entry(*thing).or_insert(true);
            }
        }
    }

    fn forget_touched(&mut self) {
        self.touched.clear();
    }

    /// Everything that is needed.
    pub(super) fn needed(&self) -> impl Iterator<Item = &T> {
        self.counts.keys()
    }

    /// What appeared (true) or went (false) since the last look. What went and came back did neither.
    pub(super) fn take_touched(&mut self) -> Vec<(T, bool)> {
        let touched = std::mem::take(&mut self.touched).into_iter();
        let now = touched.map(|(thing, was_needed)| (thing, was_needed, self.counts.contains_key(&thing)));
        now.filter(|(_, was_needed, is_needed)| was_needed != is_needed)
            .map(|(thing, _, is_needed)| (thing, is_needed))
            .collect()
    }
}
