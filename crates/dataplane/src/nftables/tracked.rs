//! A kernel of which we know whether anybody else has written to it.
//!
//! The kernel counts transactions. As long as the count is the one after our own last transaction, it holds what we left
//! there, and a full compare need not read 200,000 elements to learn that nothing happened.

use kernel::RulePackets;
use kernel::nft::{Family, Kernel, Listed, Result, Table, Transaction};

/// A kernel, and the count after our last transaction.
#[derive(Clone, Debug)]
pub(super) struct Tracked<K> {
    pub(super) kernel: K,
    /// `None`: somebody else has written since we last looked, or nobody looked yet.
    last: Option<u32>,
}

impl<K: Kernel> Tracked<K> {
    pub(super) fn new(kernel: K) -> Self {
        Self { kernel, last: None }
    }

    /// Is everything as we left it?
    pub(super) fn is_untouched(&mut self) -> bool {
        self.last.is_some() && self.kernel.generation().ok() == self.last
    }

    /// Everything is about to be read: what others wrote before now will be seen.
    pub(super) fn look(&mut self) {
        self.last = self.kernel.generation().ok();
    }
}

impl<K: Kernel> Kernel for Tracked<K> {
    /// Others may write between any two steps here. Then the count has grown by more than our one, and is not believed.
    fn run(&mut self, transaction: &Transaction) -> Result<()> {
        if transaction.is_empty() {
            return Ok(());
        }
        let before = self.kernel.generation().ok();
        self.kernel.run(transaction)?;
        let after = self.kernel.generation().ok();
        let is_ours =
            before.is_some() && before == self.last && after == before.map(|count| count.wrapping_add(1));
        self.last = after.filter(|_| is_ours);
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

    fn packets(&mut self, family: Family, table: &str, chain: &str) -> Result<Option<Vec<RulePackets>>> {
        self.kernel.packets(family, table, chain)
    }
}
