//! A kernel that fails on command: a layer in front of the real one or of its twin.
//!
//! In: a script that says which write, which listing or which question for the generation goes wrong, and how. Out: the
//! answers of the kernel below, and the scripted ones. Writes are counted from 0, without those that have nothing to write.
//!
//! ```
//! use kernel::nft::{Family, Kernel, Operation, Transaction};
//! use kernel_sim::nft::{Answer, Fault, Faulty, Simulated};
//!
//! let mut kernel = Faulty::new(Simulated::default());
//! kernel.on_write(1, Fault::Refuse(Answer::operation(0, libc::EBUSY)));
//! let mut transaction = Transaction::new(Family::V4, "example");
//! transaction.push(Operation::AddTable(None));
//! assert!(kernel.run(&transaction).is_ok());
//! assert!(kernel.run(&transaction).unwrap_err().retry_helps());
//! assert!(kernel.run(&transaction).is_ok());
//! assert_eq!(kernel.writes(), 3);
//! ```
//!
//! Absent on purpose: chance. A test that wants it draws the script.

use std::collections::BTreeMap;

use kernel::RulePackets;
use kernel::netlink::{self, Errno};
use kernel::nft::{Error, Family, Kernel, Listed, Operation, Result, Table, Transaction};

use super::faulty_answers::{Answer, Hated};

/// No set of anybody has this name.
const NO_SUCH_SET: &str = "no-such-set-of-anybody";

/// What goes wrong with a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is answered so, and nothing of it is applied.
    Refuse(Answer),
    /// The same, and so is every later write that adds the same element or has the same operation, until
    /// [`Faulty::heal`].
    RefuseForGood(Answer),
    /// It is applied, and the answer is lost on the way: this one is heard instead.
    LoseAnswer(Answer),
    /// Something impossible is added to it, so that the kernel below refuses it itself.
    Spoil,
    /// The process is stopped just before it.
    DieBefore,
    /// The process is stopped just after it.
    DieAfter,
}

/// A kernel that fails on command.
#[derive(Clone, Debug)]
pub struct Faulty<K> {
    kernel: K,
    on_write: BTreeMap<usize, Fault>,
    on_listing: BTreeMap<usize, Error>,
    on_generation: BTreeMap<usize, Error>,
    hated: Vec<Hated>,
    writes: usize,
    listings: usize,
    generations: usize,
    struck: usize,
    is_dead: bool,
}

impl<K> Faulty<K> {
    /// A kernel that does not fail yet.
    pub fn new(kernel: K) -> Self {
        Self {
            kernel,
            on_write: BTreeMap::new(),
            on_listing: BTreeMap::new(),
            on_generation: BTreeMap::new(),
            hated: Vec::new(),
            writes: 0,
            listings: 0,
            generations: 0,
            struck: 0,
            is_dead: false,
        }
    }

    /// The n-th write from now on goes wrong so.
    pub fn on_write(&mut self, n: usize, fault: Fault) {
        self.on_write.insert(self.writes + n, fault);
    }

    /// The n-th listing from now on, of a table or of the names of all, fails so.
    pub fn on_listing(&mut self, n: usize, error: Error) {
        self.on_listing.insert(self.listings + n, error);
    }

    /// The n-th question from now on for the generation fails so.
    pub fn on_generation(&mut self, n: usize, error: Error) {
        self.on_generation.insert(self.generations + n, error);
    }

    /// Nothing goes wrong any more. Who is dead stays dead.
    pub fn heal(&mut self) {
        self.on_write.clear();
        self.on_listing.clear();
        self.on_generation.clear();
        self.hated.clear();
    }

    /// How many writes were asked for, those that failed included.
    pub fn writes(&self) -> usize {
        self.writes
    }

    /// How many listings were asked for.
    pub fn listings(&self) -> usize {
        self.listings
    }

    /// How often the generation was asked for.
    pub fn generations(&self) -> usize {
        self.generations
    }

    /// How often something went wrong.
    pub fn struck(&self) -> usize {
        self.struck
    }

    /// Was the process stopped? Then nothing reaches the kernel any more, and whoever asks has no business to go on.
    pub fn is_dead(&self) -> bool {
        self.is_dead
    }

    /// The kernel below.
    pub fn below(&mut self) -> &mut K {
        &mut self.kernel
    }

    /// The kernel below, which outlives the process.
    pub fn into_below(self) -> K {
        self.kernel
    }

    fn die(&mut self) -> Error {
        self.is_dead = true;
        dead()
    }

    fn strike(&mut self, error: Option<Error>) -> Result<()> {
        self.struck += usize::from(error.is_some());
        error.map_or(Ok(()), Err)
    }

    fn is_hated(&self, transaction: &Transaction) -> Option<Error> {
        self.hated.iter().find_map(|hated| hated.refuses(transaction))
    }
}

impl<K: Kernel> Faulty<K> {
    fn go_wrong(&mut self, fault: &Fault, transaction: &Transaction) -> Result<()> {
        self.struck += 1;
        match fault {
            Fault::Refuse(answer) => Err(answer.to(transaction)),
            Fault::RefuseForGood(answer) => {
                self.hated.push(Hated::of(answer, transaction));
                Err(answer.to(transaction))
            }
            Fault::LoseAnswer(answer) => {
                self.kernel.run(transaction)?;
                Err(answer.to(transaction))
            }
            Fault::Spoil => {
                // At the end, so that the kernel names none of the operations before it.
                let mut spoiled = transaction.clone();
                spoiled.push(Operation::DeleteSet(NO_SUCH_SET.into()));
                self.kernel.run(&spoiled)
            }
            Fault::DieBefore => Err(self.die()),
            Fault::DieAfter => {
                // Whatever is answered, nobody is there to hear it.
                let _ = self.kernel.run(transaction);
                Err(self.die())
            }
        }
    }

    fn listing(&mut self) -> Result<()> {
        if self.is_dead {
            return Err(dead());
        }
        self.listings += 1;
        let error = self.on_listing.remove(&(self.listings - 1));
        self.strike(error)
    }
}

impl<K: Kernel> Kernel for Faulty<K> {
    fn run(&mut self, transaction: &Transaction) -> Result<()> {
        if transaction.is_empty() {
            return Ok(());
        }
        if self.is_dead {
            return Err(dead());
        }
        self.writes += 1;
        if let Some(fault) = self.on_write.remove(&(self.writes - 1)) {
            return self.go_wrong(&fault, transaction);
        }
        let hated = self.is_hated(transaction);
        self.strike(hated)?;
        self.kernel.run(transaction)
    }

    fn check(&mut self, transaction: &Transaction) -> Result<()> {
        if self.is_dead {
            return Err(dead());
        }
        self.kernel.check(transaction)
    }

    fn list(&mut self, family: Family, table: &str) -> Result<Option<Listed>> {
        self.listing()?;
        self.kernel.list(family, table)
    }

    fn tables(&mut self, family: Family) -> Result<Vec<Table>> {
        self.listing()?;
        self.kernel.tables(family)
    }

    fn generation(&mut self) -> Result<u32> {
        if self.is_dead {
            return Err(dead());
        }
        self.generations += 1;
        let error = self.on_generation.remove(&(self.generations - 1));
        self.strike(error)?;
        self.kernel.generation()
    }

    fn packets(&mut self, family: Family, table: &str, chain: &str) -> Result<Option<Vec<RulePackets>>> {
        if self.is_dead {
            return Err(dead());
        }
        self.kernel.packets(family, table, chain)
    }
}

fn dead() -> Error {
    netlink::Error::System { action: "the process was stopped", errno: Errno(libc::ESRCH) }.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nft::Simulated;
    use kernel::nft::{Element, Field, Set, Value};

    fn with_ports(ports: &[u16]) -> Transaction {
        let mut transaction = Transaction::new(Family::V4, "t");
        transaction.push(Operation::AddTable(None));
        transaction.push(Operation::AddSet(Set::new("ports", &[Field::Port])));
        let elements = ports.iter().map(|port| Element::new(&[Value::Port(*port)])).collect();
        transaction.add_elements(&"ports".into(), elements);
        transaction
    }

    fn ports(kernel: &mut Faulty<Simulated>) -> usize {
        let listed = kernel.below().list(Family::V4, "t").unwrap();
        listed.map_or(0, |listed| listed.sets["ports"].elements.len())
    }

    #[test]
    fn a_lost_answer_is_applied_and_a_refusal_is_not() {
        let mut kernel = Faulty::new(Simulated::default());
        kernel.on_write(0, Fault::LoseAnswer(Answer::Error(Error::Overrun)));
        kernel.on_write(1, Fault::Refuse(Answer::silence()));
        assert_eq!(kernel.run(&with_ports(&[80])), Err(Error::Overrun));
        assert!(kernel.run(&with_ports(&[80, 81])).is_err());
        assert_eq!((ports(&mut kernel), kernel.struck()), (1, 2));
    }

    #[test]
    fn what_is_refused_for_good_is_refused_wherever_it_stands() {
        let mut kernel = Faulty::new(Simulated::default());
        kernel.on_write(0, Fault::RefuseForGood(Answer::element(2, 1, libc::EINVAL)));
        assert!(kernel.run(&with_ports(&[80, 81])).is_err());
        assert!(kernel.run(&with_ports(&[80])).is_ok());
        let Err(Error::Refused { index, element, .. }) = kernel.run(&with_ports(&[82, 83, 81])) else {
            panic!("it went through")
        };
        assert_eq!((index, element), (2, Some(2)));
        kernel.heal();
        assert!(kernel.run(&with_ports(&[82, 83, 81])).is_ok());
    }

    #[test]
    fn the_kernel_itself_refuses_what_was_spoiled() {
        let mut kernel = Faulty::new(Simulated::default());
        kernel.on_write(0, Fault::Spoil);
        let error = kernel.run(&with_ports(&[80])).unwrap_err();
        assert!(matches!(error, Error::Refused { index: 3, .. }), "{error:?}");
        assert_eq!(ports(&mut kernel), 0);
    }

    #[test]
    fn the_dead_ask_nothing_and_the_kernel_outlives_them() {
        for (fault, left) in [(Fault::DieBefore, 0), (Fault::DieAfter, 1)] {
            let mut kernel = Faulty::new(Simulated::default());
            kernel.on_write(0, fault);
            assert!(kernel.run(&with_ports(&[80])).is_err() && kernel.is_dead());
            kernel.heal();
            assert!(kernel.run(&with_ports(&[81])).is_err() && kernel.generation().is_err());
            assert!(kernel.list(Family::V4, "t").is_err() && kernel.tables(Family::V4).is_err());
            assert_eq!(ports(&mut kernel), left);
        }
    }

    #[test]
    fn listings_and_the_generation_fail_when_told() {
        let mut kernel = Faulty::new(Simulated::default());
        kernel.on_listing(1, Error::Raced);
        kernel.on_generation(0, Error::NotPermitted);
        assert!(kernel.tables(Family::V4).is_ok());
        assert_eq!(kernel.list(Family::V4, "t"), Err(Error::Raced));
        assert_eq!(kernel.generation(), Err(Error::NotPermitted));
        assert_eq!(kernel.generation(), Ok(0));
    }
}
