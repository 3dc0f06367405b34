//! What a restore text removes, for those who carry it out without the program.
//!
//! In: a text for `iptables-restore --noflush`. Out: for each table of it the chains to be emptied, the rules to be deleted, and the
//! chains to be deleted. A text that adds something is refused: only the programs know how a rule is written.

use super::error::{Error, Result};
use super::{Table, Variant};

/// What is removed from one table.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Orders<'a> {
    pub(super) table: Table,
    /// These chains lose their rules.
    pub(super) emptied: Vec<&'a str>,
    /// These rules go: chain and text.
    pub(super) rules: Vec<(&'a str, &'a str)>,
    /// These chains go.
    pub(super) deleted: Vec<&'a str>,
}

/// Takes a text apart.
pub(super) fn parse(variant: Variant, text: &str) -> Result<Vec<Orders<'_>>> {
    let mut done = Vec::new();
    let mut begun: Option<Orders<'_>> = None;
    for line in text.lines() {
        let orders = begun.as_mut();
        match (orders, line) {
            (None, line) => begun = Some(Orders::of(line).ok_or_else(|| needs_program(variant))?),
            (Some(_), "COMMIT") => done.extend(begun.take()),
            (Some(orders), line) => orders.add(line).ok_or_else(|| needs_program(variant))?,
        }
    }
    Ok(done)
}

impl<'a> Orders<'a> {
    fn of(line: &str) -> Option<Self> {
        let name = line.strip_prefix('*')?;
        let table =
            [Table::Nat, Table::Filter, Table::Mangle].into_iter().find(|table| table.name() == name)?;
        Some(Self { table, emptied: Vec::new(), rules: Vec::new(), deleted: Vec::new() })
    }

    fn add(&mut self, line: &'a str) -> Option<()> {
        if let Some(declared) = line.strip_prefix(':') {
            self.emptied.push(declared.strip_suffix(" - [0:0]")?);
        } else if let Some(rule) = line.strip_prefix("-D ") {
            self.rules.push(rule.split_once(' ')?);
        } else {
            self.deleted.push(line.strip_prefix("-X ")?);
        }
        Some(())
    }
}

fn needs_program(variant: Variant) -> Error {
    Error::Missing { program: format!("{variant}-restore") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removals_are_understood_and_additions_refused() {
        let text = "*nat\n:A - [0:0]\n-D PREROUTING -j A\n-X A\nCOMMIT\n";
        let orders = parse(Variant::Nft, text).expect("it only removes");
        let expected = Orders {
            table: Table::Nat,
            emptied: vec!["A"],
            rules: vec![("PREROUTING", "-j A")],
            deleted: vec!["A"],
        };
        assert_eq!(orders, [expected]);
        for added in ["-A A -j ACCEPT", "-I A -j ACCEPT", ":PREROUTING DROP [0:0]", "-D A", "?"] {
            let text = format!("*nat\n{added}\nCOMMIT\n");
            let refused = parse(Variant::Nft, &text).expect_err(added).to_string();
            assert!(refused.contains("`iptables-nft-restore` is not installed"), "{refused}");
        }
    }
}
