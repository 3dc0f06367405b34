//! The words of rendered rules: chains, of which some are one service port's and some are shared; jumps; and all together.

use std::collections::BTreeMap;

use kernel::xtables::{ChainName, Rule, Table};
use model::Family;

use crate::iptables::names::{self, name};

/// A chain with its rules, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    /// Its name.
    pub name: ChainName,
    /// Its rules.
    pub rules: Vec<Rule>,
}

/// A chain in which every service port may have rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Shared {
    /// `filter` `KUBE-SERVICES`: refusals of cluster IPs.
    Refused,
    /// `filter` `KUBE-EXTERNAL-SERVICES`: refusals of addresses that the world can see.
    ExternalRefused,
    /// `filter` `KUBE-NODEPORTS`: health checks are let in.
    HealthChecks,
    /// `filter` `KUBE-PROXY-FIREWALL`: who may not come to load balancer IPs.
    ProxyFirewall,
    /// `nat` `KUBE-SERVICES`: addresses.
    Services,
    /// `nat` `KUBE-NODEPORTS`: node ports.
    NodePorts,
}

impl Shared {
    /// All of them, in the order in which they are written.
    pub const ALL: [Self; 6] = [
        Self::Refused,
        Self::ExternalRefused,
        Self::HealthChecks,
        Self::ProxyFirewall,
        Self::Services,
        Self::NodePorts,
    ];

    /// Its table.
    pub fn table(self) -> Table {
        match self {
            Self::Refused | Self::ExternalRefused | Self::HealthChecks | Self::ProxyFirewall => Table::Filter,
            Self::Services | Self::NodePorts => Table::Nat,
        }
    }

    /// Whether a rule stands in front of those that others have there, so that theirs do not take its packets: who may come, of
    /// those who may not; and an address that is no node port's, of node ports. `rule` is its text, whoever printed it.
    pub fn comes_first(self, rule: &str) -> bool {
        match self {
            Self::ProxyFirewall => !rule.ends_with("-j DROP"),
            Self::NodePorts => rule.ends_with("-j RETURN"),
            Self::Services | Self::Refused | Self::ExternalRefused | Self::HealthChecks => false,
        }
    }

    /// Puts those in front that must be there.
    pub fn arrange(self, rules: &mut [Rule]) {
        rules.sort_by_key(|rule| !self.comes_first(&rule.to_string()));
    }

    /// Its name.
    pub fn chain(self) -> ChainName {
        name(match self {
            Self::Refused | Self::Services => names::SERVICES,
            Self::ExternalRefused => names::EXTERNAL_SERVICES,
            Self::HealthChecks | Self::NodePorts => names::NODE_PORTS,
            Self::ProxyFirewall => names::PROXY_FIREWALL,
        })
    }
}

/// What one service port needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortRules {
    /// Its own chains, all in `nat`.
    pub own: Vec<Chain>,
    /// Its rules in chains that all share. No order matters, except that of [`Shared::comes_first`].
    pub shared: BTreeMap<Shared, Vec<Rule>>,
}

impl PortRules {
    pub(super) fn push(&mut self, chain: Shared, rule: Rule) {
        self.shared.entry(chain).or_default().push(rule);
    }

    pub(super) fn add_chain(&mut self, name: &ChainName, rules: Vec<Rule>) {
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
    /// The last rules of [`Shared::Services`]: behind those of all service ports.
    pub last_services: Vec<Rule>,
    /// What leads packets to all this.
    pub jumps: Vec<Jump>,
}

/// A rule in a chain of the kernel's own, where others have rules too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Jump {
    /// The table.
    pub table: Table,
    /// The chain that it stands in.
    pub from: ChainName,
    /// The rule.
    pub rule: Rule,
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
    /// Put in front of what is there, one after the other: the last one ends up first. So upstream does it.
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

    pub(super) fn assemble(family: Family, base: Base, ports: impl Iterator<Item = PortRules>) -> Self {
        let mut shared = Shared::ALL.map(|_| Vec::new());
        let mut own = Vec::new();
        for port in ports {
            for (chain, rules) in port.shared {
                shared[chain as usize].extend(rules);
            }
            own.extend(port.own);
        }
        shared[Shared::Services as usize].extend(base.last_services);
        let (mut filter, mut nat) = (Vec::new(), Vec::new());
        for (chain, mut rules) in Shared::ALL.into_iter().zip(shared) {
            chain.arrange(&mut rules);
            let chains = if chain.table() == Table::Nat { &mut nat } else { &mut filter };
            chains.push(Chain { name: chain.chain(), rules });
        }
        filter.extend(base.filter);
        nat.extend(base.nat.into_iter().chain(own));
        Self { family, filter, nat, mangle: base.mangle, jumps: base.jumps }
    }
}
