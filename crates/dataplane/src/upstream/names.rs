//! Which chains and which jumps are a kube-proxy's, upstream's or ours, and whose of the two, where that can be told.
//!
//! In: a table and a name, or a rule as `iptables-save` prints it. Out: whether one of the known modes made it, in any version of
//! upstream since 1.8 or so, or in ours.
//!
//! Absent on purpose: the names themselves, which each mode's folder has in a [`ChainSet`]; and kubelet's `KUBE-FIREWALL`,
//! `KUBE-KUBELET-CANARY` and `KUBE-IPTABLES-HINT`, which upstream's own cleanup leaves alone, too.

use std::collections::BTreeSet;
use std::fmt;

use kernel::xtables::{Table, words};

/// Lets a masquerade mark, and what is established, pass through `FORWARD`.
pub(super) const FORWARD: &str = "KUBE-FORWARD";
/// Sets the mark by which connections are masqueraded, in our modes as in theirs.
pub(super) const MARK_MASQ: &str = "KUBE-MARK-MASQ";
/// So many characters of a hash follow the prefix of a chain of one service port.
const HASH: usize = 16;

/// A chain of one table.
pub type Named = (Table, &'static str);

/// A jump to a chain: from where, to where, with which comment.
pub type JumpTo = (Table, &'static str, &'static str, &'static str);

/// The chains and jumps of iptables that one mode writes, ours or upstream's of the same name.
#[derive(Debug)]
pub struct ChainSet {
    /// The mode's name.
    pub mode: &'static str,
    /// Whether the cleanup of this mode alone removes them. Chains of all others go together, since they share some.
    pub has_own_cleanup: bool,
    /// Chains of which there is one.
    pub chains: &'static [Named],
    /// Those of [`Self::chains`] that no other mode has, so that they tell whose they are.
    pub telling: &'static [Named],
    /// How names of chains of one service port or endpoint begin; a hash follows. All are in nat, and each leads to those behind it.
    pub port_prefixes: &'static [&'static str],
    /// How the name of every chain of ours begins, where ours shares none with upstream.
    pub our_prefix: Option<&'static str>,
    /// Chains of upstream's mode of this name that ours never has.
    pub upstream_only: &'static [Named],
    /// Jumps from chains that every table has.
    pub jumps: &'static [JumpTo],
    /// Whether ours alone has a chain of this name.
    pub is_ours_alone: fn(Table, &str) -> bool,
    /// Whether ours alone has a rule with these words, as `iptables-save` prints it.
    pub is_our_jump: fn(&[&str]) -> bool,
}

impl ChainSet {
    /// Whether a chain of this name is one that our mode writes.
    pub(super) fn has(&self, table: Table, chain: &str) -> bool {
        self.chains.contains(&(table, chain)) || self.is_prefixed(chain) || self.has_port(table, chain)
    }

    fn is_prefixed(&self, chain: &str) -> bool {
        self.our_prefix.is_some_and(|prefix| chain.starts_with(prefix))
    }

    fn has_port(&self, table: Table, chain: &str) -> bool {
        table == Table::Nat && self.port_prefixes.iter().any(|prefix| is_of_port(chain, prefix))
    }

    fn writer(&self, table: Table, chain: &str) -> Option<Writer> {
        let origin = if self.is_prefixed(chain) || (self.is_ours_alone)(table, chain) {
            Origin::Ours
        } else if self.upstream_only.contains(&(table, chain)) {
            Origin::Upstream
        } else if self.telling.contains(&(table, chain)) || self.has_port(table, chain) {
            Origin::Either
        } else {
            return None;
        };
        Some(self.written_by(origin))
    }

    fn written_by(&self, origin: Origin) -> Writer {
        Writer { origin, mode: self.mode, has_own_cleanup: self.has_own_cleanup }
    }
}

/// The chains of all modes that are known.
#[derive(Debug)]
pub struct KnownChains {
    sets: Vec<&'static ChainSet>,
}

impl KnownChains {
    pub fn of(sets: impl IntoIterator<Item = &'static ChainSet>) -> Self {
        Self { sets: sets.into_iter().collect() }
    }

    /// The modes whose cleanup removes the chains of every mode.
    pub fn shared_cleanup(&self) -> Vec<&'static str> {
        self.sets.iter().filter(|set| !set.has_own_cleanup).map(|set| set.mode).collect()
    }

    /// The first of these.
    pub fn cleanup_mode(&self) -> &'static str {
        self.shared_cleanup().first().copied().unwrap_or_default()
    }

    /// Whether a chain of this name is a kube-proxy's in this table.
    pub fn is_theirs(&self, table: Table, chain: &str) -> bool {
        self.sets.iter().any(|set| set.has(table, chain) || set.upstream_only.contains(&(table, chain)))
    }

    /// The place of a chain of one service port or endpoint in the order in which they lead to each other; `None` for the chains that
    /// there is one of.
    pub(super) fn rank(&self, chain: &str) -> Option<usize> {
        let mut prefixes = self.sets.iter().flat_map(|set| set.port_prefixes);
        prefixes.position(|prefix| is_of_port(chain, prefix))
    }

    /// Whose these chains are, as far as their names tell. Those that several modes have tell nothing.
    pub(super) fn whose<'a>(&self, table: Table, chains: impl IntoIterator<Item = &'a str>) -> Whose {
        let writer = |chain| self.sets.iter().find_map(|set| set.writer(table, chain));
        Whose(chains.into_iter().filter_map(writer).collect())
    }

    /// Whose this rule is, which leads to a chain.
    pub(super) fn whose_jump(&self, rule: &str) -> Whose {
        let words = words(rule);
        let words: Vec<&str> = words.iter().map(|word| &**word).collect();
        let ours = self.sets.iter().filter(|set| (set.is_our_jump)(&words));
        Whose(ours.map(|set| set.written_by(Origin::Ours)).collect())
    }

    /// Whether a rule of a chain that every table has is a jump of a kube-proxy: its comment, at most `--ctstate NEW` or, to node
    /// ports, `--dst-type LOCAL` and what leaves loopback out, and nothing else. Whoever leads to the same chain in another way has
    /// reasons of their own.
    pub(super) fn is_jump(&self, table: Table, chain: &str, rule: &str) -> bool {
        let words = words(rule);
        let words: Vec<&str> = words.iter().map(|word| &**word).collect();
        // Whatever else a rule to a chain with a prefix of ours asks for, it is ours.
        if self.sets.iter().any(|set| set.our_prefix.is_some() && (set.is_our_jump)(&words)) {
            return true;
        }
        let Some((comment, target)) = jump(&words) else { return false };
        self.sets.iter().any(|set| set.jumps.contains(&(table, chain, target, comment)))
    }
}

fn is_of_port(chain: &str, prefix: &str) -> bool {
    chain.strip_prefix(prefix).is_some_and(is_hash)
}

fn is_hash(text: &str) -> bool {
    text.len() == HASH && text.bytes().all(|letter| matches!(letter, b'A'..=b'Z' | b'2'..=b'7'))
}

/// Who wrote some chains, in which mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Writer {
    origin: Origin,
    mode: &'static str,
    has_own_cleanup: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Origin {
    Ours,
    Upstream,
    /// Names, rules and comments are the same.
    Either,
}

/// Who wrote some chains, as far as their names and the rules that lead to them tell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Whose(BTreeSet<Writer>);

impl Whose {
    /// Those of both.
    pub(super) fn add(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// The mode whose cleanup removes it.
    pub fn cleanup_mode(&self, known: &KnownChains) -> &'static str {
        match self.0.first() {
            Some(Writer { mode, has_own_cleanup: true, .. }) if self.0.iter().all(|w| w.mode == *mode) => {
                mode
            }
            _ => known.cleanup_mode(),
        }
    }

    /// Whether all of it is known to be ours.
    pub fn is_ours(&self) -> bool {
        !self.0.is_empty() && self.certain().all(|writer| writer.origin == Origin::Ours)
    }

    /// One chain that only ours has tells whose the others of that mode are.
    fn certain(&self) -> impl Iterator<Item = Writer> {
        let is_known = |writer: &Writer| {
            writer.origin == Origin::Either && self.0.contains(&Writer { origin: Origin::Ours, ..*writer })
        };
        self.0.iter().copied().filter(move |writer| !is_known(writer))
    }
}

impl fmt::Display for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { mode, .. } = self;
        match self.origin {
            Origin::Ours => write!(f, "our {mode} mode"),
            Origin::Upstream => write!(f, "upstream's {mode} mode"),
            Origin::Either => write!(f, "the {mode} mode (upstream's or ours)"),
        }
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

/// Where a rule leads, if it leads to a chain or an extension.
pub(super) fn target(rule: &str) -> Option<String> {
    let mut words = words(rule).into_iter();
    words.find(|word| ["-j", "-g"].contains(&&**word))?;
    words.next().map(std::borrow::Cow::into_owned)
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

/// Of the jumps to node ports, which must be the last rule of their chain.
pub(crate) const NODE_PORTS: &str = "handle service NodePorts; NOTE: this must be the last rule in the chain";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::known_chains;

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
            assert_eq!(known_chains().is_theirs(table, chain), expected, "{table} {chain}");
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
            (&[(Table::Nat, "PORTWAY-SERVICES"), (Table::Filter, "KUBE-PROXY-CANARY")], "our ipvs mode"),
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
                whose.add(known_chains().whose(*table, [*chain]));
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
            assert_eq!(known_chains().is_jump(Table::Nat, chain, rule), expected, "{chain} {rule}");
        }
    }
}
