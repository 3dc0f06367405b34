//! How many rules there are, by table, kept up as service ports come and go.

use kernel::xtables::Table;
use model::Family;

use super::script::Script;
use super::words::Base;
use super::written::Written;
use crate::{RuleCount, Synced};

/// The tables whose rules are counted, as upstream does.
const COUNTED: [Table; 2] = [Table::Filter, Table::Nat];

/// The rules of service ports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    filter: usize,
    nat: usize,
}

impl Tally {
    pub(super) fn add(&mut self, written: &Written) {
        self.filter += written.rules(Table::Filter);
        self.nat += written.rules(Table::Nat);
    }

    pub(super) fn remove(&mut self, written: &Written) {
        self.filter -= written.rules(Table::Filter);
        self.nat -= written.rules(Table::Nat);
    }

    /// How many there are in a table, without those of the base.
    pub(super) fn of(self, table: Table) -> usize {
        match table {
            Table::Filter => self.filter,
            Table::Nat => self.nat,
            Table::Mangle => 0,
        }
    }

    /// Tells how many there are, with those of the base.
    pub(super) fn tell(self, base: &Base, family: Family, synced: &mut Synced) {
        let jumps = |table| base.jumps.iter().filter(|jump| jump.table == table).count();
        let chains = base.filter.iter().map(|chain| chain.rules.len()).sum::<usize>();
        count(family, Table::Filter, synced).total = self.filter + chains + jumps(Table::Filter);
        let chains = base.nat.iter().map(|chain| chain.rules.len()).sum::<usize>();
        let nat = self.nat + chains + base.last.len() + jumps(Table::Nat);
        count(family, Table::Nat, synced).total = nat;
    }
}

/// Tells how many were written.
pub(super) fn tell_written(script: &Script, family: Family, synced: &mut Synced) {
    for table in COUNTED {
        count(family, table, synced).written += script.rules(table);
    }
}

fn count(family: Family, table: Table, synced: &mut Synced) -> &mut RuleCount {
    synced.rules.entry((family, table.name())).or_default()
}
