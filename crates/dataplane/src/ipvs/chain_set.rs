//! The chains of iptables that this mode writes, and those that upstream's IPVS mode has and no other mode.

use kernel::xtables::Table;

use super::names::{PREFIX, WORDS};
use crate::upstream::ChainSet;

pub(super) static CHAINS: ChainSet = ChainSet {
    mode: super::mode::NAME,
    has_own_cleanup: true,
    chains: &[
        (Table::Filter, "KUBE-PROXY-CANARY"),
        (Table::Nat, "KUBE-PROXY-CANARY"),
        (Table::Mangle, "KUBE-PROXY-CANARY"),
    ],
    telling: &[],
    port_prefixes: &[],
    our_prefix: Some(PREFIX),
    // Its `KUBE-FIREWALL`, until 1.24, was in nat; kubelet's is in filter.
    upstream_only: &[
        (Table::Filter, "KUBE-NODE-PORT"),
        (Table::Filter, "KUBE-SOURCE-RANGES-FIREWALL"),
        (Table::Filter, "KUBE-IPVS-FILTER"),
        (Table::Filter, "KUBE-IPVS-OUT-FILTER"),
        (Table::Nat, "KUBE-NODE-PORT"),
        (Table::Nat, "KUBE-LOAD-BALANCER"),
        (Table::Nat, "KUBE-FIREWALL"),
    ],
    jumps: &[
        (Table::Filter, "INPUT", "KUBE-NODE-PORT", "kubernetes health check rules"),
        (Table::Filter, "INPUT", "KUBE-PROXY-FIREWALL", FIREWALL),
        (Table::Filter, "FORWARD", "KUBE-PROXY-FIREWALL", FIREWALL),
        (Table::Filter, "INPUT", "KUBE-IPVS-FILTER", ACCESS),
        (Table::Filter, "OUTPUT", "KUBE-IPVS-OUT-FILTER", ACCESS),
    ],
    is_ours_alone: |_, _| false,
    is_our_jump,
};

const FIREWALL: &str = "kube-proxy firewall rules";
const ACCESS: &str = "kubernetes ipvs access filter";

/// Whatever else such a rule asks for, its comment and its target are ours alone.
fn is_our_jump(words: &[&str]) -> bool {
    let has_comment = words.windows(2).any(|pair| pair == ["--comment", WORDS]);
    has_comment && matches!(words, [.., "-j", target] if target.starts_with(PREFIX))
}
