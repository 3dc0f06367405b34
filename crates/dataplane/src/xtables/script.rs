//! Restore text that changes only what must change.
//!
//! In: chains to write, rules to add and to take away. Out: one text for `iptables-restore --noflush`.
//!
//! The order is such that no packet meets half a service. Refusals come (in `filter`) before what leads to endpoints goes (in
//! `nat`), and go after it came. Each `COMMIT` is in force at once, and within one the new rules of a chain replace the old.

use std::fmt::{Display, Write as _};

use kernel::xtables::{ChainName, Rule, Table};

use super::words::{Jump, Order, Shared};

/// What is to change.
#[derive(Clone, Debug, Default)]
pub(super) struct Script {
    /// Additions to `filter`, before anything in `nat` changes.
    before: Part,
    nat: Part,
    /// Deletions from `filter`, after that.
    after: Part,
    mangle: Part,
}

/// What is to change in one table, at once.
#[derive(Clone, Debug, Default)]
struct Part {
    written: Vec<ChainName>,
    lines: Vec<String>,
    deleted: Vec<ChainName>,
}

impl Script {
    pub(super) fn is_empty(&self) -> bool {
        self.lines() == 0
    }

    /// How many lines it has that do something.
    pub(super) fn lines(&self) -> usize {
        [&self.before, &self.nat, &self.after, &self.mangle].into_iter().map(Part::count).sum()
    }

    /// How many rules of a table it writes.
    pub(super) fn rules(&self, table: Table) -> usize {
        let lines = self.parts(table).into_iter().flat_map(|part| &part.lines);
        lines.filter(|line| !line.starts_with("-D ")).count()
    }

    fn parts(&self, table: Table) -> Vec<&Part> {
        match table {
            Table::Filter => vec![&self.before, &self.after],
            Table::Nat => vec![&self.nat],
            Table::Mangle => vec![&self.mangle],
        }
    }

    /// Whether a chain is written, whatever it had.
    pub(super) fn writes(&self, table: Table, name: &ChainName) -> bool {
        self.parts(table).iter().any(|part| part.written.contains(name))
    }

    /// Whether a chain goes.
    pub(super) fn deletes(&self, name: &ChainName) -> bool {
        [&self.before, &self.nat, &self.after, &self.mangle]
            .into_iter()
            .any(|part| part.deleted.contains(name))
    }

    /// Does what the other one does too.
    pub(super) fn append(&mut self, other: Self) {
        self.before.append(other.before);
        self.nat.append(other.nat);
        self.after.append(other.after);
        self.mangle.append(other.mangle);
    }

    /// A chain gets these rules, whatever it had; it is made where it is missing.
    pub(super) fn write(&mut self, table: Table, name: &ChainName, rules: &[Rule]) {
        let part = self.adding(table);
        part.written.push(name.clone());
        part.lines.extend(rules.iter().map(|rule| format!("-A {name} {rule}")));
    }

    /// A chain goes. Nothing may lead to it any more.
    pub(super) fn delete(&mut self, table: Table, name: ChainName) {
        let part = self.removing(table);
        part.deleted.push(name);
    }

    /// A rule is added to a chain that all share.
    pub(super) fn add(&mut self, chain: Shared, rule: &dyn Display) {
        let rule = rule.to_string();
        let is_first = chain.order == Order::BeforeTheLast || chain.comes_first(&rule);
        let line = format!("{} {} {rule}", if is_first { "-I" } else { "-A" }, chain.chain());
        self.adding(chain.table).lines.push(line);
    }

    /// A rule of a chain that all share goes.
    pub(super) fn remove(&mut self, chain: Shared, rule: &dyn Display) {
        self.remove_from(chain.table, chain.name, rule);
    }

    /// A rule goes.
    pub(super) fn remove_from(&mut self, table: Table, chain: &str, rule: &dyn Display) {
        self.removing(table).lines.push(format!("-D {chain} {rule}"));
    }

    /// A jump is put where it belongs.
    pub(super) fn put(&mut self, Jump { table, from, place, rule }: &Jump) {
        self.adding(*table).lines.push(format!("{} {from} {rule}", place.option()));
    }

    /// The same in pieces, where it only changes `nat` and nothing leads to the chains that go any more: these are emptied, all of
    /// them, and deleted.
    pub(super) fn pieces(mut self, most: usize) -> Vec<Self> {
        if self.lines() <= most {
            return vec![self];
        }
        let deleted = std::mem::take(&mut self.nat.deleted);
        let of = |nat: Part| Self { nat, ..Self::default() };
        let emptied = deleted.chunks(most).map(|all| of(Part { written: all.to_vec(), ..Part::default() }));
        // Each of them is named a second time.
        let gone =
            deleted.chunks(most.div_ceil(2)).map(|all| of(Part { deleted: all.to_vec(), ..Part::default() }));
        [self].into_iter().chain(emptied).chain(gone).collect()
    }

    /// How many rules of a chain go one by one.
    pub(super) fn removals(&self, chain: Shared) -> usize {
        let part = if chain.table == Table::Nat { &self.nat } else { &self.after };
        part.lines.iter().filter(|line| removes(line, chain)).count()
    }

    /// Instead of losing rules one by one, a chain gets these that it has otherwise.
    pub(super) fn write_anew(&mut self, chain: Shared, rules: impl Iterator<Item = String>) {
        let part = self.removing(chain.table);
        part.lines.retain(|line| !removes(line, chain));
        part.written.push(chain.chain());
        part.lines.extend(rules.map(|rule| format!("-A {} {rule}", chain.name)));
    }

    /// The text.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for (table, part) in [
            (Table::Filter, &self.before),
            (Table::Nat, &self.nat),
            (Table::Filter, &self.after),
            (Table::Mangle, &self.mangle),
        ] {
            part.print(table, &mut text);
        }
        text
    }

    fn adding(&mut self, table: Table) -> &mut Part {
        match table {
            Table::Filter => &mut self.before,
            Table::Nat => &mut self.nat,
            Table::Mangle => &mut self.mangle,
        }
    }

    fn removing(&mut self, table: Table) -> &mut Part {
        match table {
            Table::Filter => &mut self.after,
            Table::Nat => &mut self.nat,
            Table::Mangle => &mut self.mangle,
        }
    }
}

fn removes(line: &str, chain: Shared) -> bool {
    line.strip_prefix("-D ").and_then(|line| line.split(' ').next()) == Some(chain.name)
}

impl Part {
    fn append(&mut self, other: Self) {
        self.written.extend(other.written);
        self.lines.extend(other.lines);
        self.deleted.extend(other.deleted);
    }

    fn count(&self) -> usize {
        self.written.len() + self.lines.len() + self.deleted.len()
    }

    fn print(&self, table: Table, text: &mut String) {
        if self.count() == 0 {
            return;
        }
        let _ = writeln!(text, "*{table}");
        // To name a chain is to empty it; one that goes must be empty, and may lead to another that goes.
        for chain in self.written.iter().chain(&self.deleted) {
            let _ = writeln!(text, ":{chain} - [0:0]");
        }
        for line in &self.lines {
            let _ = writeln!(text, "{line}");
        }
        for chain in &self.deleted {
            let _ = writeln!(text, "-X {chain}");
        }
        text.push_str("COMMIT\n");
    }
}
