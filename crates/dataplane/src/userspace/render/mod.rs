//! The forwarding table and the ports of listeners → typed rules of one family.
//!
//! | file | what it is for |
//! |---|---|
//! | `base` | the jumps that lead into all this |
//! | `port` | one service port: what leads to its listeners, and what guards them |

mod base;
mod port;

use std::net::IpAddr;

use kernel::xtables::{Rule, Table, Target};
use model::{Family, ForwardingTable, ServicePort};

use super::names;
use super::{Options, Ports};
use crate::quarantine::Quarantine;
use crate::xtables::{self, Base, NodePorts, Order, Pods, PortRules, SERVICES, Shared, Style};

const fn nat(name: &'static str, order: Order) -> Shared {
    Shared { table: Table::Nat, name, order }
}

/// Addresses, for what arrives.
pub(super) const PORTALS_CONTAINER: Shared = nat(names::PORTALS_CONTAINER, Order::Any);
/// Addresses, for what this host sends.
pub(super) const PORTALS_HOST: Shared = nat(names::PORTALS_HOST, Order::Any);
/// Node ports, for what arrives. An address that is no node port's stands in front of them.
pub(super) const NODE_PORT_CONTAINER: Shared = nat(names::NODE_PORT_CONTAINER, Order::ReturnFirst);
/// Node ports, for what this host sends.
pub(super) const NODE_PORT_HOST: Shared = nat(names::NODE_PORT_HOST, Order::ReturnFirst);
/// Our own ports: nobody dials them directly; what came by a node port is let in.
pub(super) const NON_LOCAL: Shared =
    Shared { table: Table::Filter, name: names::NON_LOCAL, order: Order::RejectFirst };

/// Chains in which every service port may have rules, in the order in which they are written.
pub const SHARED: [Shared; 9] = [
    Shared::REFUSED,
    Shared::EXTERNAL_REFUSED,
    Shared::HEALTH_CHECKS,
    Shared::PROXY_FIREWALL,
    NON_LOCAL,
    PORTALS_CONTAINER,
    PORTALS_HOST,
    NODE_PORT_CONTAINER,
    NODE_PORT_HOST,
];

/// How this mode's rules look.
#[derive(Clone, Debug)]
pub(super) struct Portals {
    pub(super) options: Options,
    pub(super) ports: Ports,
    /// Service ports that are as they were before: the relay refused the newest, or the iptables program did.
    pub(super) quarantine: Quarantine,
}

impl Portals {
    pub(super) fn new(options: Options, ports: Ports) -> Self {
        Self { options, ports, quarantine: Quarantine::default() }
    }
}

impl Style for Portals {
    type Renderer<'a> = Renderer<'a>;

    const SHARED: &'static [Shared] = &SHARED;
    const ADDRESSES: Shared = PORTALS_CONTAINER;
    const NODE_PORTS: Shared = NODE_PORT_CONTAINER;
    const LANDMARKS: &'static [(Table, &'static str)] = &[
        (Table::Filter, SERVICES),
        (Table::Nat, names::PORTALS_CONTAINER),
        (Table::Nat, names::PORTALS_HOST),
    ];

    fn renderer<'a>(&'a self, table: &'a ForwardingTable, family: Family) -> Renderer<'a> {
        let (node, default) = (table.node(), self.options.default_node_port_addresses);
        let mut of_family = node.addresses.iter().copied().filter(|ip| Family::of(*ip) == family);
        Renderer {
            family,
            table,
            ports: &self.ports,
            quarantine: &self.quarantine,
            pods: Pods::of(&node.pods, family),
            node_ports: NodePorts::of(node, family, default, false),
            own_address: node.primary.get(family).or_else(|| of_family.next()),
        }
    }

    fn is_of_a_service_port(chain: &str) -> bool {
        names::is_of_a_service_port(chain)
    }

    fn leads(&self, rule: &Rule) -> bool {
        match &rule.target {
            Some(Target::Redirect(_) | Target::Dnat(..)) => true,
            Some(Target::Jump(chain)) => names::is_of_a_service_port(chain.as_str()),
            _ => false,
        }
    }
}

/// Renders for one family.
#[derive(Debug)]
pub(super) struct Renderer<'a> {
    family: Family,
    table: &'a ForwardingTable,
    ports: &'a Ports,
    quarantine: &'a Quarantine,
    pods: Pods,
    node_ports: NodePorts,
    /// Where this host's own packets are sent; `None` where it is not known to have an address of the family.
    own_address: Option<IpAddr>,
}

impl xtables::Renderer for Renderer<'_> {
    fn base(&self) -> Base {
        base::base(self.family)
    }

    fn of_port(&self, port: &ServicePort) -> PortRules {
        port::rules(self, port)
    }

    fn quarantine(&self) -> Option<&Quarantine> {
        Some(self.quarantine)
    }
}
