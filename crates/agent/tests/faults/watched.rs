//! A simulated kernel that remembers how it was after each write: whatever a packet could have met.

use kernel::nft::{Family, Kernel, Listed, Result, Table, Transaction};
use kernel_sim::nft::Simulated;

/// The kernel, its past, and what was written.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watched {
    pub(crate) kernel: Simulated,
    past: Vec<(Simulated, Transaction)>,
}

impl Watched {
    /// A kernel without a past.
    pub(crate) fn new(kernel: Simulated) -> Self {
        Self { kernel, ..Self::default() }
    }

    /// What was before counts no more.
    pub(crate) fn forget(&mut self) {
        self.past.clear();
    }

    /// The states since the last look, each with what led to it.
    pub(crate) fn take_past(&mut self) -> Vec<(Simulated, Transaction)> {
        std::mem::take(&mut self.past)
    }
}

impl Kernel for Watched {
    fn run(&mut self, transaction: &Transaction) -> Result<()> {
        self.kernel.run(transaction)?;
        self.past.push((self.kernel.clone(), transaction.clone()));
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

/// Everything that a kernel holds, in all tables of these families, but for the numbers that it gives to rules.
pub(crate) fn everything(kernel: &mut dyn Kernel, families: &[Family]) -> Vec<Listed> {
    let mut all = Vec::new();
    for family in families.iter().copied() {
        for table in kernel.tables(family).expect("it can be listed") {
            all.extend(kernel.list(family, &table.name).expect("it can be listed"));
        }
    }
    all.iter_mut().flat_map(|listed| listed.rules.values_mut()).flatten().for_each(|rule| rule.handle = 0);
    all
}

/// The same without what packets did.
pub(crate) fn written(kernel: &mut dyn Kernel) -> Vec<Listed> {
    let all = everything(kernel, &Family::ALL).into_iter();
    all.map(dataplane::nftables::sim::comparable).collect()
}
