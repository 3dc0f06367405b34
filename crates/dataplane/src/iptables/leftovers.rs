//! The chains of this mode, and what tells ours from those of upstream's, whose names, rules and comments they share.

use kernel::xtables::Table;

use super::names;
use crate::upstream::ChainSet;

/// All that upstream has written in this mode since 1.8 or so, and ours.
pub(super) static CHAINS: ChainSet = ChainSet {
    mode: super::mode::NAME,
    has_own_cleanup: false,
    chains: &[
        (Table::Filter, "KUBE-SERVICES"),
        (Table::Filter, "KUBE-EXTERNAL-SERVICES"),
        (Table::Filter, "KUBE-NODEPORTS"),
        (Table::Filter, "KUBE-PROXY-FIREWALL"),
        (Table::Filter, "KUBE-FORWARD"),
        (Table::Filter, "KUBE-PROXY-CANARY"),
        (Table::Nat, "KUBE-PROXY-CANARY"),
        (Table::Mangle, "KUBE-PROXY-CANARY"),
        (Table::Nat, "KUBE-SERVICES"),
        (Table::Nat, "KUBE-NODEPORTS"),
        (Table::Nat, "KUBE-POSTROUTING"),
        (Table::Nat, names::MARK_OUTSIDE),
        (Table::Nat, "KUBE-MARK-MASQ"),
    ],
    telling: &[(Table::Nat, "KUBE-NODEPORTS")],
    // `XLB` was `EXT` before 1.24.
    port_prefixes: &["KUBE-FW-", "KUBE-EXT-", "KUBE-XLB-", "KUBE-SVC-", "KUBE-SVL-", "KUBE-SEP-"],
    our_prefix: None,
    upstream_only: &[],
    jumps: &[
        (Table::Nat, "PREROUTING", "KUBE-SERVICES", PORTALS),
        (Table::Nat, "OUTPUT", "KUBE-SERVICES", PORTALS),
        (Table::Nat, "POSTROUTING", "KUBE-POSTROUTING", "kubernetes postrouting rules"),
        (Table::Filter, "INPUT", "KUBE-EXTERNAL-SERVICES", EXTERNAL_PORTALS),
        (Table::Filter, "FORWARD", "KUBE-EXTERNAL-SERVICES", EXTERNAL_PORTALS),
        (Table::Filter, "INPUT", "KUBE-NODEPORTS", "kubernetes health check service ports"),
        (Table::Filter, "INPUT", "KUBE-SERVICES", PORTALS),
        (Table::Filter, "FORWARD", "KUBE-SERVICES", PORTALS),
        (Table::Filter, "OUTPUT", "KUBE-SERVICES", PORTALS),
        (Table::Filter, "FORWARD", "KUBE-FORWARD", "kubernetes forwarding rules"),
        (Table::Filter, "INPUT", "KUBE-PROXY-FIREWALL", FIREWALL),
        (Table::Filter, "OUTPUT", "KUBE-PROXY-FIREWALL", FIREWALL),
        (Table::Filter, "FORWARD", "KUBE-PROXY-FIREWALL", FIREWALL),
    ],
    is_ours_alone,
    is_our_jump: |_| false,
};

const PORTALS: &str = "kubernetes service portals";
const EXTERNAL_PORTALS: &str = "kubernetes externally-visible service portals";
const FIREWALL: &str = "kubernetes load balancer firewall";

/// Most of its chains are upstream's, too.
fn is_ours_alone(table: Table, chain: &str) -> bool {
    (table, chain) == (Table::Nat, names::MARK_OUTSIDE)
}
