//! Several simulated programs of one family that get the same texts: one for each way in which everything may have come about.

use kernel::xtables::{Family, Result, Table, Variant, Xtables};
use kernel_sim::xtables::Simulated;

use super::mutation::Mutation;

/// The tables of one family. They differ in nothing but which client was seen where.
#[derive(Clone, Debug)]
pub(crate) struct Worlds {
    pub(crate) tables: Vec<Simulated>,
    /// What is left out of every text, to see whether anybody misses it.
    pub(crate) mutation: Option<Mutation>,
}

impl Worlds {
    /// One world, without any table.
    pub(crate) fn new(family: Family, mutation: Option<Mutation>) -> Self {
        Self { tables: vec![Simulated::new(Variant::Nft, family)], mutation }
    }

    fn first(&self) -> &Simulated {
        self.tables.first().expect("there is always one world")
    }
}

impl Xtables for Worlds {
    fn variant(&self) -> Variant {
        self.first().variant()
    }

    fn family(&self) -> Family {
        self.first().family()
    }

    fn save(&mut self, table: Table) -> Result<Option<String>> {
        self.tables.first_mut().map_or(Ok(None), |tables| tables.save(table))
    }

    fn restore(&mut self, text: &str) -> Result<()> {
        let mutated = self.mutation.as_mut().map(|mutation| mutation.apply(text));
        let text = mutated.as_deref().unwrap_or(text);
        self.tables.iter_mut().try_for_each(|tables| {
            // Nobody asks which texts there were, and tables are often copied.
            tables.restored.clear();
            tables.restore(text)
        })
    }
}
