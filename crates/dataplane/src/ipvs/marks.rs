//! Which number the virtual server by mark of a service port has.
//!
//! In: numbers that an earlier life used, as its rules tell them; service ports that need one. Out: a number that is nobody else's,
//! and stays the same as long as it is needed.

use std::collections::{BTreeMap, BTreeSet};

use model::{Family, ServicePortId};

use super::items::Place;
use super::names::{MARKS, MARKS_MAX};

/// The numbers of one life.
#[derive(Clone, Debug, Default)]
pub(super) struct Marks {
    given: BTreeMap<(ServicePortId, Family), u16>,
    taken: BTreeSet<(Family, u16)>,
    /// Of an earlier life: which mark a place had.
    earlier: BTreeMap<Place, u16>,
}

impl Marks {
    /// An earlier life marked these places so.
    pub(super) fn recall(&mut self, earlier: impl IntoIterator<Item = (Place, u32)>) {
        let known = |(place, mark)| Some((place, Self::number(mark)?));
        self.earlier = earlier.into_iter().filter_map(known).collect();
    }

    /// The number of a service port that is dialled at these places; `None` if there is none left.
    pub(super) fn give(&mut self, id: &ServicePortId, family: Family, places: &[Place]) -> Option<u16> {
        let key = (id.clone(), family);
        if let Some(number) = self.given.get(&key) {
            return Some(*number);
        }
        let recalled = places.iter().find_map(|place| self.earlier.get(place).copied());
        let is_free = |number: &u16| !self.taken.contains(&(family, *number));
        let number = recalled.filter(is_free).or_else(|| self.next(family))?;
        self.taken.insert((family, number));
        self.given.insert(key, number);
        Some(number)
    }

    /// The next one after all others: one that was given back just now may still be on packets. Those of an earlier life come last.
    fn next(&self, family: Family) -> Option<u16> {
        let highest = self.taken.range((family, 0)..=(family, MARKS_MAX)).next_back().map_or(0, |(_, n)| *n);
        let earlier: BTreeSet<u16> = self.earlier.values().copied().collect();
        let is_free = |number: &u16| !self.taken.contains(&(family, *number));
        let mut free = (highest + 1..MARKS_MAX).chain(1..=highest).filter(is_free);
        free.clone().find(|number| !earlier.contains(number)).or_else(|| free.next())
    }

    /// A service port needs none any more.
    pub(super) fn take_back(&mut self, id: &ServicePortId, family: Family) {
        if let Some(number) = self.given.remove(&(id.clone(), family)) {
            self.taken.remove(&(family, number));
        }
    }

    /// Only these service ports are left.
    pub(super) fn retain(&mut self, is_there: impl Fn(&ServicePortId) -> bool) {
        self.given.retain(|(id, _), _| is_there(id));
        self.taken = self.given.iter().map(|((_, family), number)| (*family, *number)).collect();
    }

    /// The number of a mark; `None` if it is none of ours.
    pub(super) fn number(mark: u32) -> Option<u16> {
        let number = u16::try_from(mark.checked_sub(MARKS)?).ok()?;
        (1..MARKS_MAX).contains(&number).then_some(number)
    }

    /// The whole mark of a number.
    pub(super) fn mark(number: u16) -> u32 {
        MARKS + u32::from(number)
    }
}

#[cfg(test)]
mod tests {
    use model::{Protocol, ServiceName};

    use super::*;

    fn id(name: &str) -> ServicePortId {
        ServicePortId { service: ServiceName::new("default", name), port: "".into(), protocol: Protocol::Tcp }
    }

    fn place(port: u16) -> Place {
        Place { ip: [192, 168, 0, 1].into(), protocol: kernel::IpProtocol::TCP, port }
    }

    #[test]
    fn a_number_is_one_service_ports_and_comes_back_after_a_restart() {
        let mut marks = Marks::default();
        assert_eq!(marks.give(&id("a"), Family::V4, &[place(1)]), Some(1));
        assert_eq!(marks.give(&id("b"), Family::V4, &[place(2)]), Some(2));
        assert_eq!(marks.give(&id("a"), Family::V4, &[]), Some(1));
        marks.take_back(&id("a"), Family::V4);
        assert_eq!(marks.give(&id("c"), Family::V4, &[place(3)]), Some(3));
        let mut again = Marks::default();
        again.recall([(place(2), MARKS + 2), (place(3), MARKS + 3), (place(9), 0x4000)]);
        assert_eq!(again.give(&id("d"), Family::V4, &[place(4)]), Some(1));
        assert_eq!(again.give(&id("c"), Family::V4, &[place(3)]), Some(3));
        assert_eq!(again.give(&id("b"), Family::V4, &[place(2)]), Some(2));
    }

    #[test]
    fn when_all_numbers_are_given_there_is_none() {
        let mut marks = Marks::default();
        for number in 1..MARKS_MAX {
            assert_eq!(marks.give(&id(&number.to_string()), Family::V6, &[]), Some(number));
        }
        assert_eq!(marks.give(&id("more"), Family::V6, &[]), None);
        assert!(marks.give(&id("more"), Family::V4, &[]).is_some());
        assert_eq!((MARKS + u32::from(MARKS_MAX) - 1) & 0x4000, 0, "no mark has the bit of masquerading");
    }
}
