//! Simulated iptables programs, for the simulations of modes that write chains.
//!
//! | file | what it is for |
//! |---|---|
//! | `program` | a program that fails, refuses, leaves out and takes note |
//! | `gate` | single writes of several handles, of which so many pass |
//! | `kinds` | what a rule looks like when whose it is does not count |

mod gate;
mod kinds;
mod program;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

pub(crate) use gate::Gate;
use kernel::xtables::{Family, FoundRule, FoundTable, Programs, Rule, Table, Variant, Xtables};
use kernel_sim::nft::SimPacket;
use kernel_sim::xtables::Simulated;
pub use program::errors;
pub(crate) use program::{Faults, Mutation, Program, failing, struck};

use super::words::Shared;
use super::{NODE_PORTS, SERVICES};
use crate::sim::{End, Listing, Named, Share, SimulatedMode, end_of};
use crate::upstream::{self, KnownChains};

/// What every node does whose `dataplane` writes with simulated programs alone. `$unmissed` are the kinds of rules that no scenario misses.
macro_rules! by_programs {
    ($unmissed:ident) => {
        fn dataplane(&mut self) -> &mut dyn $crate::Dataplane {
            &mut self.dataplane
        }

        fn copy(&self) -> Box<dyn $crate::sim::SimulatedMode> {
            Box::new(self.clone())
        }

        fn clean_up(&mut self, known: &$crate::upstream::KnownChains) -> Result<(), String> {
            $crate::xtables::sim::clean_up(self.dataplane.doors(), known)
        }

        fn damaged(&mut self) -> Result<$crate::sim::Named<'_>, String> {
            $crate::xtables::sim::damaged(self, |node| node.dataplane.doors().collect())
        }

        fn struck(&self) -> $crate::sim::Struck {
            $crate::xtables::sim::struck(self.clone().dataplane.doors())
        }

        fn refuse(&mut self, address: Option<std::net::IpAddr>) -> bool {
            self.dataplane.doors().for_each(|program| program.refused = address);
            true
        }

        fn add_foreign(&mut self) -> Result<(), String> {
            $crate::xtables::sim::add_foreign(self.dataplane.doors())
        }

        fn leave_out(&mut self, kind: Option<&str>) {
            self.dataplane
                .doors()
                .for_each(|program| program.mutation = Some($crate::xtables::sim::Mutation::without(kind)));
        }

        fn kinds(&mut self) -> std::collections::BTreeSet<String> {
            $crate::xtables::sim::kinds(self.dataplane.doors())
        }

        fn unmissed(&self, kind: &str) -> Option<&'static str> {
            $crate::xtables::sim::unmissed(&$unmissed, kind)
        }
    };
}
pub(crate) use by_programs;

/// Programs of both families, whose tables are empty.
pub(crate) fn programs(variant: Variant) -> Vec<Program> {
    Family::ALL.map(|family| Program::new(Simulated::new(variant, family))).into()
}

/// The programs of this machine, of both families.
pub(crate) fn real_programs(variant: Variant) -> Result<Vec<Programs>, String> {
    let mut found = Programs::find().programs;
    found.retain(|program| program.variant() == variant);
    if found.len() == Family::ALL.len() { Ok(found) } else { Err(format!("{variant} is not installed")) }
}

/// The program for packets to this address.
pub(crate) fn program_for<'a>(
    mut programs: impl Iterator<Item = &'a mut Program>,
    address: IpAddr,
) -> Result<&'a mut Program, String> {
    programs.nth(usize::from(address.is_ipv6())).ok_or_else(|| "no program of this family".to_owned())
}

/// One way in which chance may fall.
pub(crate) struct Way {
    pub(crate) end: End,
    pub(crate) share: Share,
    /// The tables afterwards; they may remember the client.
    pub(crate) after: Simulated,
}

/// Sends a packet once for each way in which chance may fall.
pub(crate) fn ways(
    tables: &Simulated,
    packet: &SimPacket,
    now: Duration,
    may_lose_mark: bool,
) -> Result<Vec<Way>, String> {
    let way = |way: kernel_sim::xtables::Way| {
        let end = end_of(packet, &way.outcome, may_lose_mark)?;
        Ok(Way { end, share: way.share, after: way.after })
    };
    tables.ways(packet, now).into_iter().map(way).collect()
}

/// Every chain with its rules, in canonical words. In chains that service ports share the rules before the last are in one order.
pub fn listing(handle: &mut dyn Xtables, shared: &[Shared]) -> Result<Listing, String> {
    let mut all = Listing::new();
    for table in [Table::Filter, Table::Nat, Table::Mangle] {
        let Some(text) = handle.save(table).map_err(|error| error.to_string())? else { continue };
        for chain in FoundTable::parse(&text).chains {
            let mut rules = chain.rules;
            if shared.iter().any(|shared| shared.table == table && shared.name == chain.name) {
                let end = rules.iter().position(leads_on).filter(|_| chain.name == SERVICES);
                let end = end.unwrap_or(rules.len());
                rules[..end].sort_by_key(canonical);
            }
            let key = format!("{} {table} {}", handle.family(), chain.name);
            all.insert(key, rules.iter().map(canonical).collect());
        }
    }
    Ok(all)
}

fn leads_on(rule: &FoundRule) -> bool {
    rule.known().and_then(Rule::jump).is_some_and(|chain| chain.as_str() == NODE_PORTS)
}

fn canonical(rule: &FoundRule) -> String {
    rule.known().map_or_else(|| rule.to_string(), |rule| rule.canonical().to_string())
}

/// Rules of another program in the kernel's own chains.
pub(crate) fn add_foreign<'a>(programs: impl Iterator<Item = &'a mut Program>) -> Result<(), String> {
    let mut text = String::new();
    for table in [Table::Filter, Table::Nat, Table::Mangle] {
        text.extend([format!("*{table}\n:MINE - [0:0]\n-A MINE -p tcp -m tcp --dport 7 -j RETURN\n")]);
        text.extend(table.own_chains().iter().map(|chain| format!("-A {chain} -j MINE\n")));
        text += "COMMIT\n";
    }
    let mut programs = programs;
    programs.try_for_each(|program| program.restore(&text)).map_err(|error| error.to_string())
}

/// Copies of a node with a chain flushed, or with a rule more at its beginning: each chain of ours, and those of the kernel that lead there.
pub(crate) fn damaged<N: SimulatedMode + Clone + 'static>(
    node: &mut N,
    programs: fn(&mut N) -> Vec<&mut Program>,
) -> Result<Named<'_>, String> {
    let mut damages = Vec::new();
    for (at, program) in programs(node).into_iter().enumerate() {
        for table in [Table::Filter, Table::Nat, Table::Mangle] {
            let Some(text) = program.save(table).map_err(|error| error.to_string())? else { continue };
            for chain in FoundTable::parse(&text).chains.iter().filter(|chain| !chain.rules.is_empty()) {
                let lines = [
                    format!("-F {}", chain.name),
                    format!("-I {} -p tcp -m tcp --dport 7 -j DROP", chain.name),
                ];
                // In the kernel's own chains others may have rules.
                let ours = if chain.policy.is_some() { 1 } else { 2 };
                damages.extend(
                    lines.into_iter().take(ours).map(|line| (at, format!("*{table}\n{line}\nCOMMIT\n"))),
                );
            }
        }
    }
    Ok(Box::new(damages.into_iter().map(move |(at, text)| {
        let mut node = node.clone();
        let done = programs(&mut node).swap_remove(at).tables().restore(&text);
        (format!("program {at}: {text} {done:?}"), Box::new(node) as Box<dyn SimulatedMode>)
    })))
}

/// Removes all chains that are known.
pub(crate) fn clean_up<'a>(
    mut programs: impl Iterator<Item = &'a mut (impl Xtables + 'a)>,
    known: &KnownChains,
) -> Result<(), String> {
    programs.try_for_each(|program| upstream::clear_all(known, program)).map_err(|error| error.to_string())
}

/// The kinds that programs have taken note of.
pub(crate) fn kinds<'a>(programs: impl Iterator<Item = &'a mut Program>) -> BTreeSet<String> {
    programs
        .filter_map(|program| program.mutation.as_ref())
        .flat_map(|all| all.seen.iter().cloned())
        .collect()
}

/// Why no scenario misses a kind: a part of its words, and the reason.
pub(crate) type Unmissed = (&'static str, &'static str);

/// The reason that stands in this list.
pub(crate) fn unmissed(list: &[Unmissed], kind: &str) -> Option<&'static str> {
    list.iter().find(|(words, _)| kind.contains(words)).map(|(_, why)| *why)
}
