//! Which chains and which jumps are upstream kube-proxy's.
//!
//! In: a table and a name, or a rule as `iptables-save` prints it. Out: whether upstream's iptables mode made it, in any version
//! since 1.8 or so.
//!
//! Absent on purpose: kubelet's `KUBE-FIREWALL`, `KUBE-KUBELET-CANARY` and `KUBE-IPTABLES-HINT`, which upstream's own cleanup
//! leaves alone, too; and the chains of its IPVS mode.

use kernel::xtables::{Table, words};

/// Lets a masquerade mark, and what is established, pass through `FORWARD`.
pub(super) const FORWARD: &str = "KUBE-FORWARD";
/// Sets the mark by which connections are masqueraded, in our mode as in theirs.
pub(super) const MARK_MASQ: &str = "KUBE-MARK-MASQ";

/// Ours alone: pods in several networks of one family. It leads to the mark.
const MARK_OUTSIDE: &str = "KUBE-SVC-MARK-OUTSIDE";

const NAT: &[&str] =
    &["KUBE-SERVICES", "KUBE-NODEPORTS", "KUBE-POSTROUTING", MARK_OUTSIDE, MARK_MASQ, "KUBE-PROXY-CANARY"];
const FILTER: &[&str] = &[
    "KUBE-SERVICES",
    "KUBE-EXTERNAL-SERVICES",
    FORWARD,
    "KUBE-NODEPORTS",
    "KUBE-PROXY-FIREWALL",
    "KUBE-PROXY-CANARY",
];
const MANGLE: &[&str] = &["KUBE-PROXY-CANARY"];
/// Chains of one service port or endpoint, each leading to those behind it; all are in nat. `XLB` was `EXT` before 1.24.
const PREFIXES: &[&str] = &["KUBE-FW-", "KUBE-EXT-", "KUBE-XLB-", "KUBE-SVC-", "KUBE-SVL-", "KUBE-SEP-"];
/// So many characters of a hash follow the prefix.
const HASH: usize = 16;

const PORTALS: &str = "kubernetes service portals";
const EXTERNAL_PORTALS: &str = "kubernetes externally-visible service portals";
const HEALTH: &str = "kubernetes health check service ports";
const RULES: &str = "kubernetes forwarding rules";
const FIREWALL: &str = "kubernetes load balancer firewall";
const POSTROUTING: &str = "kubernetes postrouting rules";

/// From which chain, to which, with which comment.
const JUMPS: &[(Table, &str, &str, &str)] = &[
    (Table::Nat, "PREROUTING", "KUBE-SERVICES", PORTALS),
    (Table::Nat, "OUTPUT", "KUBE-SERVICES", PORTALS),
    (Table::Nat, "POSTROUTING", "KUBE-POSTROUTING", POSTROUTING),
    (Table::Filter, "INPUT", "KUBE-EXTERNAL-SERVICES", EXTERNAL_PORTALS),
    (Table::Filter, "FORWARD", "KUBE-EXTERNAL-SERVICES", EXTERNAL_PORTALS),
    (Table::Filter, "INPUT", "KUBE-NODEPORTS", HEALTH),
    (Table::Filter, "INPUT", "KUBE-SERVICES", PORTALS),
    (Table::Filter, "FORWARD", "KUBE-SERVICES", PORTALS),
    (Table::Filter, "OUTPUT", "KUBE-SERVICES", PORTALS),
    (Table::Filter, "FORWARD", FORWARD, RULES),
    (Table::Filter, "INPUT", "KUBE-PROXY-FIREWALL", FIREWALL),
    (Table::Filter, "OUTPUT", "KUBE-PROXY-FIREWALL", FIREWALL),
    (Table::Filter, "FORWARD", "KUBE-PROXY-FIREWALL", FIREWALL),
];

/// Whether a chain of this name is upstream's in this table.
pub fn is_theirs(table: Table, chain: &str) -> bool {
    match table {
        Table::Nat => NAT.contains(&chain) || rank(chain).is_some(),
        Table::Filter => FILTER.contains(&chain),
        Table::Mangle => MANGLE.contains(&chain),
    }
}

/// The place of a chain of one service port or endpoint in the order in which they lead to each other; `None` for the chains that
/// there is one of.
pub(super) fn rank(chain: &str) -> Option<usize> {
    PREFIXES.iter().position(|prefix| chain.strip_prefix(prefix).is_some_and(is_hash))
}

fn is_hash(text: &str) -> bool {
    text.len() == HASH && text.bytes().all(|letter| matches!(letter, b'A'..=b'Z' | b'2'..=b'7'))
}

/// Where a rule leads, if it leads to a chain or an extension.
pub(super) fn target(rule: &str) -> Option<String> {
    let mut words = words(rule).into_iter();
    words.find(|word| ["-j", "-g"].contains(&&**word))?;
    words.next().map(std::borrow::Cow::into_owned)
}

/// Whether a rule of a chain that every table has is one of upstream's jumps: its comment, at most `--ctstate NEW`, and nothing
/// else. Whoever leads to the same chain in another way has reasons of their own.
pub(super) fn is_jump(table: Table, chain: &str, rule: &str) -> bool {
    let words = words(rule);
    let words: Vec<&str> = words.iter().map(|word| &**word).collect();
    let Some((comment, target)) = jump(&words) else { return false };
    JUMPS.contains(&(table, chain, target, comment))
}

/// Comment and target; older versions had no `--ctstate`, and the programs print matches in any order.
fn jump<'a>(words: &[&'a str]) -> Option<(&'a str, &'a str)> {
    match words {
        ["-m", "conntrack", "--ctstate", "NEW", "-m", "comment", "--comment", comment, "-j", target]
        | ["-m", "comment", "--comment", comment, "-m", "conntrack", "--ctstate", "NEW", "-j", target]
        | ["-m", "comment", "--comment", comment, "-j", target] => Some((comment, target)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kubelets_chains_and_strangers_are_not_theirs() {
        let cases = [
            (Table::Nat, "KUBE-SERVICES", true),
            (Table::Nat, "KUBE-SVC-XPGD46QRK7WJZT7O", true),
            (Table::Nat, "KUBE-SEP-SXIVWICOYRO3J4NJ", true),
            (Table::Nat, "KUBE-SVC-MINE", false),
            (Table::Nat, "KUBE-SVC-XPGD46QRK7WJZT71", false),
            (Table::Filter, "KUBE-SVC-XPGD46QRK7WJZT7O", false),
            (Table::Filter, "KUBE-FORWARD", true),
            (Table::Filter, "KUBE-FIREWALL", false),
            (Table::Mangle, "KUBE-PROXY-CANARY", true),
            (Table::Mangle, "KUBE-KUBELET-CANARY", false),
            (Table::Mangle, "KUBE-IPTABLES-HINT", false),
            (Table::Mangle, "KUBE-SERVICES", false),
            (Table::Nat, "KUBE-LOAD-BALANCER", false),
            (Table::Nat, "DOCKER", false),
        ];
        for (table, chain, expected) in cases {
            assert_eq!(is_theirs(table, chain), expected, "{table} {chain}");
        }
    }

    #[test]
    fn a_jump_is_theirs_by_place_comment_and_matches() {
        let cases = [
            ("PREROUTING", "-m comment --comment \"kubernetes service portals\" -j KUBE-SERVICES", true),
            ("INPUT", "-m comment --comment \"kubernetes service portals\" -j KUBE-SERVICES", false),
            ("PREROUTING", "-j KUBE-SERVICES", false),
            (
                "PREROUTING",
                "-i eth0 -m comment --comment \"kubernetes service portals\" -j KUBE-SERVICES",
                false,
            ),
            ("PREROUTING", "-m comment --comment \"kubernetes service portals\" -j KUBE-POSTROUTING", false),
            ("PREROUTING", "-m comment --comment mine -j KUBE-SERVICES", false),
            ("PREROUTING", "", false),
        ];
        for (chain, rule, expected) in cases {
            assert_eq!(is_jump(Table::Nat, chain, rule), expected, "{chain} {rule}");
        }
    }
}
