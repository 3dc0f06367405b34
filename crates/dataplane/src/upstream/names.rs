//! Which chains and which jumps are a kube-proxy's, upstream's or ours, and whose of the two, where that can be told.
//!
//! In: a table and a name, or a rule as `iptables-save` prints it. Out: whether upstream's iptables mode made it, in any version
//! since 1.8 or so, its IPVS mode, or its userspace mode, which ended with 1.25 and whose own cleanup nobody has any more; or ours of
//! these modes.
//!
//! Absent on purpose: kubelet's `KUBE-FIREWALL`, `KUBE-KUBELET-CANARY` and `KUBE-IPTABLES-HINT`, which upstream's own cleanup
//! leaves alone, too.

use std::collections::BTreeSet;
use std::fmt;

use kernel::xtables::{Table, words};

use crate::{iptables, ipvs, userspace};

/// Lets a masquerade mark, and what is established, pass through `FORWARD`.
pub(super) const FORWARD: &str = "KUBE-FORWARD";
/// Sets the mark by which connections are masqueraded, in our mode as in theirs.
pub(super) const MARK_MASQ: &str = "KUBE-MARK-MASQ";

/// Ours alone: pods in several networks of one family. It leads to the mark.
const MARK_OUTSIDE: &str = "KUBE-SVC-MARK-OUTSIDE";

/// The chains of both modes.
const COMMON: &[(Table, &str)] = &[
    (Table::Filter, "KUBE-SERVICES"),
    (Table::Filter, "KUBE-EXTERNAL-SERVICES"),
    (Table::Filter, "KUBE-NODEPORTS"),
    (Table::Filter, "KUBE-PROXY-FIREWALL"),
    (Table::Filter, CANARY),
    (Table::Nat, CANARY),
    (Table::Mangle, CANARY),
];
const CANARY: &str = "KUBE-PROXY-CANARY";
/// In nat, the IPVS mode of upstream calls its own `KUBE-NODE-PORT`.
const NAT_NODE_PORTS: &str = "KUBE-NODEPORTS";
/// Those of the iptables mode.
const IPTABLES: &[(Table, &str)] = &[
    (Table::Filter, FORWARD),
    (Table::Nat, "KUBE-SERVICES"),
    (Table::Nat, NAT_NODE_PORTS),
    (Table::Nat, "KUBE-POSTROUTING"),
    (Table::Nat, MARK_OUTSIDE),
    (Table::Nat, MARK_MASQ),
];
/// Those of the userspace mode.
const USERSPACE: &[(Table, &str)] = &[
    (Table::Filter, "KUBE-NODEPORT-NON-LOCAL"),
    (Table::Nat, "KUBE-PORTALS-CONTAINER"),
    (Table::Nat, "KUBE-PORTALS-HOST"),
    (Table::Nat, "KUBE-NODEPORT-CONTAINER"),
    (Table::Nat, "KUBE-NODEPORT-HOST"),
];
/// Those of upstream's IPVS mode that no other mode has. Its `KUBE-FIREWALL`, until 1.24, was in nat; kubelet's is in filter.
const UPSTREAMS_IPVS: &[(Table, &str)] = &[
    (Table::Filter, "KUBE-NODE-PORT"),
    (Table::Filter, "KUBE-SOURCE-RANGES-FIREWALL"),
    (Table::Filter, "KUBE-IPVS-FILTER"),
    (Table::Filter, "KUBE-IPVS-OUT-FILTER"),
    (Table::Nat, "KUBE-NODE-PORT"),
    (Table::Nat, "KUBE-LOAD-BALANCER"),
    (Table::Nat, "KUBE-FIREWALL"),
];
/// Chains of one service port or endpoint, each leading to those behind it; all are in nat. `XLB` was `EXT` before 1.24. The last
/// three are those of our userspace mode.
const PREFIXES: &[(&str, Rules)] = &[
    ("KUBE-FW-", Rules::Iptables),
    ("KUBE-EXT-", Rules::Iptables),
    ("KUBE-XLB-", Rules::Iptables),
    ("KUBE-SVC-", Rules::Iptables),
    ("KUBE-SVL-", Rules::Iptables),
    ("KUBE-SEP-", Rules::Iptables),
    ("KUBE-FROM-C-", Rules::Userspace),
    ("KUBE-FROM-H-", Rules::Userspace),
    ("KUBE-POLICY-", Rules::Userspace),
];
/// So many characters of a hash follow the prefix.
const HASH: usize = 16;

const PORTALS: &str = "kubernetes service portals";
const EXTERNAL_PORTALS: &str = "kubernetes externally-visible service portals";
const HEALTH: &str = "kubernetes health check service ports";
const RULES: &str = "kubernetes forwarding rules";
const FIREWALL: &str = "kubernetes load balancer firewall";
const POSTROUTING: &str = "kubernetes postrouting rules";
const CLUSTER_IPS: &str = "handle ClusterIPs; NOTE: this must be before the NodePort rules";
const NODE_PORTS: &str = "handle service NodePorts; NOTE: this must be the last rule in the chain";
const HEALTH_RULES: &str = "kubernetes health check rules";
const FIREWALL_RULES: &str = "kube-proxy firewall rules";
const ACCESS: &str = "kubernetes ipvs access filter";
const NON_LOCAL: &str = "Ensure that non-local NodePort traffic can flow";

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
    (Table::Filter, "INPUT", "KUBE-NODEPORT-NON-LOCAL", NON_LOCAL),
    (Table::Nat, "PREROUTING", "KUBE-PORTALS-CONTAINER", CLUSTER_IPS),
    (Table::Nat, "OUTPUT", "KUBE-PORTALS-HOST", CLUSTER_IPS),
    (Table::Nat, "PREROUTING", "KUBE-NODEPORT-CONTAINER", NODE_PORTS),
    (Table::Nat, "OUTPUT", "KUBE-NODEPORT-HOST", NODE_PORTS),
    (Table::Filter, "INPUT", "KUBE-NODE-PORT", HEALTH_RULES),
    (Table::Filter, "INPUT", "KUBE-PROXY-FIREWALL", FIREWALL_RULES),
    (Table::Filter, "FORWARD", "KUBE-PROXY-FIREWALL", FIREWALL_RULES),
    (Table::Filter, "INPUT", "KUBE-IPVS-FILTER", ACCESS),
    (Table::Filter, "OUTPUT", "KUBE-IPVS-OUT-FILTER", ACCESS),
];

/// The modes that write rules of iptables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rules {
    /// The iptables mode.
    Iptables,
    /// The userspace mode.
    Userspace,
    /// Our IPVS mode, whose chains have names of their own.
    Ipvs,
}

impl Rules {
    /// Whether a chain of this name is this mode's.
    pub(super) fn has(self, table: Table, chain: &str) -> bool {
        let own = match self {
            Self::Iptables => IPTABLES,
            Self::Userspace => USERSPACE,
            Self::Ipvs => return chain == CANARY || chain.starts_with(ipvs::PREFIX),
        };
        let is_of_a_port = || rank(chain).is_some_and(|rank| PREFIXES[rank].1 == self);
        COMMON.contains(&(table, chain))
            || own.contains(&(table, chain))
            || table == Table::Nat && is_of_a_port()
    }
}

/// Who wrote some chains, in which mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Writer {
    OurIptables,
    OurUserspace,
    OurIpvs,
    UpstreamsIpvs,
    /// Upstream's iptables mode or ours: names, rules and comments are the same.
    Iptables,
    /// Upstream's userspace mode or ours.
    Userspace,
}

/// Who wrote some chains, as far as their names and the rules that lead to them tell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Whose(BTreeSet<Writer>);

impl Whose {
    /// Whose these chains are, as far as their names tell. Those that several modes have tell nothing.
    pub(super) fn of_chains<'a>(table: Table, chains: impl IntoIterator<Item = &'a str>) -> Self {
        Self(chains.into_iter().filter_map(|chain| writer(table, chain)).collect())
    }

    /// Whose this rule is, which leads to a chain.
    pub(super) fn of_jump(rule: &str) -> Self {
        let words = words(rule);
        let words: Vec<&str> = words.iter().map(|word| &**word).collect();
        Self(userspace::leftovers::is_our_jump(&words).then_some(Writer::OurUserspace).into_iter().collect())
    }

    /// Those of both.
    pub(super) fn add(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// Whether all of it is of the IPVS mode.
    pub fn is_ipvs(&self) -> bool {
        !self.0.is_empty()
            && self.0.iter().all(|writer| [Writer::OurIpvs, Writer::UpstreamsIpvs].contains(writer))
    }

    /// The mode whose cleanup removes it.
    pub fn cleanup_mode(&self) -> &'static str {
        if self.is_ipvs() { "ipvs" } else { "iptables" }
    }

    /// Whether all of it is known to be ours.
    pub fn is_ours(&self) -> bool {
        let is_ours =
            |writer: &Writer| [Writer::OurIptables, Writer::OurUserspace, Writer::OurIpvs].contains(writer);
        !self.0.is_empty() && self.certain().all(|writer| is_ours(&writer))
    }

    /// One chain that only ours has tells whose the others of that mode are.
    fn certain(&self) -> impl Iterator<Item = Writer> {
        let is_known = |writer: &Writer| match writer {
            Writer::Iptables => self.0.contains(&Writer::OurIptables),
            Writer::Userspace => self.0.contains(&Writer::OurUserspace),
            _ => false,
        };
        self.0.iter().copied().filter(move |writer| !is_known(writer))
    }
}

fn writer(table: Table, chain: &str) -> Option<Writer> {
    let is_of_an_iptables_port =
        || table == Table::Nat && rank(chain).is_some_and(|rank| PREFIXES[rank].1 == Rules::Iptables);
    if chain.starts_with(ipvs::PREFIX) {
        Some(Writer::OurIpvs)
    } else if UPSTREAMS_IPVS.contains(&(table, chain)) {
        Some(Writer::UpstreamsIpvs)
    } else if iptables::leftovers::is_ours_alone(table, chain) {
        Some(Writer::OurIptables)
    } else if userspace::leftovers::is_ours_alone(table, chain) {
        Some(Writer::OurUserspace)
    } else if USERSPACE.contains(&(table, chain)) {
        Some(Writer::Userspace)
    } else if (table, chain) == (Table::Nat, NAT_NODE_PORTS) || is_of_an_iptables_port() {
        Some(Writer::Iptables)
    } else {
        None
    }
}

impl fmt::Display for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OurIptables => "our iptables mode",
            Self::OurUserspace => "our userspace mode",
            Self::OurIpvs => "our ipvs mode",
            Self::UpstreamsIpvs => "upstream's ipvs mode",
            Self::Iptables => "the iptables mode (upstream's or ours)",
            Self::Userspace => "the userspace mode (upstream's or ours)",
        })
    }
}

impl fmt::Display for Whose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let writers: Vec<String> = self.certain().map(|writer| writer.to_string()).collect();
        if writers.is_empty() {
            f.write_str("kube-proxy (upstream's or ours)")
        } else {
            f.write_str(&writers.join(" and "))
        }
    }
}

/// Whether a chain of this name is upstream's in this table.
pub fn is_theirs(table: Table, chain: &str) -> bool {
    let is_of_a_mode =
        [Rules::Iptables, Rules::Userspace, Rules::Ipvs].iter().any(|mode| mode.has(table, chain));
    is_of_a_mode || UPSTREAMS_IPVS.contains(&(table, chain))
}

/// The place of a chain of one service port or endpoint in the order in which they lead to each other; `None` for the chains that
/// there is one of.
pub(super) fn rank(chain: &str) -> Option<usize> {
    PREFIXES.iter().position(|(prefix, _)| chain.strip_prefix(prefix).is_some_and(is_hash))
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

/// Whether a rule of a chain that every table has is one of upstream's jumps: its comment, at most `--ctstate NEW` or, to node
/// ports, `--dst-type LOCAL` and what leaves loopback out, and nothing else. Whoever leads to the same chain in another way has
/// reasons of their own.
pub(super) fn is_jump(table: Table, chain: &str, rule: &str) -> bool {
    let words = words(rule);
    let words: Vec<&str> = words.iter().map(|word| &**word).collect();
    if is_of_our_ipvs(&words) {
        return true;
    }
    let Some((comment, target)) = jump(&words) else { return false };
    JUMPS.contains(&(table, chain, target, comment))
}

/// Whatever else such a rule asks for, its comment and its target are ours alone.
fn is_of_our_ipvs(words: &[&str]) -> bool {
    let has_comment = words.windows(2).any(|pair| pair == ["--comment", ipvs::WORDS]);
    has_comment && matches!(words, [.., "-j", target] if target.starts_with(ipvs::PREFIX))
}

/// Comment and target; older versions had no `--ctstate`, and the programs print matches in any order.
fn jump<'a>(words: &[&'a str]) -> Option<(&'a str, &'a str)> {
    let but_loopback = [["!", "-d", "127.0.0.0/8"], ["!", "-d", "::1/128"]];
    let words = but_loopback.iter().find_map(|but| words.strip_prefix(but)).unwrap_or(words);
    match words {
        ["-m", "addrtype", "--dst-type", "LOCAL", "-m", "comment", "--comment", comment, "-j", target]
            if *comment == NODE_PORTS =>
        {
            Some((comment, target))
        }
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
            (Table::Nat, "KUBE-LOAD-BALANCER", true),
            (Table::Nat, "KUBE-FIREWALL", true),
            (Table::Nat, "KUBE-MARK-DROP", false),
            (Table::Filter, "KUBE-IPVS-FILTER", true),
            (Table::Mangle, "PORTWAY-OUTSIDE", true),
            (Table::Mangle, "KUBE-LOAD-BALANCER", false),
            (Table::Nat, "KUBE-PORTALS-HOST", true),
            (Table::Nat, "KUBE-FROM-C-XPGD46QRK7WJZT7O", true),
            (Table::Filter, "KUBE-NODEPORT-NON-LOCAL", true),
            (Table::Filter, "KUBE-PORTALS-HOST", false),
            (Table::Nat, "DOCKER", false),
        ];
        for (table, chain, expected) in cases {
            assert_eq!(is_theirs(table, chain), expected, "{table} {chain}");
        }
    }

    #[test]
    fn whose_chains_are_is_told_where_only_one_has_them() {
        let cases: [(&[(Table, &str)], &str); 9] = [
            (&[(Table::Nat, "KUBE-PORTALS-HOST")], "the userspace mode (upstream's or ours)"),
            (
                &[(Table::Nat, "KUBE-PORTALS-HOST"), (Table::Nat, "KUBE-POLICY-XPGD46QRK7WJZT7O")],
                "our userspace mode",
            ),
            (&[(Table::Nat, "KUBE-SVC-XPGD46QRK7WJZT7O")], "the iptables mode (upstream's or ours)"),
            (&[(Table::Nat, "KUBE-NODEPORTS"), (Table::Nat, "KUBE-SVC-MARK-OUTSIDE")], "our iptables mode"),
            (&[(Table::Nat, "PORTWAY-SERVICES"), (Table::Filter, CANARY)], "our ipvs mode"),
            (&[(Table::Nat, "KUBE-LOAD-BALANCER"), (Table::Nat, "KUBE-SERVICES")], "upstream's ipvs mode"),
            (
                &[(Table::Nat, "PORTWAY-SERVICES"), (Table::Nat, "KUBE-NODEPORTS")],
                "our ipvs mode and the iptables mode (upstream's or ours)",
            ),
            (
                &[(Table::Filter, "KUBE-SERVICES"), (Table::Filter, FORWARD)],
                "kube-proxy (upstream's or ours)",
            ),
            (&[], "kube-proxy (upstream's or ours)"),
        ];
        for (chains, expected) in cases {
            let mut whose = Whose::default();
            for (table, chain) in chains {
                whose.add(Whose::of_chains(*table, [*chain]));
            }
            assert_eq!(whose.to_string(), expected);
            assert_eq!(
                whose.is_ours(),
                expected.starts_with("our") && !expected.contains("upstream"),
                "{expected}"
            );
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
            ("PREROUTING", "! -i lo -m comment --comment \"portway ipvs\" -j PORTWAY-GUARD", true),
            ("PREROUTING", "-m comment --comment mine -j PORTWAY-GUARD", false),
            ("PREROUTING", "", false),
        ];
        for (chain, rule, expected) in cases {
            assert_eq!(is_jump(Table::Nat, chain, rule), expected, "{chain} {rule}");
        }
    }
}
