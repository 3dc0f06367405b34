//! The forwarding table → typed rules of one family.
//!
//! In: the table. Out: [`Tables`], whole; or in parts, for whoever writes only what changed: the fixed chains ([`Base`]), and
//! for each service port its own chains and its rules in those that all share ([`PortRules`]).
//!
//! | file | what it is for |
//! |---|---|
//! | `tables` | the words: chain, shared chain, jump |
//! | `base` | fixed chains, and the jumps that lead into them |
//! | `node_ports` | where node ports answer |
//! | `pods` | how rules tell pods from others |
//! | `port` | one service port: which chains it needs |
//! | `frontends` | its rules in shared chains: what leads to it, and what refuses for it |
//! | `own` | its own chains |
//!
//! The order is that of service port ids, then upstream's: equal tables make equal rules.

mod base;
mod frontends;
mod node_ports;
mod own;
mod pods;
mod port;
mod tables;

use std::collections::BTreeMap;

use model::table::HealthCheck;
use model::{Family, ForwardingTable, ServiceName, ServicePort};
use node_ports::NodePorts;
use pods::Pods;
pub use tables::{Base, Chain, Jump, PortRules, Shared, Tables};

use super::{Comments, Options};

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
            node_ports: NodePorts::of(table.node(), family, options),
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
        let ports = self.table.ports().map(|port| self.of_port(port));
        Tables::assemble(self.family, self.base(), ports)
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
