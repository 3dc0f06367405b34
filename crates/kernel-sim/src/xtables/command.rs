//! One line of a restore text, carried out on a table. `Err` is the reason why a program would refuse it.

use kernel::nft::Policy;
use kernel::xtables::{Family, FoundRule, Table, words};

use super::admit;
use super::table::SimTable;
use crate::ipset;

type Done = Result<(), String>;

/// What a line is carried out on.
pub(super) struct Place<'a> {
    pub(super) name: Table,
    pub(super) family: Family,
    pub(super) sets: &'a ipset::Simulated,
}

pub(super) fn carry_out(table: &mut SimTable, place: &Place<'_>, line: &str) -> Done {
    if let Some(declared) = line.strip_prefix(':') {
        return declare(table, declared);
    }
    let line = without_counters(line);
    let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
    let (chain, rest) = rest.split_once(' ').unwrap_or((rest, ""));
    if chain.is_empty() {
        return on_all(table, verb);
    }
    if verb == "-N" {
        return make(table, chain);
    }
    let length = table.chain(chain).ok_or_else(|| format!("no chain {chain}"))?.rules.len();
    match verb {
        "-A" => add(table, place, chain, length, rest),
        "-I" => {
            let (at, rule) = numbered(rest).unwrap_or((1, rest));
            if !(1..=length + 1).contains(&at) {
                return Err("Index of insertion too big".to_owned());
            }
            add(table, place, chain, at - 1, rule)
        }
        "-D" => {
            let at =
                position(table, chain, rest).ok_or("Bad rule (does a matching rule exist in that chain?)")?;
            table.remove(chain, at);
            Ok(())
        }
        "-F" => {
            table.empty(chain);
            Ok(())
        }
        "-X" => delete(table, chain),
        "-P" => set_policy(table, chain, rest),
        _ => Err(format!("unknown option `{verb}`")),
    }
}

/// `:CHAIN POLICY [0:0]`: a chain is made or emptied; one that the table always has gets its policy and keeps its rules.
fn declare(table: &mut SimTable, declared: &str) -> Done {
    let mut parts = declared.split(' ');
    let (Some(name), Some(policy)) = (parts.next(), parts.next()) else {
        return Err("chain or policy missing".to_owned());
    };
    match table.chain(name) {
        Some(chain) if chain.policy.is_some() && policy == "-" => Ok(()),
        Some(chain) if chain.policy.is_some() => set_policy(table, name, policy),
        Some(_) => {
            table.empty(name);
            Ok(())
        }
        None => make(table, name),
    }
}

fn set_policy(table: &mut SimTable, chain: &str, policy: &str) -> Done {
    let is_own = table.chain(chain).is_some_and(|chain| chain.policy.is_some());
    let policy = match policy.split(' ').next() {
        Some("ACCEPT") if is_own => Policy::Accept,
        Some("DROP") if is_own => Policy::Drop,
        _ => return Err("Can't set policy".to_owned()),
    };
    table.set_policy(chain, policy);
    Ok(())
}

fn make(table: &mut SimTable, chain: &str) -> Done {
    if table.chain(chain).is_some() {
        return Err("Chain already exists".to_owned());
    }
    admit::chain_name(chain)?;
    table.make(chain);
    Ok(())
}

/// Verbs without a chain are for all of them.
fn on_all(table: &mut SimTable, verb: &str) -> Done {
    let others: Vec<String> = table.other_chains().map(|(name, _)| name.to_owned()).collect();
    match verb {
        "-F" => {
            table.empty_all();
            Ok(())
        }
        "-X" => others.iter().try_for_each(|chain| delete(table, chain)),
        _ => Err(format!("`{verb}` needs a chain")),
    }
}

fn add(table: &mut SimTable, place: &Place<'_>, chain: &str, at: usize, text: &str) -> Done {
    let rule = FoundRule::parse(text);
    admit::rule(place.name, table, place.family, place.sets, &rule)?;
    table.insert(chain, at, rule);
    Ok(())
}

fn delete(table: &mut SimTable, name: &str) -> Done {
    let chain = table.chain(name).ok_or("no such chain")?;
    if chain.policy.is_some() {
        return Err("Can't delete a chain that the table always has".to_owned());
    }
    if !chain.rules.is_empty() {
        return Err("Directory not empty".to_owned());
    }
    if table.is_used(name) {
        return Err("Too many links".to_owned());
    }
    table.delete(name);
    Ok(())
}

/// Where a rule is, by its number or by what it says.
fn position(table: &SimTable, chain: &str, text: &str) -> Option<usize> {
    let rules = &table.chain(chain)?.rules;
    if let Some((number, "")) = numbered(text) {
        return number.checked_sub(1).filter(|at| *at < rules.len());
    }
    let asked = FoundRule::parse(text);
    rules.iter().position(|rule| match (rule, &asked) {
        (FoundRule::Unknown(one), FoundRule::Unknown(other)) => words(one) == words(other),
        (one, other) => one == other,
    })
}

/// A number and what comes after it.
fn numbered(text: &str) -> Option<(usize, &str)> {
    let (number, rest) = text.split_once(' ').unwrap_or((text, ""));
    Some((number.parse().ok()?, rest))
}

/// `[0:0] -A …`.
fn without_counters(line: &str) -> &str {
    if line.starts_with('[') { line.split_once("] ").map_or(line, |(_, rest)| rest) } else { line }
}
