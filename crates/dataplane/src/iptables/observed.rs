//! What the kernel holds of ours, compared with what it should hold.
//!
//! Chains are compared rule by rule. In those that all service ports share no order matters, except that of the last rules of
//! `KUBE-SERVICES` and of [`Shared::comes_first`]; in the kernel's own chains, only whether our jump is there, once.

use std::collections::{BTreeMap, BTreeSet};

use kernel::xtables::{ChainName, FoundRule, Is, Match, Protocol, Rule, Saved, Table, Xtables};
use model::{Family, ForwardingTable, Frontend};

use super::names::is_of_a_service_port;
use super::render::{Chain, Jump, Shared};
use super::script::Script;

/// The tables that we write to.
pub(super) const TABLES: [Table; 3] = [Table::Filter, Table::Nat, Table::Mangle];

/// The tables, as they were found.
#[derive(Debug, Default)]
pub(super) struct Observed {
    chains: BTreeMap<(Table, String), Vec<Found>>,
}

/// A rule, and the text by which the program knows it again: it compares matches in their order.
#[derive(Debug)]
struct Found {
    rule: FoundRule,
    text: String,
}

impl Found {
    fn of(text: String) -> Self {
        Self { rule: FoundRule::parse(&text), text }
    }

    fn is(&self, rule: &Rule) -> bool {
        self.rule.known() == Some(rule)
    }
}

impl Observed {
    pub(super) fn read(door: &mut impl Xtables) -> kernel::xtables::Result<Self> {
        let mut chains = BTreeMap::new();
        for table in TABLES {
            let Some(text) = door.save(table)? else { continue };
            for chain in Saved::parse(&text).chains {
                chains.insert((table, chain.name), chain.rules.into_iter().map(Found::of).collect());
            }
        }
        Ok(Self { chains })
    }

    fn rules(&self, table: Table, chain: &str) -> Option<&[Found]> {
        self.chains.get(&(table, chain.to_owned())).map(Vec::as_slice)
    }

    /// A chain must be exactly so.
    pub(super) fn compare(&self, table: Table, chain: &Chain, script: &mut Script) {
        let is_same = |found: &[Found]| {
            found.len() == chain.rules.len()
                && found.iter().zip(&chain.rules).all(|(found, rule)| found.is(rule))
        };
        if !self.rules(table, chain.name.as_str()).is_some_and(is_same) {
            script.write(table, &chain.name, &chain.rules);
        }
    }

    /// A chain that all share must have these rules, in any order, and `last` behind them.
    pub(super) fn compare_shared(
        &self,
        chain: Shared,
        rules: &[Rule],
        last: &[Rule],
        removes_leftovers: bool,
        script: &mut Script,
    ) {
        let (table, name) = (chain.table(), chain.chain());
        let Some(found) = self.rules(table, name.as_str()) else {
            let all: Vec<Rule> = rules.iter().chain(last).cloned().collect();
            return script.write(table, &name, &all);
        };
        let (body, tail) = found.split_at(found.len().saturating_sub(last.len()));
        let has_tail = tail.len() == last.len() && tail.iter().zip(last).all(|(found, rule)| found.is(rule));
        let is_out_of_order =
            |(one, other): (&Found, &Found)| !chain.comes_first(&one.text) && chain.comes_first(&other.text);
        if !has_tail || body.iter().zip(body.iter().skip(1)).any(is_out_of_order) {
            let stays = if removes_leftovers { Vec::new() } else { leftovers(found, rules) };
            let all: Vec<Rule> = rules.iter().chain(stays).chain(last).cloned().collect();
            return script.write(table, &name, &all);
        }
        let mut wanted: BTreeMap<String, (usize, &Rule)> = BTreeMap::new();
        for rule in rules {
            wanted.entry(rule.canonical().to_string()).or_insert((0, rule)).0 += 1;
        }
        for found in body {
            let key =
                found.rule.known().map_or_else(|| found.text.clone(), |rule| rule.canonical().to_string());
            match wanted.get_mut(&key).filter(|(count, _)| *count > 0) {
                Some((count, _)) => *count -= 1,
                None if removes_leftovers => script.remove(chain, &found.text),
                None => {}
            }
        }
        for (count, rule) in wanted.values() {
            (0..*count).for_each(|_| script.add(chain, *rule));
        }
    }

    /// A jump must be there once.
    pub(super) fn compare_jump(&self, jump: &Jump, script: &mut Script) {
        let found = self.rules(jump.table, jump.from.as_str()).unwrap_or_default();
        let mut ours = found.iter().filter(|found| found.is(&jump.rule));
        if ours.next().is_none() {
            script.put_first(jump.table, &jump.from, &jump.rule);
        }
        for again in ours {
            script.remove_from(jump.table, jump.from.as_str(), &again.text);
        }
    }

    /// The frontends that are there and that nobody asks for.
    pub(super) fn left_behind(
        &self,
        family: Family,
        desired: &ForwardingTable,
    ) -> impl Iterator<Item = Frontend> {
        let found = [Shared::Services, Shared::NodePorts].into_iter().flat_map(move |chain| {
            let rules = self.rules(chain.table(), chain.chain().as_str()).unwrap_or_default();
            rules.iter().filter_map(move |found| frontend(found.rule.known()?, chain, family))
        });
        found.filter(|frontend| desired.route(frontend).is_none())
    }

    /// Chains of ours that nobody asks for go.
    pub(super) fn delete_stale(&self, wanted: &BTreeSet<ChainName>, script: &mut Script) {
        let is_stale = |(table, name): &&(Table, String)| {
            *table == Table::Nat && is_of_a_service_port(name) && !wanted.contains(name.as_str())
        };
        for (table, name) in self.chains.keys().filter(is_stale) {
            if let Some(name) = ChainName::new(name) {
                script.delete(*table, name);
            }
        }
    }
}

/// The rules that lead to service ports and are none of these.
fn leftovers<'a>(found: &'a [Found], rules: &[Rule]) -> Vec<&'a Rule> {
    let wanted: BTreeSet<String> = rules.iter().map(|rule| rule.canonical().to_string()).collect();
    let is_left = |rule: &&Rule| !wanted.contains(&rule.canonical().to_string());
    let leading = found.iter().filter_map(|found| found.rule.known());
    leading.filter(|rule| leads_to_a_service_port(rule)).filter(is_left).collect()
}

fn leads_to_a_service_port(rule: &Rule) -> bool {
    rule.jump().is_some_and(|jump| is_of_a_service_port(jump.as_str()))
}

/// The frontend from which a rule leads to a service port; `None` for a rule that does something else.
fn frontend(rule: &Rule, chain: Shared, family: Family) -> Option<Frontend> {
    if !leads_to_a_service_port(rule) {
        return None;
    }
    let protocol = rule.parts.iter().find_map(|part| match part {
        Match::Protocol(Protocol::TCP) => Some(model::Protocol::Tcp),
        Match::Protocol(Protocol::UDP) => Some(model::Protocol::Udp),
        Match::Protocol(Protocol::SCTP) => Some(model::Protocol::Sctp),
        _ => None,
    })?;
    let port = rule.parts.iter().find_map(|part| match part {
        Match::DestinationPort(port) => Some(*port),
        _ => None,
    })?;
    if chain == Shared::NodePorts {
        return Some(Frontend::NodePort { family, protocol, port });
    }
    let ip = rule.parts.iter().find_map(|part| match part {
        Match::Destination(Is::Equal, net) => Some(net.addr()),
        _ => None,
    })?;
    Some(Frontend::Address { ip, protocol, port })
}
