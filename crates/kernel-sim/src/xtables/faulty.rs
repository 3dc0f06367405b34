//! A door that fails on command: a layer in front of the real programs or of their twin.
//!
//! In: a script that says which restore or which look goes wrong, and how. Out: the answers of the door below, and the scripted
//! ones. Both are counted from 0. One text may hold several tables, and each `COMMIT` is in force by itself: so a fault says
//! how many of them still came through.
//!
//! ```
//! use kernel::xtables::{Error, Family, Table, Variant, Xtables};
//! use kernel_sim::xtables::{Fault, Faulty, Simulated};
//!
//! let mut door = Faulty::new(Simulated::new(Variant::Nft, Family::V4));
//! let error = Error::Locked { program: "iptables-restore".into(), stderr: String::new() };
//! door.on_restore(0, Fault { parts: 1, answer: Some(error) });
//! let text = "*filter\n:MINE - [0:0]\nCOMMIT\n*nat\n:MINE - [0:0]\nCOMMIT\n";
//! assert!(door.restore(text).unwrap_err().retry_helps());
//! assert!(door.save(Table::Filter).unwrap().is_some());
//! assert!(door.save(Table::Nat).unwrap().is_none());
//! ```
//!
//! Absent on purpose: chance. A test that wants it draws the script.

use std::collections::BTreeMap;

use kernel::RulePackets;
use kernel::xtables::{Error, Family, Result, Table, Variant, Xtables};

/// All parts of a text.
pub const WHOLE: usize = usize::MAX;

/// What goes wrong with a restore.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// So many parts of the text, each up to its `COMMIT`, are in force; [`WHOLE`] if it is only the answer that is lost.
    pub parts: usize,
    /// What is heard then. `None` if nobody is there to hear it: the process was stopped.
    pub answer: Option<Error>,
}

/// A door that fails on command.
#[derive(Clone, Debug)]
pub struct Faulty<X> {
    door: X,
    on_restore: BTreeMap<usize, Fault>,
    on_save: BTreeMap<usize, Error>,
    restores: usize,
    saves: usize,
    struck: usize,
    is_dead: bool,
}

impl<X> Faulty<X> {
    /// A door that does not fail yet.
    pub fn new(door: X) -> Self {
        let (on_restore, on_save) = (BTreeMap::new(), BTreeMap::new());
        Self { door, on_restore, on_save, restores: 0, saves: 0, struck: 0, is_dead: false }
    }

    /// The n-th restore from now on goes wrong so.
    pub fn on_restore(&mut self, n: usize, fault: Fault) {
        self.on_restore.insert(self.restores + n, fault);
    }

    /// The n-th look from now on fails so.
    pub fn on_save(&mut self, n: usize, error: Error) {
        self.on_save.insert(self.saves + n, error);
    }

    /// How many restores were asked for, those that failed included.
    pub fn restores(&self) -> usize {
        self.restores
    }

    /// How many looks were asked for.
    pub fn saves(&self) -> usize {
        self.saves
    }

    /// How often something went wrong.
    pub fn struck(&self) -> usize {
        self.struck
    }

    /// Was the process stopped? Then nothing reaches the door any more, and whoever asks has no business to go on.
    pub fn is_dead(&self) -> bool {
        self.is_dead
    }

    /// The door below.
    pub fn below(&mut self) -> &mut X {
        &mut self.door
    }
}

impl<X: Xtables> Faulty<X> {
    fn go_wrong(&mut self, fault: Fault, text: &str) -> Result<()> {
        self.struck += 1;
        let applied: String = parts(text).take(fault.parts).collect();
        if !applied.is_empty() {
            self.door.restore(&applied)?;
        }
        self.is_dead = fault.answer.is_none();
        Err(fault.answer.unwrap_or_else(dead))
    }
}

impl<X: Xtables> Xtables for Faulty<X> {
    fn variant(&self) -> Variant {
        self.door.variant()
    }

    fn family(&self) -> Family {
        self.door.family()
    }

    fn save(&mut self, table: Table) -> Result<Option<String>> {
        if self.is_dead {
            return Err(dead());
        }
        self.saves += 1;
        if let Some(error) = self.on_save.remove(&(self.saves - 1)) {
            self.struck += 1;
            return Err(error);
        }
        self.door.save(table)
    }

    fn restore(&mut self, text: &str) -> Result<()> {
        if self.is_dead {
            return Err(dead());
        }
        self.restores += 1;
        match self.on_restore.remove(&(self.restores - 1)) {
            Some(fault) => self.go_wrong(fault, text),
            None => self.door.restore(text),
        }
    }

    fn packets(&mut self, table: Table, chain: &str) -> Result<Option<Vec<RulePackets>>> {
        if self.is_dead {
            return Err(dead());
        }
        self.door.packets(table, chain)
    }
}

/// The parts of a text that come into force one after the other.
pub fn parts(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive("COMMIT\n")
}

fn dead() -> Error {
    Error::NotStarted { program: "iptables".to_owned(), reason: "the process was stopped".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xtables::Simulated;

    const TEXT: &str = "*filter\n:A - [0:0]\nCOMMIT\n*nat\n:A - [0:0]\nCOMMIT\n*mangle\n:A - [0:0]\nCOMMIT\n";

    fn door() -> Faulty<Simulated> {
        Faulty::new(Simulated::new(Variant::Legacy, Family::V6))
    }

    fn tables(door: &mut Faulty<Simulated>) -> Vec<Table> {
        let all = [Table::Filter, Table::Nat, Table::Mangle];
        all.into_iter().filter(|table| door.below().save(*table).unwrap().is_some()).collect()
    }

    #[test]
    fn so_many_parts_are_in_force_as_was_said() {
        let all = [Table::Filter, Table::Nat, Table::Mangle];
        for count in 0..=3 {
            for answer in [None, Some(Error::Missing { program: "x".to_owned() })] {
                let mut door = door();
                door.on_restore(0, Fault { parts: count, answer: answer.clone() });
                let error = door.restore(TEXT).unwrap_err();
                assert_eq!(error, answer.clone().unwrap_or_else(dead));
                assert_eq!(tables(&mut door), all[..count]);
                assert_eq!((door.is_dead(), door.struck()), (answer.is_none(), 1));
            }
        }
    }

    #[test]
    fn a_lost_answer_leaves_all_in_force_and_the_next_one_is_heard() {
        let mut door = door();
        door.on_restore(1, Fault { parts: WHOLE, answer: Some(dead()) });
        assert!(door.restore("*nat\nCOMMIT\n").is_ok());
        assert!(door.restore(TEXT).is_err());
        assert_eq!(tables(&mut door).len(), 3);
        assert!(door.restore(TEXT).is_ok());
        assert_eq!(door.restores(), 3);
    }

    #[test]
    fn the_dead_ask_nothing() {
        let mut door = door();
        door.on_restore(0, Fault { parts: 0, answer: None });
        assert!(door.restore(TEXT).is_err() && door.save(Table::Nat).is_err() && door.restore(TEXT).is_err());
        assert!(tables(&mut door).is_empty());
    }

    #[test]
    fn looks_fail_when_told() {
        let mut door = door();
        door.on_save(1, dead());
        assert!(door.save(Table::Nat).is_ok() && door.save(Table::Nat).is_err());
        assert!(door.save(Table::Nat).is_ok());
        assert_eq!(door.saves(), 3);
    }
}
