//! The chains of this mode, and what tells ours from those that upstream's left until 1.25, whose names they share and whose own cleanup
//! nobody has any more.
//!
//! Upstream had no chain of a single service port in this mode. Its jumps had fewer conditions: ours leave loopback addresses to the
//! relay that listens there, and guard its ports for new connections alone.

use kernel::xtables::Table;

use super::names::{self, is_of_a_service_port};
use crate::upstream::{ChainSet, NODE_PORTS};

/// All that upstream has written in this mode, and ours.
pub(super) static CHAINS: ChainSet = ChainSet {
    mode: super::mode::NAME,
    has_own_cleanup: false,
    chains: &[
        (Table::Filter, "KUBE-SERVICES"),
        (Table::Filter, "KUBE-EXTERNAL-SERVICES"),
        (Table::Filter, "KUBE-NODEPORTS"),
        (Table::Filter, "KUBE-PROXY-FIREWALL"),
        (Table::Filter, names::NON_LOCAL),
        (Table::Filter, "KUBE-PROXY-CANARY"),
        (Table::Nat, "KUBE-PROXY-CANARY"),
        (Table::Mangle, "KUBE-PROXY-CANARY"),
        (Table::Nat, names::PORTALS_CONTAINER),
        (Table::Nat, names::PORTALS_HOST),
        (Table::Nat, names::NODE_PORT_CONTAINER),
        (Table::Nat, names::NODE_PORT_HOST),
    ],
    telling: &[
        (Table::Filter, names::NON_LOCAL),
        (Table::Nat, names::PORTALS_CONTAINER),
        (Table::Nat, names::PORTALS_HOST),
        (Table::Nat, names::NODE_PORT_CONTAINER),
        (Table::Nat, names::NODE_PORT_HOST),
    ],
    port_prefixes: &names::PREFIXES,
    our_prefix: None,
    upstream_only: &[],
    jumps: &[
        (Table::Filter, "INPUT", names::NON_LOCAL, "Ensure that non-local NodePort traffic can flow"),
        (Table::Nat, "PREROUTING", names::PORTALS_CONTAINER, CLUSTER_IPS),
        (Table::Nat, "OUTPUT", names::PORTALS_HOST, CLUSTER_IPS),
        (Table::Nat, "PREROUTING", names::NODE_PORT_CONTAINER, NODE_PORTS),
        (Table::Nat, "OUTPUT", names::NODE_PORT_HOST, NODE_PORTS),
    ],
    is_ours_alone,
    is_our_jump,
};

const CLUSTER_IPS: &str = "handle ClusterIPs; NOTE: this must be before the NodePort rules";

fn is_ours_alone(table: Table, chain: &str) -> bool {
    table == Table::Nat && is_of_a_service_port(chain)
}

fn is_our_jump(words: &[&str]) -> bool {
    let is_to = |chain: &str| matches!(words, [.., "-j", target] if *target == chain);
    let leaves_loopback_out = words.starts_with(&["!", "-d"]);
    let is_for_new_ones = words.windows(2).any(|pair| pair == ["--ctstate", "NEW"]);
    leaves_loopback_out && (is_to(names::NODE_PORT_CONTAINER) || is_to(names::NODE_PORT_HOST))
        || is_for_new_ones && is_to(names::NON_LOCAL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_jumps_are_told_from_upstreams() {
        let cases = [
            (
                "! -d 127.0.0.0/8 -m addrtype --dst-type LOCAL -m comment --comment c -j KUBE-NODEPORT-HOST",
                true,
            ),
            ("-m addrtype --dst-type LOCAL -m comment --comment c -j KUBE-NODEPORT-HOST", false),
            ("-m conntrack --ctstate NEW -m comment --comment c -j KUBE-NODEPORT-NON-LOCAL", true),
            ("-m comment --comment c -j KUBE-NODEPORT-NON-LOCAL", false),
            ("-m comment --comment c -j KUBE-PORTALS-HOST", false),
            ("-m conntrack --ctstate NEW -m comment --comment c -j KUBE-SERVICES", false),
        ];
        for (rule, expected) in cases {
            assert_eq!(is_our_jump(&rule.split(' ').collect::<Vec<_>>()), expected, "{rule}");
        }
    }
}
