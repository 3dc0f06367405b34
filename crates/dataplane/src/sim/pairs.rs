//! A real kernel and a simulated one side by side, for a mode that writes to both.
//!
//! In: a handle to each. Out: every write goes to both, and both must say the same. What is read comes from the real one.

use std::cell::{RefCell, RefMut};
use std::fmt;
use std::rc::Rc;

use kernel::nft::{self, Kernel, Listed, Netlink, Transaction};
use kernel::xtables::{self, Programs, Variant, Xtables};

use super::Listing;
use crate::Dataplane;
use crate::xtables::Shared;

/// How a mode is opened on pairs.
#[derive(Clone, Copy, Debug)]
pub enum OnPairs {
    /// On one of `nf_tables`.
    Nft {
        open: fn(NftPair) -> Box<dyn Dataplane>,
        /// What a kernel has of this mode, comparable.
        list: fn(&mut dyn Kernel) -> Result<Listing, String>,
    },
    /// On those of an iptables program, one for each family.
    Xtables {
        open: fn(Vec<XtablesPair>) -> Box<dyn Dataplane>,
        /// Chains whose rules have no order.
        shared: &'static [Shared],
    },
}

/// `nf_tables`, real and simulated.
pub type NftPair = Pair<Netlink, kernel_sim::nft::Simulated>;

/// An iptables program of one family, real and simulated.
pub type XtablesPair = Pair<Programs, kernel_sim::xtables::Simulated>;

/// A real kernel and a simulated one. Clones are of the same two.
pub struct Pair<R, S>(Rc<RefCell<Both<R, S>>>);

#[derive(Debug)]
pub struct Both<R, S> {
    pub real: R,
    pub simulated: S,
    /// How much was written.
    pub writes: usize,
}

impl<R, S> Pair<R, S> {
    pub fn new(real: R, simulated: S) -> Self {
        Self(Rc::new(RefCell::new(Both { real, simulated, writes: 0 })))
    }

    pub fn both(&self) -> RefMut<'_, Both<R, S>> {
        self.0.borrow_mut()
    }
}

impl<R, S> Clone for Pair<R, S> {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

impl<R: fmt::Debug, S: fmt::Debug> fmt::Debug for Pair<R, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<R: Kernel, S: Kernel> Kernel for Pair<R, S> {
    fn run(&mut self, transaction: &Transaction) -> Result<(), nft::Error> {
        let both = &mut *self.both();
        both.writes += usize::from(!transaction.is_empty());
        let (real, simulated) = (both.real.run(transaction), both.simulated.run(transaction));
        assert_eq!(
            real.is_ok(),
            simulated.is_ok(),
            "the kernel: {real:?}, simulated: {simulated:?}, {transaction:?}"
        );
        real
    }

    fn check(&mut self, transaction: &Transaction) -> Result<(), nft::Error> {
        self.both().real.check(transaction)
    }

    fn list(&mut self, family: nft::Family, table: &str) -> Result<Option<Listed>, nft::Error> {
        self.both().real.list(family, table)
    }

    fn tables(&mut self, family: nft::Family) -> Result<Vec<nft::Table>, nft::Error> {
        self.both().real.tables(family)
    }

    fn generation(&mut self) -> Result<u32, nft::Error> {
        self.both().real.generation()
    }
}

impl<R: Xtables, S: Xtables> Xtables for Pair<R, S> {
    fn variant(&self) -> Variant {
        self.both().real.variant()
    }

    fn family(&self) -> xtables::Family {
        self.both().real.family()
    }

    fn save(&mut self, table: xtables::Table) -> xtables::Result<Option<String>> {
        self.both().real.save(table)
    }

    fn restore(&mut self, text: &str) -> xtables::Result<()> {
        let both = &mut *self.both();
        both.writes += 1;
        let (real, simulated) = (both.real.restore(text), both.simulated.restore(text));
        assert_eq!(
            real.is_ok(),
            simulated.is_ok(),
            "the program: {real:?}, simulated: {simulated:?}, {text}"
        );
        real
    }
}
