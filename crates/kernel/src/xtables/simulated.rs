//! Tables in memory, for tests that need rules of their own choosing.
//!
//! It carries out a restore text as the programs do with `--noflush`: line by line on a copy, which counts only if every line
//! went. Rules are text; a target is what follows `-j` or `-g`.

use std::collections::BTreeMap;

use super::error::{Error, Result};
use super::saved::{Saved, SavedChain, words};
use super::{Family, Table, Variant, Xtables};

/// What one program would show for one family.
#[derive(Debug, Clone)]
pub struct Simulated {
    variant: Variant,
    family: Family,
    tables: BTreeMap<Table, Saved>,
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
            restored: Vec::new(),
            save_fault: None,
            restore_faults: Vec::new(),
        }
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
        Ok(self.tables.get(&table).map(|saved| print(table, saved)))
    }

    fn restore(&mut self, text: &str) -> Result<()> {
        self.restore_faults.pop().map_or(Ok(()), Err)?;
        let mut open: Option<(Table, Saved)> = None;
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let refused = || Error::Refused {
                program: format!("the simulated {}-restore", self.variant),
                line: Some(line.to_owned()),
                stderr: String::new(),
            };
            match (line, &mut open) {
                ("COMMIT", open) => {
                    let (table, saved) = open.take().ok_or_else(refused)?;
                    self.tables.insert(table, saved);
                }
                (line, None) => {
                    let table = table_of(line).ok_or_else(refused)?;
                    open = Some((table, self.tables.get(&table).cloned().unwrap_or_else(|| empty(table))));
                }
                (line, Some((_, saved))) => carry_out(saved, line).ok_or_else(refused)?,
            }
        }
        self.restored.push(text.to_owned());
        Ok(())
    }
}

fn table_of(line: &str) -> Option<Table> {
    let name = line.strip_prefix('*')?;
    [Table::Nat, Table::Filter, Table::Mangle].into_iter().find(|table| table.name() == name)
}

fn empty(table: Table) -> Saved {
    let chain = |name: &&str| SavedChain {
        name: (*name).to_owned(),
        policy: Some("ACCEPT".to_owned()),
        rules: Vec::new(),
    };
    Saved { chains: table.own_chains().iter().map(chain).collect() }
}

fn print(table: Table, saved: &Saved) -> String {
    let declare =
        |chain: &SavedChain| format!(":{} {} [0:0]", chain.name, chain.policy.as_deref().unwrap_or("-"));
    let append = |chain: &SavedChain| {
        chain.rules.iter().map(|rule| format!("-A {} {rule}", chain.name)).collect::<Vec<_>>()
    };
    let declared = saved.chains.iter().map(declare);
    let lines = declared.chain(saved.chains.iter().flat_map(append));
    format!("*{table}\n{}\nCOMMIT\n", lines.collect::<Vec<_>>().join("\n"))
}

/// One line; `None` when it cannot be.
fn carry_out(saved: &mut Saved, line: &str) -> Option<()> {
    if let Some(declared) = line.strip_prefix(':') {
        return declare(saved, declared);
    }
    let (verb, rest) = line.split_once(' ')?;
    let (chain, rule) = rest.split_once(' ').unwrap_or((rest, ""));
    let at = saved.position(chain)?;
    match verb {
        "-A" | "-I" => {
            let target = target(rule);
            // A name in capitals with KUBE in front is a chain for sure; others may be extensions.
            if target.as_ref().is_some_and(|name| name.starts_with("KUBE-") && saved.chain(name).is_none()) {
                return None;
            }
            let rules = &mut saved.chains[at].rules;
            let place = if verb == "-I" { 0 } else { rules.len() };
            rules.insert(place, rule.to_owned());
        }
        "-D" => {
            let rules = &mut saved.chains[at].rules;
            let found = rules.iter().position(|other| words(other) == words(rule))?;
            rules.remove(found);
        }
        "-F" => saved.chains[at].rules.clear(),
        "-X" => {
            let chain = &saved.chains[at];
            let is_used = saved
                .chains
                .iter()
                .flat_map(|chain| &chain.rules)
                .any(|rule| target(rule).as_deref() == Some(&chain.name));
            if chain.policy.is_some() || !chain.rules.is_empty() || is_used {
                return None;
            }
            saved.chains.remove(at);
        }
        _ => return None,
    }
    Some(())
}

/// `:CHAIN POLICY [0:0]`: a chain of others' making is made or emptied; one that the table always has gets its policy.
fn declare(saved: &mut Saved, declared: &str) -> Option<()> {
    let mut parts = declared.split(' ');
    let (name, policy) = (parts.next()?, parts.next()?);
    let policy = (policy != "-").then(|| policy.to_owned());
    match saved.position(name) {
        Some(at) if saved.chains[at].policy.is_some() => {
            if policy.is_some() {
                saved.chains[at].policy = policy;
            }
        }
        Some(at) => saved.chains[at].rules.clear(),
        None => saved.chains.push(SavedChain { name: name.to_owned(), policy, rules: Vec::new() }),
    }
    Some(())
}

fn target(rule: &str) -> Option<String> {
    let mut words = words(rule).into_iter();
    words.find(|word| ["-j", "-g"].contains(&word.as_str()))?;
    words.next()
}
