//! What tells chains of our iptables mode from those of upstream's, whose names, rules and comments they share.

use kernel::xtables::Table;

use super::names;

/// Whether our iptables mode alone has a chain of this name. Most of its chains are upstream's, too.
pub(crate) fn is_ours_alone(table: Table, chain: &str) -> bool {
    (table, chain) == (Table::Nat, names::MARK_OUTSIDE)
}
