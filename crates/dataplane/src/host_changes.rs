//! What changes of this host's links and addresses are about.
//!
//! In: changes, in groups. Out: whether the host's own addresses may be others now, and whether something of a mode's may be gone. Either
//! is then read whole, so the many addresses of Services that a mode itself binds must not count as a change of the host.

use std::collections::BTreeSet;

use kernel::host::{Change, Link};

/// What a group of changes may have changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Touched {
    /// The host's own addresses.
    pub is_host: bool,
    /// What a mode keeps on this host.
    pub is_mode: bool,
}

/// Tells them apart.
#[derive(Debug)]
pub struct Touch<R> {
    /// Reads the links of this host.
    links: R,
    /// Interfaces whose addresses are all Services'.
    names: Vec<&'static str>,
    /// Their numbers.
    numbers: BTreeSet<u32>,
}

impl<R: FnMut() -> Vec<Link>> Touch<R> {
    /// `names` are interfaces whose addresses are all Services'.
    pub fn new(names: Vec<&'static str>, links: R) -> Self {
        let mut touch = Self { links, names, numbers: BTreeSet::new() };
        touch.look();
        touch
    }

    /// Takes one more change into a group.
    pub fn take(&mut self, change: Change, group: &mut Touched) {
        match change {
            Change::AddressAdded(link) if self.numbers.contains(&link) => {}
            Change::AddressDeleted(link) if self.numbers.contains(&link) => group.is_mode = true,
            Change::AddressAdded(_) | Change::AddressDeleted(_) => *group = Touched::ALL,
            Change::Links | Change::Lost => {
                self.look();
                *group = Touched::ALL;
            }
        }
    }

    fn look(&mut self) {
        let is_of_services = |link: &Link| self.names.contains(&link.name.as_str());
        self.numbers =
            (self.links)().iter().filter(|link| is_of_services(link)).map(|link| link.index).collect();
    }
}

impl Touched {
    pub const ALL: Self = Self { is_host: true, is_mode: true };
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    const DUMMY: &str = "services0";

    fn link(index: u32, name: &str) -> Link {
        Link { index, name: name.to_owned(), is_up: true, is_loopback: false, is_dummy: name == DUMMY }
    }

    fn told(touch: &mut Touch<impl FnMut() -> Vec<Link>>, changes: &[Change]) -> Touched {
        let mut group = Touched::default();
        for change in changes {
            touch.take(*change, &mut group);
        }
        group
    }

    #[test]
    fn addresses_of_services_do_not_make_the_host_read_anew() {
        let mut touch = Touch::new(vec![DUMMY], || vec![link(2, "eth0"), link(7, DUMMY)]);
        assert_eq!(told(&mut touch, &[Change::AddressAdded(7); 9]), Touched::default());
        let gone = told(&mut touch, &[Change::AddressAdded(7), Change::AddressDeleted(7)]);
        assert_eq!(gone, Touched { is_host: false, is_mode: true });
        for change in [Change::AddressAdded(2), Change::AddressDeleted(2), Change::Links, Change::Lost] {
            assert_eq!(told(&mut touch, &[Change::AddressAdded(7), change]), Touched::ALL, "{change:?}");
        }
    }

    #[test]
    fn an_interface_that_is_made_anew_is_known_by_its_new_number() {
        let number = Cell::new(7);
        let mut touch = Touch::new(vec![DUMMY], || vec![link(number.get(), DUMMY)]);
        number.set(8);
        assert_eq!(told(&mut touch, &[Change::AddressAdded(8)]), Touched::ALL);
        told(&mut touch, &[Change::Links]);
        assert_eq!(told(&mut touch, &[Change::AddressAdded(8)]), Touched::default());
    }
}
