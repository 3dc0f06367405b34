//! The words of rendered rules: chains, of which some are one service port's and some are shared; jumps; and all together.

use std::collections::BTreeMap;

use kernel::xtables::{ChainName, Rule, Table};
use model::{Family, ServicePort};

use super::names::{self, name};
use super::{Renderer, Style};

/// A chain with its rules, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    /// Its name.
    pub name: ChainName,
    /// Its rules.
    pub rules: Vec<Rule>,
}

impl Chain {
    pub(crate) fn new(text: &str, rules: Vec<Rule>) -> Self {
        Self { name: name(text), rules }
    }
}

/// A chain in which every service port may have rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shared {
    /// Its table.
    pub table: Table,
    /// Its name.
    pub name: &'static str,
    /// Which of its rules stand in front of others.
    pub order: Order,
}

/// Which rules of a shared chain stand in front of those that others have there, so that theirs do not take their packets.
/// Besides this, no order matters in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Order {
    /// None.
    Any,
    /// None; new ones are put first, for some at the end must stay there.
    BeforeTheLast,
    /// All but DROP: who may come, of those who may not.
    DropLast,
    /// RETURN: what is none of this chain's business.
    ReturnFirst,
    /// REJECT: what must not pass, of what may.
    RejectFirst,
}

impl Shared {
    /// `filter` `KUBE-SERVICES`: refusals of cluster IPs.
    pub const REFUSED: Self = Self { table: Table::Filter, name: names::SERVICES, order: Order::Any };
    /// `filter` `KUBE-EXTERNAL-SERVICES`: refusals of addresses that the world can see.
    pub const EXTERNAL_REFUSED: Self =
        Self { table: Table::Filter, name: names::EXTERNAL_SERVICES, order: Order::Any };
    /// `filter` `KUBE-NODEPORTS`: health checks are let in.
    pub const HEALTH_CHECKS: Self = Self { table: Table::Filter, name: names::NODE_PORTS, order: Order::Any };
    /// `filter` `KUBE-PROXY-FIREWALL`: who may not come to load balancer IPs.
    pub const PROXY_FIREWALL: Self =
        Self { table: Table::Filter, name: names::PROXY_FIREWALL, order: Order::DropLast };

    /// Whether a rule stands in front of others. `rule` is its text, whoever printed it.
    pub fn comes_first(self, rule: &str) -> bool {
        match self.order {
            Order::Any | Order::BeforeTheLast => false,
            Order::DropLast => !rule.ends_with("-j DROP"),
            Order::ReturnFirst => rule.ends_with("-j RETURN"),
            Order::RejectFirst => rule.contains("-j REJECT"),
        }
    }

    /// Puts those in front that must be there.
    pub fn arrange(self, rules: &mut [Rule]) {
        rules.sort_by_key(|rule| !self.comes_first(&rule.to_string()));
    }

    /// Its name.
    pub fn chain(self) -> ChainName {
        name(self.name)
    }
}

/// What one service port needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortRules {
    /// Its own chains, all in `nat`.
    pub own: Vec<Chain>,
    /// Its rules in chains that all share. No order matters, except that of [`Order`].
    pub shared: BTreeMap<Shared, Vec<Rule>>,
}

impl PortRules {
    pub(crate) fn push(&mut self, chain: Shared, rule: Rule) {
        self.shared.entry(chain).or_default().push(rule);
    }

    pub(crate) fn add_chain(&mut self, name: &ChainName, rules: Vec<Rule>) {
        self.own.push(Chain { name: name.clone(), rules });
    }
}

/// What belongs to no service port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Base {
    /// Fixed chains of `filter`.
    pub filter: Vec<Chain>,
    /// Fixed chains of `nat`.
    pub nat: Vec<Chain>,
    /// Fixed chains of `mangle`.
    pub mangle: Vec<Chain>,
    /// The last rules of the shared chain that leads on from addresses: behind those of all service ports.
    pub last: Vec<Rule>,
    /// What leads packets to all this.
    pub jumps: Vec<Jump>,
}

impl Base {
    /// The fixed chains of a table.
    pub fn of(&self, table: Table) -> &[Chain] {
        match table {
            Table::Filter => &self.filter,
            Table::Nat => &self.nat,
            Table::Mangle => &self.mangle,
        }
    }
}

/// A rule in a chain where others have rules too: of the kernel's own, or one that is made where it is missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Jump {
    /// The table.
    pub table: Table,
    /// The chain that it stands in.
    pub from: ChainName,
    /// Where in it.
    pub place: Place,
    /// The rule.
    pub rule: Rule,
}

impl Jump {
    /// Whether it stands in a chain that every table has.
    pub(super) fn is_from_the_kernels_own(&self) -> bool {
        self.table.own_chains().contains(&self.from.as_str())
    }
}

/// Where a jump is put when it is missing. It may stay where it is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In front of all others.
    First,
    /// Behind all others.
    Last,
}

impl Place {
    /// The option that puts a rule there.
    pub(super) fn option(self) -> &'static str {
        match self {
            Self::First => "-I",
            Self::Last => "-A",
        }
    }
}

/// All rules of a family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tables {
    /// Which family.
    pub family: Family,
    /// Chains of `filter`: shared, then fixed.
    pub filter: Vec<Chain>,
    /// Chains of `nat`: shared, fixed, then those of each service port.
    pub nat: Vec<Chain>,
    /// Chains of `mangle`.
    pub mangle: Vec<Chain>,
    /// Those of [`Place::First`] are put in front of what is there, one after the other: the last one ends up first. So upstream
    /// does it.
    pub jumps: Vec<Jump>,
}

impl Tables {
    /// The chains of a table.
    pub fn chains(&self, table: Table) -> &[Chain] {
        match table {
            Table::Filter => &self.filter,
            Table::Nat => &self.nat,
            Table::Mangle => &self.mangle,
        }
    }

    pub(crate) fn assemble<'a, S: Style>(
        family: Family,
        renderer: &impl Renderer,
        ports: impl Iterator<Item = &'a ServicePort>,
    ) -> Self {
        let base = renderer.base();
        let mut shared: BTreeMap<Shared, Vec<Rule>> = BTreeMap::new();
        let mut own = Vec::new();
        for port in ports.map(|port| renderer.of_port(port)) {
            for (chain, rules) in port.shared {
                shared.entry(chain).or_default().extend(rules);
            }
            own.extend(port.own);
        }
        shared.entry(S::ADDRESSES).or_default().extend(base.last);
        let (mut filter, mut nat) = (Vec::new(), Vec::new());
        for chain in S::SHARED {
            let mut rules = shared.remove(chain).unwrap_or_default();
            chain.arrange(&mut rules);
            let chains = if chain.table == Table::Nat { &mut nat } else { &mut filter };
            chains.push(Chain { name: chain.chain(), rules });
        }
        filter.extend(base.filter);
        let (jumps, in_others) = base.jumps.into_iter().partition(Jump::is_from_the_kernels_own);
        filter.extend(
            Vec::into_iter(in_others).map(|jump: Jump| Chain { name: jump.from, rules: vec![jump.rule] }),
        );
        nat.extend(base.nat.into_iter().chain(own));
        Self { family, filter, nat, mangle: base.mangle, jumps }
    }
}
