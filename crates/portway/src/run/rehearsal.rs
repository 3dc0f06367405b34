//! A kernel that is read but not written: what would be written is kept instead.

use kernel::nft::{Family, Kernel, Listed, Result, Table, Transaction};

/// A kernel whose transactions are kept and not run.
#[derive(Debug)]
pub struct Rehearsal<K> {
    kernel: K,
    kept: Vec<Transaction>,
}

impl<K: Kernel> Rehearsal<K> {
    /// Reads this kernel.
    pub fn on(kernel: K) -> Self {
        Self { kernel, kept: Vec::new() }
    }

    /// What would have been written, as `nft` reads it.
    pub fn script(&self) -> String {
        self.kept.iter().map(Transaction::script).collect()
    }
}

impl<K: Kernel> Kernel for Rehearsal<K> {
    fn run(&mut self, transaction: &Transaction) -> Result<()> {
        if !transaction.is_empty() {
            self.kept.push(transaction.clone());
        }
        Ok(())
    }

    fn check(&mut self, transaction: &Transaction) -> Result<()> {
        self.kernel.check(transaction)
    }

    fn list(&mut self, family: Family, table: &str) -> Result<Option<Listed>> {
        self.kernel.list(family, table)
    }

    fn tables(&mut self, family: Family) -> Result<Vec<Table>> {
        self.kernel.tables(family)
    }

    fn generation(&mut self) -> Result<u32> {
        self.kernel.generation()
    }
}
