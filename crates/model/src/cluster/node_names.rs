//! Names of nodes, each with a number of two bytes: every endpoint has one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The number of an endpoint whose node is not known.
pub(super) const NO_NODE: u16 = u16::MAX;

#[derive(Debug, Default)]
pub(super) struct NodeNames {
    names: Vec<Option<Arc<str>>>,
    numbers: BTreeMap<Arc<str>, u16>,
    free: Vec<u16>,
}

impl NodeNames {
    /// The number of this name. [`NO_NODE`] for none, and when all numbers are taken.
    pub(super) fn number(&mut self, name: Option<&Arc<str>>) -> u16 {
        let Some(name) = name else { return NO_NODE };
        if let Some(known) = self.numbers.get(name) {
            return *known;
        }
        let Some(number) = self.free.pop().or_else(|| self.next()) else { return NO_NODE };
        self.names[usize::from(number)] = Some(Arc::clone(name));
        self.numbers.insert(Arc::clone(name), number);
        number
    }

    pub(super) fn name(&self, number: u16) -> Option<&Arc<str>> {
        self.names.get(usize::from(number))?.as_ref()
    }

    /// Are all numbers taken? Then [`Self::keep`] frees those of nodes that are long gone.
    pub(super) fn is_full(&self) -> bool {
        self.numbers.len() >= usize::from(NO_NODE)
    }

    /// Keeps these numbers, and frees all others.
    pub(super) fn keep(&mut self, used: &BTreeSet<u16>) {
        self.numbers.retain(|_, number| used.contains(number));
        self.free.clear();
        for (number, name) in (0..NO_NODE).zip(&mut self.names).filter(|(number, _)| !used.contains(number)) {
            *name = None;
            self.free.push(number);
        }
    }

    fn next(&mut self) -> Option<u16> {
        let number = u16::try_from(self.names.len()).ok().filter(|number| *number != NO_NODE)?;
        self.names.push(None);
        Some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_nodes_that_are_gone_are_given_again() {
        let mut names = NodeNames::default();
        let name = |n: u32| Arc::from(format!("node-{n}"));
        for n in 0..u32::from(NO_NODE) {
            assert_eq!(u32::from(names.number(Some(&name(n)))), n);
        }
        assert!(names.is_full());
        assert_eq!(names.number(Some(&name(70_000))), NO_NODE);
        names.keep(&BTreeSet::from([7]));
        let number = names.number(Some(&name(70_000)));
        assert_eq!((names.name(number), names.name(7)), (Some(&name(70_000)), Some(&name(7))));
        assert_ne!(number, 7);
    }
}
