//! Several simulated kernels that get the same transactions: one for each way in which everything may have come about.

use kernel::nft::{Error, Family, Kernel, Listed, Table, Transaction};
use kernel_sim::nft::Simulated;

use super::mutation::Mutation;

/// The kernels. They differ in nothing but which client was sent where.
#[derive(Clone, Debug)]
pub(crate) struct Worlds {
    pub(crate) kernels: Vec<Simulated>,
    /// What is left out of every transaction, to see whether anybody misses it.
    pub(crate) mutation: Option<Mutation>,
}

impl Default for Worlds {
    fn default() -> Self {
        Self { kernels: vec![Simulated::default()], mutation: None }
    }
}

impl Worlds {
    fn first(&mut self) -> &mut Simulated {
        self.kernels.first_mut().expect("there is always one world")
    }
}

impl Kernel for Worlds {
    fn run(&mut self, transaction: &Transaction) -> Result<(), Error> {
        let mutated = self.mutation.as_mut().map(|mutation| mutation.apply(transaction));
        let transaction = mutated.as_ref().unwrap_or(transaction);
        self.kernels.iter_mut().try_for_each(|kernel| kernel.run(transaction))
    }

    fn check(&mut self, transaction: &Transaction) -> Result<(), Error> {
        self.first().check(transaction)
    }

    fn list(&mut self, family: Family, table: &str) -> Result<Option<Listed>, Error> {
        self.first().list(family, table)
    }

    fn tables(&mut self, family: Family) -> Result<Vec<Table>, Error> {
        self.first().tables(family)
    }

    /// Where a mutation has ended every world, nothing is written any more.
    fn generation(&mut self) -> Result<u32, Error> {
        self.kernels.first_mut().map_or(Ok(0), Kernel::generation)
    }
}
