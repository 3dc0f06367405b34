//! What belongs to no service port: the jumps from the kernel's own chains, with the words of the first guides, and the canaries.

use kernel::xtables::{Is, Match, Rule, Side, State, Table, Target};
use model::Family;

use crate::userspace::names;
use crate::xtables::{Base, CANARY, Chain, Jump, Place, filter_jumps, loopback, name, states};

const PORTALS: &str = "handle ClusterIPs; NOTE: this must be before the NodePort rules";
const NODE_PORTS: &str = "handle service NodePorts; NOTE: this must be the last rule in the chain";
const NON_LOCAL: &str = "Ensure that non-local NodePort traffic can flow";

pub(super) fn base(family: Family) -> Base {
    let canary = || vec![Chain::new(CANARY, Vec::new())];
    let mut jumps = filter_jumps([]);
    // Every packet to this host would be compared with every port of ours, if not only new ones were.
    let new = [states(Is::Equal, &[State::New]), comment(NON_LOCAL)];
    jumps.push(jump(Table::Filter, "INPUT", Place::First, &new, names::NON_LOCAL));
    let portals = [comment(PORTALS)];
    jumps.push(jump(Table::Nat, "PREROUTING", Place::First, &portals, names::PORTALS_CONTAINER));
    jumps.push(jump(Table::Nat, "OUTPUT", Place::First, &portals, names::PORTALS_HOST));
    let node_ports = [
        Match::Local(Side::Destination, Is::Equal),
        comment(NODE_PORTS),
        Match::Destination(Is::Not, loopback(family)),
    ];
    jumps.push(jump(Table::Nat, "PREROUTING", Place::Last, &node_ports, names::NODE_PORT_CONTAINER));
    jumps.push(jump(Table::Nat, "OUTPUT", Place::Last, &node_ports, names::NODE_PORT_HOST));
    Base { filter: canary(), nat: canary(), mangle: canary(), last: Vec::new(), jumps }
}

fn jump(table: Table, from: &str, place: Place, parts: &[Match], to: &str) -> Jump {
    let rule = Rule::new(parts.iter().cloned(), Target::Jump(name(to)));
    Jump { table, from: name(from), place, rule }
}

fn comment(text: &str) -> Match {
    Match::Comment(text.to_owned())
}
