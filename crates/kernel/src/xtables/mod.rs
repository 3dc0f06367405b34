//! The iptables programs: the tables of `iptables-nft` and of `iptables-legacy`, read and written as their text.
//!
//! In: which [`Table`], or a text as `iptables-restore` reads it. Out: the text that `iptables-save` prints; or all of one
//! table's part of the text in force, or nothing of it and an [`Error`] that quotes what the program said.
//!
//! | file | what it is for |
//! |---|---|
//! | `programs` | the real thing: [`Programs`], found on the `PATH` |
//! | `legacy` | which chains are in legacy tables, for those who may not start their programs: [`Legacy`] |
//! | `legacy_rules` | the rules in legacy tables on the forward hook, without their programs |
//! | `legacy_packets` | what the rules of one chain of a legacy table have counted |
//! | `nft_tables`, `legacy_tables` | the tables without their program: [`NftTables`], [`LegacyTables`] |
//! | `orders` | which chains and rules a restore text removes |
//! | `legacy_removal` | the entries of a legacy table without some of its rules and chains |
//! | `process` | one program, run to its end or to its time limit; input by stdin, no shell |
//! | `rule` | one rule as types: [`Rule`], [`Match`], [`Target`], printed as restore text |
//! | `parse` | the same from text: [`FoundTable`], [`FoundRule`]; what types cannot say stays text |
//! | `saved` | the text of one table, taken apart: [`Saved`], [`words`] |
//! | `error` | why it did not go, in a sentence |
//!
//! There are two programs since iptables 1.8, with tables of their own in the kernel, both in force at once: the legacy one
//! speaks to `x_tables`, the newer one to `nf_tables`. So a machine has up to four doors, two for each family.
//!
//! Looking changes nothing. `iptables-legacy-save` makes the kernel create a table that nobody has used, with its hooks, so
//! tables that `/proc/net/ip_tables_names` does not name are never asked for.
//!
//! Absent on purpose: the `iptables` program, one process for each rule; and any opinion of a rule.

mod error;
mod legacy;
mod legacy_packets;
mod legacy_removal;
pub(crate) mod legacy_rules;
mod legacy_tables;
mod nft_tables;
mod orders;
mod parse;
mod process;
mod programs;
mod rule;
mod saved;

use std::fmt;

pub use model::Family;

use crate::rule_packets::RulePackets;

pub use error::{Error, Result};
pub use legacy::Legacy;
pub use legacy_tables::LegacyTables;
pub use nft_tables::NftTables;
pub use parse::{FoundChain, FoundRule, FoundTable};
pub use programs::{Found, Programs, legacy_tables};
pub use rule::is_target;
pub use rule::{ChainName, Is, Match, Probability, Recent, Rule, SetName, Side, State, Target};
pub use saved::{Saved, SavedChain, words};

/// The tables of one program and one family.
pub trait Xtables {
    /// Which program.
    fn variant(&self) -> Variant;

    /// Which family.
    fn family(&self) -> Family;

    /// The table as text, without counters. `None` if the kernel has no such table, and asking does not make it.
    fn save(&mut self, table: Table) -> Result<Option<String>>;

    /// Carries out a text: `*TABLE`, lines, `COMMIT`. Each table changes at once or not at all; what the text does not name
    /// stays as it is, except that a chain which it declares (`:CHAIN`) is emptied.
    fn restore(&mut self, text: &str) -> Result<()>;

    /// What the rules of a chain have counted, in order: nothing where there is no such chain. `None`: nobody counts here. The cost grows
    /// with the table where the program is legacy, and with the chain where it is not.
    fn packets(&mut self, _table: Table, _chain: &str) -> Result<Option<Vec<RulePackets>>> {
        Ok(None)
    }
}

/// Which of the two programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Variant {
    /// Its tables are of `nf_tables`.
    Nft,
    /// Its tables are of `x_tables`.
    Legacy,
}

impl Variant {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Nft, Self::Legacy];
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nft => "iptables-nft",
            Self::Legacy => "iptables-legacy",
        })
    }
}

/// How the names of a family's programs begin.
pub fn program(family: Family) -> &'static str {
    match family {
        Family::V4 => "iptables",
        Family::V6 => "ip6tables",
    }
}

/// A table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Table {
    /// Addresses are translated here.
    Nat,
    /// Packets are let through or refused here.
    Filter,
    /// Packets are marked here.
    Mangle,
}

impl Table {
    /// As the programs call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nat => "nat",
            Self::Filter => "filter",
            Self::Mangle => "mangle",
        }
    }

    /// The chains that it always has.
    pub fn own_chains(self) -> &'static [&'static str] {
        match self {
            Self::Nat => &["PREROUTING", "INPUT", "OUTPUT", "POSTROUTING"],
            Self::Filter => &["INPUT", "FORWARD", "OUTPUT"],
            Self::Mangle => &["PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"],
        }
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
