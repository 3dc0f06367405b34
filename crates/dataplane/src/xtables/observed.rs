//! What the kernel holds of ours, compared with what it should hold.
//!
//! Chains are compared rule by rule. In those that all service ports share no order matters, except that of the last rules and of
//! [`Shared::comes_first`]; in the kernel's own chains, only whether our jump is there, once.

use std::borrow::Cow;
use std::cell::{LazyCell, OnceCell};
use std::collections::{BTreeMap, BTreeSet};

use kernel::xtables::{ChainName, FoundRule, Is, Match, Rule, Saved, Table, Xtables, words};
use model::{Family, ForwardingTable, Frontend};

use super::script::Script;
use super::steps::Steps;
use super::words::{Chain, Jump, PortRules, Shared};
use super::{DELETED_ONE_BY_ONE, Style};

/// The tables that we write to.
pub(super) const TABLES: [Table; 3] = [Table::Filter, Table::Nat, Table::Mangle];

/// The tables, as they were found.
#[derive(Debug, Default)]
pub(super) struct Observed {
    chains: BTreeMap<(Table, String), Vec<Found>>,
    /// What leads to which chain, once somebody asks.
    led: OnceCell<Led>,
}

/// The rules of shared chains that lead to a chain.
type Led = BTreeMap<ChainName, BTreeSet<(Shared, String)>>;

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
        Ok(Self { chains, led: OnceCell::new() })
    }

    fn rules(&self, table: Table, chain: &str) -> Option<&[Found]> {
        self.chains.get(&(table, chain.to_owned())).map(Vec::as_slice)
    }

    /// A chain must be exactly so.
    pub(super) fn compare(&self, table: Table, chain: &Chain, script: &mut Script) {
        if self.differs(table, chain) {
            script.write(table, &chain.name, &chain.rules);
        }
    }

    /// The own chains of a service port must be exactly so.
    pub(super) fn compare_port<S: Style>(&self, rules: &PortRules, steps: &mut Steps) {
        let is_led_to_as_before = LazyCell::new(|| {
            let wanted =
                led(rules.shared.iter().flat_map(|(shared, rules)| rules.iter().map(|rule| (*shared, rule))));
            let found = self.led.get_or_init(|| led(self.shared_rules::<S>()));
            rules.own.iter().all(|chain| wanted.get(&chain.name) == found.get(&chain.name))
        });
        for chain in rules.own.iter().filter(|chain| self.differs(Table::Nat, chain)) {
            let is_new = self.rules(Table::Nat, chain.name.as_str()).is_none();
            let script = if is_new || *is_led_to_as_before { steps.ahead() } else { &mut steps.at_once };
            script.write(Table::Nat, &chain.name, &chain.rules);
        }
    }

    fn differs(&self, table: Table, chain: &Chain) -> bool {
        let is_same = |found: &[Found]| {
            found.len() == chain.rules.len()
                && found.iter().zip(&chain.rules).all(|(found, rule)| found.is(rule))
        };
        !self.rules(table, chain.name.as_str()).is_some_and(is_same)
    }

    fn shared_rules<S: Style>(&self) -> impl Iterator<Item = (Shared, &Rule)> {
        S::SHARED.iter().flat_map(|shared| {
            let found = self.rules(shared.table, shared.name).unwrap_or_default();
            found.iter().filter_map(|found| Some((*shared, found.rule.known()?)))
        })
    }

    /// Whether rules lead to any service port.
    pub(super) fn has_service_ports<S: Style>(&self, style: &S) -> bool {
        self.shared_rules::<S>().any(|(_, rule)| style.leads(rule))
    }

    /// A chain that all share must have these rules, in any order, and `last` behind them. With a `keeper`, other rules that lead
    /// to service ports stay.
    pub(super) fn compare_shared<S: Style>(
        &self,
        chain: Shared,
        rules: &[Rule],
        last: &[Rule],
        keeper: Option<&S>,
        script: &mut Script,
    ) {
        let (table, name) = (chain.table, chain.chain());
        let Some(found) = self.rules(table, name.as_str()) else {
            let all: Vec<Rule> = rules.iter().chain(last).cloned().collect();
            return script.write(table, &name, &all);
        };
        let (body, tail) = found.split_at(found.len().saturating_sub(last.len()));
        let has_tail = tail.len() == last.len() && tail.iter().zip(last).all(|(found, rule)| found.is(rule));
        let is_out_of_order =
            |(one, other): (&Found, &Found)| !chain.comes_first(&one.text) && chain.comes_first(&other.text);
        let mut wanted: BTreeMap<String, (usize, &Rule)> = BTreeMap::new();
        for rule in rules {
            wanted.entry(rule.canonical().to_string()).or_insert((0, rule)).0 += 1;
        }
        let mut gone = Vec::new();
        for found in body {
            let key =
                found.rule.known().map_or_else(|| found.text.clone(), |rule| rule.canonical().to_string());
            match wanted.get_mut(&key).filter(|(count, _)| *count > 0) {
                Some((count, _)) => *count -= 1,
                None if keeper.is_none() => gone.push(&found.text),
                None => {}
            }
        }
        let is_shuffled = !has_tail || body.iter().zip(body.iter().skip(1)).any(is_out_of_order);
        if is_shuffled || gone.len() > DELETED_ONE_BY_ONE {
            let stays = keeper.map(|style| leftovers(style, found, rules)).unwrap_or_default();
            let all: Vec<Rule> = rules.iter().chain(stays).chain(last).cloned().collect();
            return script.write(table, &name, &all);
        }
        for rule in gone {
            script.remove(chain, rule);
        }
        for (count, rule) in wanted.values() {
            (0..*count).for_each(|_| script.add(chain, *rule));
        }
    }

    /// A jump must be there once, and not beside it as an older version wrote it, which let other packets through.
    pub(super) fn compare_jump(&self, jump: &Jump, script: &mut Script) {
        let found = self.rules(jump.table, jump.from.as_str());
        if found.is_none() && !jump.is_from_the_kernels_own() {
            return script.write(jump.table, &jump.from, std::slice::from_ref(&jump.rule));
        }
        let found = found.unwrap_or_default();
        let mut ours = found.iter().filter(|found| found.is(&jump.rule));
        if ours.next().is_none() {
            script.put(jump);
        }
        let older = found.iter().filter(|found| is_older(found, jump));
        for again in ours.chain(older) {
            script.remove_from(jump.table, jump.from.as_str(), &again.text);
        }
    }

    /// The frontends that are there and that nobody asks for.
    pub(super) fn left_behind<S: Style>(
        &self,
        style: &S,
        family: Family,
        desired: &ForwardingTable,
    ) -> Vec<Frontend> {
        let of = |chain: Shared| {
            let rules = self.rules(chain.table, chain.name).unwrap_or_default();
            let leading =
                rules.iter().filter_map(|found| found.rule.known()).filter(|rule| style.leads(rule));
            leading.filter_map(move |rule| frontend(rule, chain == S::NODE_PORTS, family))
        };
        let found = of(S::ADDRESSES).chain(of(S::NODE_PORTS));
        found.filter(|frontend| desired.route(frontend).is_none()).collect()
    }

    /// Chains of ours that nobody asks for go. Those to which rules of others lead cannot: they are emptied, stay, and are the
    /// answer.
    pub(super) fn delete_stale<S: Style>(
        &self,
        wanted: &BTreeSet<ChainName>,
        steps: &mut Steps,
    ) -> Vec<ChainName> {
        let used = self.used_by_others::<S>(wanted);
        let mut stay = Vec::new();
        for ((table, name), rules) in &self.chains {
            let is_stale =
                *table == Table::Nat && S::is_of_a_service_port(name) && !wanted.contains(name.as_str());
            let Some(name) = ChainName::new(name).filter(|_| is_stale) else { continue };
            if !used.contains(name.as_str()) {
                steps.delete(name);
                continue;
            }
            if !rules.is_empty() {
                steps.at_once.write(*table, &name, &[]);
            }
            stay.push(name);
        }
        stay
    }

    /// Where rules of `nat` lead that stand in chains of others.
    fn used_by_others<S: Style>(&self, wanted: &BTreeSet<ChainName>) -> BTreeSet<String> {
        let is_ours = |name: &str| {
            wanted.contains(name)
                || S::is_of_a_service_port(name)
                || S::SHARED.iter().any(|shared| shared.table == Table::Nat && shared.name == name)
        };
        let others = self.chains.iter().filter(|((table, name), _)| *table == Table::Nat && !is_ours(name));
        others.flat_map(|(_, rules)| rules).filter_map(|found| target(&found.text)).collect()
    }
}

fn led<'a>(rules: impl Iterator<Item = (Shared, &'a Rule)>) -> Led {
    let mut led = Led::new();
    for (shared, rule) in rules {
        if let Some(chain) = rule.jump() {
            led.entry(chain.clone()).or_default().insert((shared, rule.canonical().to_string()));
        }
    }
    led
}

/// Where a rule leads, as the programs print it.
fn target(rule: &str) -> Option<String> {
    let mut words = words(rule).into_iter();
    words.find(|word| ["-j", "-g"].contains(&&**word))?;
    words.next().map(Cow::into_owned)
}

/// Does a rule lead where a jump does, in the same words, for other packets?
fn is_older(found: &Found, jump: &Jump) -> bool {
    let Some(rule) = found.rule.known() else { return false };
    let same_words = rule.comment().is_some() && rule.comment() == jump.rule.comment();
    same_words && rule.jump().is_some() && rule.jump() == jump.rule.jump() && !found.is(&jump.rule)
}

/// The rules that lead to service ports and are none of these.
fn leftovers<'a>(style: &impl Style, found: &'a [Found], rules: &[Rule]) -> Vec<&'a Rule> {
    let wanted: BTreeSet<String> = rules.iter().map(|rule| rule.canonical().to_string()).collect();
    let is_left = |rule: &&Rule| !wanted.contains(&rule.canonical().to_string());
    let leading = found.iter().filter_map(|found| found.rule.known());
    leading.filter(|rule| style.leads(rule)).filter(is_left).collect()
}

/// The frontend for which a rule is; `None` if it does not say a port, or an address where that is needed.
pub(crate) fn frontend(rule: &Rule, is_node_port: bool, family: Family) -> Option<Frontend> {
    let protocol = rule.parts.iter().find_map(|part| match part {
        Match::Protocol(protocol) => protocol.transport(),
        _ => None,
    })?;
    let port = rule.parts.iter().find_map(|part| match part {
        Match::DestinationPort(port) => Some(*port),
        _ => None,
    })?;
    if is_node_port {
        return Some(Frontend::NodePort { family, protocol, port });
    }
    let ip = rule.parts.iter().find_map(|part| match part {
        Match::Destination(Is::Equal, net) => Some(net.addr()),
        _ => None,
    })?;
    Some(Frontend::Address { ip, protocol, port })
}
