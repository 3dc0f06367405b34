//! The rules as `iptables-restore --noflush` reads them.
//!
//! In: rendered tables. Out: text: for each table its chains, emptied by being named, then their rules, then `COMMIT`.

use std::fmt::Write;

use kernel::xtables::Table;
use model::{Family, ForwardingTable};

use super::Style;
use super::words::{Chain, Tables};

/// Upstream's order, then the table that has nothing but the canary.
const TABLES: [Table; 3] = [Table::Filter, Table::Nat, Table::Mangle];

/// Everything of one family as text, the jumps too: what a first sync writes into a kernel that has nothing of ours.
///
/// `iptables-restore --noflush` takes it for IPv4, `ip6tables-restore --noflush` for IPv6.
pub(crate) fn render<S: Style>(style: &S, desired: &ForwardingTable, family: Family) -> String {
    let ports = desired.ports().map(|port| &**port);
    let tables = Tables::assemble::<S>(family, &style.renderer(desired, family), ports);
    let mut text = format!("# {family}, for {} --noflush\n", program(family));
    for table in TABLES {
        write_table(&mut text, &tables, table, true);
    }
    text
}

impl Tables {
    /// All chains as text, without the jumps that lead into them: others have rules beside those.
    pub fn restore_text(&self) -> String {
        let mut text = String::new();
        for table in TABLES {
            write_table(&mut text, self, table, false);
        }
        text
    }
}

fn write_table(text: &mut String, tables: &Tables, table: Table, with_jumps: bool) {
    line(text, format_args!("*{table}"));
    let chains = tables.chains(table);
    for chain in chains {
        line(text, format_args!(":{} - [0:0]", chain.name));
    }
    for chain in chains {
        write_rules(text, chain);
    }
    for jump in tables.jumps.iter().filter(|jump| with_jumps && jump.table == table) {
        line(text, format_args!("{} {} {}", jump.place.option(), jump.from, jump.rule));
    }
    line(text, format_args!("COMMIT"));
}

fn write_rules(text: &mut String, chain: &Chain) {
    for rule in &chain.rules {
        line(text, format_args!("-A {} {rule}", chain.name));
    }
}

fn line(text: &mut String, words: std::fmt::Arguments<'_>) {
    writeln!(text, "{words}").expect("a String takes everything");
}

fn program(family: Family) -> &'static str {
    match family {
        Family::V4 => "iptables-restore",
        Family::V6 => "ip6tables-restore",
    }
}
