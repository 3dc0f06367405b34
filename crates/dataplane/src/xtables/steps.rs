//! Many changes, in pieces: the nft-backed program takes the square of the lines of one text.
//!
//! In: what each service port needs. Out: scripts, one after the other; a single one where that is not too long.
//!
//! No packet meets half a service between them. Ahead come chains that nothing leads to yet, and chains that are led to as before,
//! all of a service port in one piece; then, at once, all that leads to other chains than before; behind it go chains that nothing leads
//! to any more.

use kernel::xtables::{ChainName, Table};

use super::script::Script;

/// The scripts of one sync.
#[derive(Debug)]
pub(super) struct Steps {
    most: usize,
    ahead: Vec<Script>,
    pub(super) at_once: Script,
    behind: Script,
}

impl Steps {
    /// One script has about so many lines at most, as far as that can be.
    pub(super) fn new(most: usize) -> Self {
        Self { most, ahead: vec![Script::default()], at_once: Script::default(), behind: Script::default() }
    }

    /// Where a chain is written that nothing leads to yet, or that is led to as before.
    pub(super) fn ahead(&mut self) -> &mut Script {
        let last = self.ahead.len() - 1;
        &mut self.ahead[last]
    }

    /// What follows is another service port's.
    pub(super) fn next_port(&mut self) {
        if self.ahead().lines() >= self.most {
            self.ahead.push(Script::default());
        }
    }

    /// A chain of `nat` goes, after all else.
    pub(super) fn delete(&mut self, name: ChainName) {
        self.behind.delete(Table::Nat, name);
    }

    /// All of it, in order.
    pub(super) fn scripts(self) -> Vec<Script> {
        let lines = |scripts: &[Script]| scripts.iter().map(Script::lines).sum::<usize>();
        if lines(&self.ahead) + self.at_once.lines() + self.behind.lines() > self.most {
            let behind = self.behind.pieces(self.most);
            return self.ahead.into_iter().chain([self.at_once]).chain(behind).collect();
        }
        let mut all = Script::default();
        self.ahead.into_iter().chain([self.at_once, self.behind]).for_each(|script| all.append(script));
        vec![all]
    }
}
