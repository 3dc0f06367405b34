//! `nf_tables`: the kernel's packet rules as typed, plain data.
//!
//! In: a [`Transaction`] of [`Table`]s, [`Chain`]s, [`Rule`]s, [`Set`]s and [`Element`]s. Out: all of it
//! in force, or nothing of it and an [`Error`] that names the operation which the kernel refused.
//!
//! | file | what it is for |
//! |---|---|
//! | `value`, `object`, `element`, `rule` | the words: values, objects, rules as closed enums |
//! | `text/` | the same as `nft` prints it |
//! | `compile`, `expression` | a rule as the register program that the kernel runs |
//! | `wire/` | everything as netlink bytes, and back; userdata as nft 1.0.6 writes it |
//! | `transaction`, `batch` | what is to change; its bytes, and which byte belongs to which operation |
//! | `netlink`, `listing`, `listed` | the real thing: [`Netlink`]; what it holds |
//! | `packets` | what the rules of one chain have counted |
//! | `foreign` | rules of other programs, of every family, as one packet meets them |
//! | `iptables_text` | a rule of either kind of table, as the iptables programs print it |
//! | `other_tables` | tables of other programs as chains and rules that can be deleted: [`OtherTables`] |
//! | `monitor`, `probe` | what others change; what this kernel can do |
//!
//! ```
//! use kernel::nft::{Element, Family, Field, Kernel, Operation, Set, Transaction, Value};
//! use kernel_sim::nft::Simulated;
//!
//! let mut transaction = Transaction::new(Family::V4, "example");
//! transaction.replace_table(Some("made by an example".into()));
//! transaction.push(Operation::AddSet(Set::new("ports", &[Field::Port])));
//! transaction.add_elements(&"ports".into(), vec![Element::new(&[Value::Port(80)])]);
//!
//! let mut kernel = Simulated::default(); // or Netlink::open()?, as root
//! kernel.run(&transaction)?;
//! let listed = kernel.list(Family::V4, "example")?.expect("it is there now");
//! assert_eq!(listed.sets["ports"].elements.len(), 1);
//! assert!(transaction.script().contains("typeof th dport;"));
//! # Ok::<(), kernel::nft::Error>(())
//! ```
//!
//! Absent on purpose: Services, and any wish to express all of nftables. A rule that these enums cannot
//! say is a rule that the simulator cannot run and that we do not write.

mod batch;
mod compile;
mod element;
mod error;
mod expression;
pub(crate) mod foreign;
#[cfg(test)]
mod fuzzed;
pub(crate) mod iptables_text;
mod listed;
mod listing;
mod monitor;
mod netlink;
mod object;
mod other_tables;
mod packets;
mod probe;
mod rule;
mod text;
mod transaction;
mod value;
mod wire;

#[cfg(test)]
pub(crate) use fuzzed::{decodes, encoded, hear};

pub use element::{Data, Element, Part};
pub use error::{Error, Result};
pub use expression::{CtKey, DynsetChange, Expression, Found, Header, MetaKey, Register};
pub use foreign::is_present;
pub use listed::{Listed, ListedRule, ListedSet};
pub use monitor::{Event, Monitor, Object};
pub use netlink::Netlink;
pub use object::{
    Chain, ChainKind, Comment, DataFields, Family, Field, Flags, Hook, HookPoint, Name, Policy, Set, Table,
    Verdict,
};
pub use other_tables::{OtherRule, OtherTables};
pub use probe::{MINIMUM_KERNEL, Shortcoming, probe};
pub use rule::{Bits, DnatTo, Match, Pattern, Prefix, PriorityFrom, Reject, Rule, Selector, Side, Statement};
pub use text::family_name;
pub use transaction::{Operation, Transaction};
pub use value::{InterfaceName, Kind, Tuple, Value, wire_size};

use crate::rule_packets::RulePackets;

/// A kernel that holds `nf_tables` objects: this machine's, or a simulated one (`kernel_sim::nft`).
pub trait Kernel {
    /// Applies all operations at once, or none.
    fn run(&mut self, transaction: &Transaction) -> Result<()>;

    /// Asks whether the kernel would apply the transaction. Changes nothing.
    fn check(&mut self, transaction: &Transaction) -> Result<()>;

    /// Everything that the table holds, or `None` if there is no such table.
    fn list(&mut self, family: Family, table: &str) -> Result<Option<Listed>>;

    /// The names and comments of all tables of a family, ours and others'.
    fn tables(&mut self, family: Family) -> Result<Vec<Table>>;

    /// A number that grows with every change, by anybody, of any table.
    fn generation(&mut self) -> Result<u32>;

    /// What the rules of a chain have counted, in order: nothing where there is no such chain. `None`: this kernel counts nothing.
    fn packets(&mut self, _family: Family, _table: &str, _chain: &str) -> Result<Option<Vec<RulePackets>>> {
        Ok(None)
    }
}
