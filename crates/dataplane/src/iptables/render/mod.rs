//! The forwarding table → typed rules of one family.
//!
//! In: the table. Out: [`Tables`], whole; or in parts, for whoever writes only what changed: the fixed chains ([`Base`]), and
//! for each service port its own chains and its rules in those that all share ([`PortRules`]).
//!
//! | file | what it is for |
//! |---|---|
//! | `base` | fixed chains, and the jumps that lead into them |
//! | `marks` | how rules mark those whose source is hidden |
//! | `port` | one service port: which chains it needs |
//! | `frontends` | its rules in shared chains: what leads to it |
//! | `own` | its own chains |
//!
//! The order is that of service port ids, then upstream's: equal tables make equal rules.

mod base;
mod frontends;
mod marks;
mod own;
mod port;

use std::collections::BTreeMap;

use kernel::xtables::{Rule, Table};
use model::table::HealthCheck;
use model::{Family, ForwardingTable, ServiceName, ServicePort};

use super::names::is_of_a_service_port;
use super::{Comments, Options};
use crate::xtables::{
    self, Base, NODE_PORTS, NodePorts, Order, Pods, PortRules, SERVICES, Shared, Style, Tables,
};

/// Chains in which every service port may have rules, in the order in which they are written.
pub const SHARED: [Shared; 6] = [
    Shared::REFUSED,
    Shared::EXTERNAL_REFUSED,
    Shared::HEALTH_CHECKS,
    Shared::PROXY_FIREWALL,
    TO_SERVICES,
    TO_NODE_PORTS,
];
/// `nat` `KUBE-SERVICES`: addresses. Behind the last rule, which leads to node ports, none may come.
pub const TO_SERVICES: Shared = Shared { table: Table::Nat, name: SERVICES, order: Order::BeforeTheLast };
/// `nat` `KUBE-NODEPORTS`: node ports. An address that is no node port's stands in front of them.
pub const TO_NODE_PORTS: Shared = Shared { table: Table::Nat, name: NODE_PORTS, order: Order::ReturnFirst };

impl Style for Options {
    type Renderer<'a> = Renderer<'a>;

    const SHARED: &'static [Shared] = &SHARED;
    const ADDRESSES: Shared = TO_SERVICES;
    const NODE_PORTS: Shared = TO_NODE_PORTS;
    const LANDMARKS: &'static [(Table, &'static str)] = &[(Table::Filter, SERVICES), (Table::Nat, SERVICES)];

    fn lines_at_once(&self) -> usize {
        self.lines_at_once
    }

    fn renderer<'a>(&'a self, table: &'a ForwardingTable, family: Family) -> Renderer<'a> {
        Renderer::new(table, family, self)
    }

    fn is_of_a_service_port(chain: &str) -> bool {
        is_of_a_service_port(chain)
    }

    fn leads(&self, rule: &Rule) -> bool {
        rule.jump().is_some_and(|jump| is_of_a_service_port(jump.as_str()))
    }
}

impl xtables::Renderer for Renderer<'_> {
    fn base(&self) -> Base {
        self.base()
    }

    fn of_port(&self, port: &ServicePort) -> PortRules {
        self.of_port(port)
    }

    fn has_comments(&self) -> bool {
        self.has_comments()
    }
}

/// Renders for one family.
#[derive(Debug)]
pub struct Renderer<'a> {
    family: Family,
    table: &'a ForwardingTable,
    health_checks: &'a BTreeMap<ServiceName, HealthCheck>,
    options: Options,
    pods: Pods,
    node_ports: NodePorts,
    has_comments: bool,
}

impl<'a> Renderer<'a> {
    /// For a family of this table. Whether rules have comments is decided here: it is a matter of the whole table.
    pub fn new(table: &'a ForwardingTable, family: Family, options: &Options) -> Self {
        Self {
            family,
            table,
            health_checks: table.health_checks(),
            options: *options,
            pods: Pods::of(&table.node().pods, family),
            node_ports: NodePorts::of(
                table.node(),
                family,
                options.default_node_port_addresses,
                options.localhost_node_ports && family == Family::V4,
            ),
            has_comments: match options.comments {
                Comments::Always => true,
                Comments::UpTo(most) => has_at_most(table, family, most),
            },
        }
    }

    /// The fixed chains, the end of `KUBE-SERVICES`, and the jumps.
    pub fn base(&self) -> Base {
        base::base(self)
    }

    /// One service port, by itself. What it needs follows from itself, its Service's health check, the node, and whether rules
    /// have comments; from no other service port.
    pub fn of_port(&self, port: &ServicePort) -> PortRules {
        port::rules(self, port)
    }

    /// Whether rules of service ports' own chains have comments. When this turns, all of them are different.
    pub fn has_comments(&self) -> bool {
        self.has_comments
    }

    /// Everything.
    pub fn tables(&self) -> Tables {
        Tables::assemble::<Options>(self.family, self, self.table.ports().map(|port| &**port))
    }
}

fn has_at_most(table: &ForwardingTable, family: Family, most: usize) -> bool {
    let mut left = most;
    table.ports().all(|port| {
        let count = port::endpoints(port, family).len();
        let is_within = count <= left;
        left = left.saturating_sub(count);
        is_within
    })
}
