//! Tables in memory that take restore texts and let packets through as the kernel does.
//!
//! In: a text, carried out as the programs do with `--noflush`: line by line on a copy, which counts only if every line went;
//! or a packet. Out: what a save would print; or where the packet ends.
//!
//! | file | what it is for |
//! |---|---|
//! | `table` | chains and rules of one table |
//! | `command` | one line of a restore text |
//! | `admit` | what the programs or the kernel would refuse |
//! | `save` | the words in which the programs print a rule |
//! | `packet` | the path of a packet through the tables |
//! | `balance` | what IPVS does to a packet on that path |
//! | `run` | rules, executed for one packet |
//! | `recent` | who was seen when |
//! | `sets` | what a packet asks a set |
//! | `ways` | every way in which chance may fall |
//! | `faulty` | a door that fails on command: [`Faulty`] |
//!
//! Absent on purpose: what a rule that stays text does ([`FoundRule::Unknown`](kernel::xtables::FoundRule::Unknown)). It is kept, saved
//! and counted as a reference to the chain that it names, but no packet takes it.

mod admit;
mod balance;
mod command;
mod faulty;
mod packet;
mod recent;
mod run;
mod save;
mod sets;
mod table;
mod ways;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kernel::RulePackets;
use kernel::xtables::{Error, Family, Result, Table, Variant, Xtables};

use crate::{ipset, ipvs};
use command::Place;
use recent::Lists;
use table::SimTable;

pub use faulty::{Fault, Faulty, WHOLE, parts};
pub use ways::Way;

/// What one program would show for one family, and do to a packet.
#[derive(Debug, Clone)]
pub struct Simulated {
    variant: Variant,
    family: Family,
    tables: BTreeMap<Table, Arc<SimTable>>,
    lists: Lists,
    /// How many packets each rule has met, by its handle.
    packets: BTreeMap<u64, u64>,
    /// The sets that its rules ask. Clones of a twin share them.
    pub sets: ipset::Simulated,
    /// The load balancer that takes packets from between the tables, if the kernel has one. Clones of a twin share it.
    pub ipvs: Option<ipvs::Simulated>,
    /// Every text that was carried out.
    pub restored: Vec<String>,
    /// If set, every look fails with it.
    pub save_fault: Option<Error>,
    /// The next restores fail with these, the last one first.
    pub restore_faults: Vec<Error>,
}

impl Simulated {
    /// No table at all.
    pub fn new(variant: Variant, family: Family) -> Self {
        Self {
            variant,
            family,
            tables: BTreeMap::new(),
            lists: Lists::default(),
            packets: BTreeMap::new(),
            sets: ipset::Simulated::default(),
            ipvs: None,
            restored: Vec::new(),
            save_fault: None,
            restore_faults: Vec::new(),
        }
    }

    /// A list that no rule names any more is gone, whoever was in it.
    fn forget_unnamed_lists(&mut self) {
        if self.lists.is_empty() {
            return;
        }
        let named: BTreeSet<&str> = self.tables.values().flat_map(|table| table.lists()).collect();
        self.lists.retain(|list| named.contains(list));
    }
}

impl Xtables for Simulated {
    fn variant(&self) -> Variant {
        self.variant
    }

    fn family(&self) -> Family {
        self.family
    }

    fn save(&mut self, table: Table) -> Result<Option<String>> {
        self.save_fault.clone().map_or(Ok(()), Err)?;
        Ok(self.tables.get(&table).map(|found| save::table(table, found, self.family)))
    }

    fn restore(&mut self, text: &str) -> Result<()> {
        self.restore_faults.pop().map_or(Ok(()), Err)?;
        let program = format!("the simulated {}-restore", self.variant);
        let refused = |line: &str, reason: String| Error::Refused {
            program: program.clone(),
            line: Some(line.to_owned()),
            stderr: reason,
        };
        let mut open: Option<(Table, SimTable)> = None;
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            open = match (line, open) {
                ("COMMIT", Some((name, table))) => {
                    admit::whole(name, &table).map_err(|reason| refused(line, reason))?;
                    let user = format!("{} {} {name}", self.variant, self.family);
                    self.sets
                        .hold(&user, table.sets())
                        .map_err(|missing| refused(line, format!("Set {missing} doesn't exist.")))?;
                    self.tables.insert(name, Arc::new(table));
                    self.forget_unnamed_lists();
                    None
                }
                (line, None) => {
                    let name = table_of(line).ok_or_else(|| refused(line, "no such table".to_owned()))?;
                    let now = self.tables.get(&name).map(|table| SimTable::clone(table));
                    Some((name, now.unwrap_or_else(|| SimTable::new(name))))
                }
                (line, Some((name, mut table))) => {
                    let place = Place { name, family: self.family, sets: &self.sets };
                    command::carry_out(&mut table, &place, line).map_err(|reason| refused(line, reason))?;
                    Some((name, table))
                }
            };
        }
        if open.is_some() {
            return Err(refused("", "COMMIT expected at the end".to_owned()));
        }
        self.restored.push(text.to_owned());
        Ok(())
    }

    fn packets(&mut self, table: Table, chain: &str) -> Result<Option<Vec<RulePackets>>> {
        self.save_fault.clone().map_or(Ok(()), Err)?;
        let chain = self.tables.get(&table).and_then(|table| table.chain(chain));
        let counted = |handle: &u64| {
            let packets = self.packets.get(handle).copied().unwrap_or(0);
            // Legacy rules have no number.
            RulePackets { handle: if self.variant == Variant::Nft { *handle } else { 0 }, packets }
        };
        Ok(Some(chain.into_iter().flat_map(|chain| &chain.handles).map(counted).collect()))
    }
}

fn table_of(line: &str) -> Option<Table> {
    let name = line.strip_prefix('*')?;
    [Table::Nat, Table::Filter, Table::Mangle].into_iter().find(|table| table.name() == name)
}
