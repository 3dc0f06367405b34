//! What the programs or the kernel would refuse, and why.

use std::collections::BTreeSet;
use std::net::IpAddr;

use kernel::xtables::{ChainName, Family, FoundRule, Match, Rule, SetName, Table, Target, is_target};

use super::table::{SimTable, target};
use crate::ipset;

type Admitted = Result<(), String>;

/// The kernel's room for a comment, with the zero at its end.
const COMMENT_SIZE: usize = 256;

pub(super) fn chain_name(name: &str) -> Admitted {
    let is_fit = ChainName::new(name).is_some();
    if is_fit { Ok(()) } else { Err(format!("no chain can be called `{name}`")) }
}

/// A rule that is to stand in a table.
pub(super) fn rule(
    name: Table,
    table: &SimTable,
    family: Family,
    sets: &ipset::Simulated,
    rule: &FoundRule,
) -> Admitted {
    leads_somewhere(table, rule)?;
    let Some(rule) = rule.known() else { return Ok(()) };
    rule.sets().try_for_each(|name| set(sets, name, family))?;
    fits_table(name, rule)?;
    if !addresses(rule).all(|address| (family == Family::V4) == address.is_ipv4()) {
        return Err("host/network not found".to_owned());
    }
    if rule.comment().is_some_and(|comment| comment.len() >= COMMENT_SIZE) {
        return Err("the comment is too long".to_owned());
    }
    Ok(())
}

/// Only a set that is there already, and of this family or of none, can be asked.
fn set(sets: &ipset::Simulated, name: &SetName, family: Family) -> Admitted {
    let kind = sets.kind(name).ok_or_else(|| format!("Set {name} doesn't exist."))?;
    let is_other = kind.family().is_some_and(|of| of != family);
    if is_other { Err(format!("The protocol family of set {name} is not applicable.")) } else { Ok(()) }
}

/// Only a chain that is there already, and not one of the table's own, can be jumped to.
fn leads_somewhere(table: &SimTable, rule: &FoundRule) -> Admitted {
    let Some(to) = target(rule) else { return Ok(()) };
    let is_chain = table.chain(&to).is_some_and(|chain| chain.policy.is_none());
    let may_be_target = rule.known().is_none() && is_target(&to);
    if is_chain || may_be_target { Ok(()) } else { Err(format!("Couldn't load target `{to}'")) }
}

fn fits_table(name: Table, rule: &Rule) -> Admitted {
    let needed = match rule.target {
        Some(Target::Dnat(..) | Target::Masquerade { .. } | Target::Redirect(_)) => Table::Nat,
        Some(Target::Reject) => Table::Filter,
        Some(Target::Drop) if name == Table::Nat => {
            return Err("The \"nat\" table is not intended for filtering".to_owned());
        }
        _ => return Ok(()),
    };
    if needed == name { Ok(()) } else { Err(format!("only valid in the {needed} table, not {name}")) }
}

fn addresses(rule: &Rule) -> impl Iterator<Item = IpAddr> {
    let to = match rule.target {
        Some(Target::Dnat(address, _)) => Some(address),
        _ => None,
    };
    let parts = rule.parts.iter().filter_map(|part| match part {
        Match::Source(_, net) | Match::Destination(_, net) => Some(net.addr()),
        _ => None,
    });
    parts.chain(to)
}

/// A table as a whole: no way through it comes back to where it was, and targets stand only where they can be met. What no
/// packet can reach is not looked at.
pub(super) fn whole(name: Table, table: &SimTable) -> Admitted {
    name.own_chains().iter().try_for_each(|own| {
        let mut done = BTreeSet::new();
        visit(table, own, own, &mut Vec::new(), &mut done)
    })
}

fn visit<'a>(
    table: &'a SimTable,
    from: &str,
    chain: &'a str,
    above: &mut Vec<&'a str>,
    done: &mut BTreeSet<&'a str>,
) -> Admitted {
    if above.contains(&chain) {
        return Err(format!("Too many levels of symbolic links: {chain} leads to itself"));
    }
    if !done.insert(chain) {
        return Ok(());
    }
    above.push(chain);
    for rule in table.chain(chain).map_or(&[][..], |chain| &chain.rules) {
        let Some(rule) = rule.known() else { continue };
        fits_place(from, rule)?;
        if let Some(to) = rule.jump() {
            visit(table, from, to.as_str(), above, done)?;
        }
    }
    above.pop();
    Ok(())
}

/// Destinations are translated before routing, sources after it.
fn fits_place(from: &str, rule: &Rule) -> Admitted {
    let is_fit = match rule.target {
        Some(Target::Dnat(..) | Target::Redirect(_)) => ["PREROUTING", "OUTPUT"].contains(&from),
        Some(Target::Masquerade { .. }) => from == "POSTROUTING",
        _ => true,
    };
    if is_fit { Ok(()) } else { Err(format!("Invalid argument: `{rule}` can be reached from {from}")) }
}
