//! Tables and rules from text: what `iptables-save` prints, of both programs, or our own restore text.
//!
//! In: text. Out: [`Rule`]s where the types can say all that the text says; the text itself where they cannot, so that a rule
//! of somebody else is neither an error nor lost.
//!
//! Absent on purpose: long names of options (`--source`) that neither the programs nor we print. Such a rule stays text.

mod reader;
mod target;

use std::fmt;

use super::rule::Rule;
use super::saved::{Saved, words};
use reader::Reader;

/// A table as it was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FoundTable {
    /// Its chains, in the order of the text.
    pub chains: Vec<FoundChain>,
}

/// A chain as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundChain {
    /// Its name.
    pub name: String,
    /// What becomes of a packet at its end, such as `ACCEPT`; `None` for a chain that the table does not always have.
    pub policy: Option<String>,
    /// Its rules, in order.
    pub rules: Vec<FoundRule>,
}

/// A rule as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FoundRule {
    /// All of it can be said by types.
    Known(Rule),
    /// The text of one that cannot, as it stands after `-A CHAIN `.
    Unknown(String),
}

impl FoundTable {
    /// Reads the text of one table, with or without counters.
    pub fn parse(text: &str) -> Self {
        Self::from(&Saved::parse(text))
    }

    /// A chain by its name.
    pub fn chain(&self, name: &str) -> Option<&FoundChain> {
        self.chains.iter().find(|chain| chain.name == name)
    }
}

impl From<&Saved> for FoundTable {
    fn from(saved: &Saved) -> Self {
        let chain = |chain: &super::SavedChain| FoundChain {
            name: chain.name.clone(),
            policy: chain.policy.clone(),
            rules: chain.rules.iter().map(|rule| FoundRule::parse(rule)).collect(),
        };
        Self { chains: saved.chains.iter().map(chain).collect() }
    }
}

impl FoundRule {
    /// Reads what stands after `-A CHAIN `.
    pub fn parse(text: &str) -> Self {
        Reader::new(words(text)).read().map_or_else(|| Self::Unknown(text.to_owned()), Self::Known)
    }

    /// The typed rule, if it is one.
    pub fn known(&self) -> Option<&Rule> {
        match self {
            Self::Known(rule) => Some(rule),
            Self::Unknown(_) => None,
        }
    }
}

impl From<Rule> for FoundRule {
    fn from(rule: Rule) -> Self {
        Self::Known(rule)
    }
}

impl fmt::Display for FoundRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(rule) => rule.fmt(f),
            Self::Unknown(text) => f.write_str(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What upstream writes, and what iptables 1.8.9 prints of it.
    #[test]
    fn what_was_written_and_what_is_saved_are_the_same_rule() {
        let cases = [
            (
                r#"-m comment --comment "ns1/svc1:p80 cluster IP" -m tcp -p tcp -d 172.30.0.41 --dport 80 -j KUBE-SVC-X"#,
                r#"-d 172.30.0.41/32 -p tcp -m comment --comment "ns1/svc1:p80 cluster IP" -m tcp --dport 80 -j KUBE-SVC-X"#,
            ),
            ("-j MARK --or-mark 0x004000", "-j MARK --set-xmark 0x4000/0x4000"),
            ("-j MARK --xor-mark 0x004000", "-j MARK --set-xmark 0x4000/0x0"),
            ("-j MARK --set-mark 5", "-j MARK --set-xmark 0x5/0xffffffff"),
            ("-j MARK --and-mark 0x4000", "-j MARK --set-xmark 0x0/0xffffbfff"),
            ("-m mark ! --mark 0x004000/0x004000 -j RETURN", "-m mark ! --mark 0x4000/0x4000 -j RETURN"),
            (
                "-m recent --name KUBE-SEP-A --rcheck --seconds 10800 --reap -j KUBE-SEP-A",
                "-m recent --rcheck --seconds 10800 --reap --name KUBE-SEP-A --mask 255.255.255.255 --rsource -j KUBE-SEP-A",
            ),
            (
                "-m comment --comment x -m recent --name KUBE-SEP-A --set -m tcp -p tcp -j DNAT --to-destination [fd00::8]:80",
                "-p tcp -m comment --comment x -m recent --set --name KUBE-SEP-A \
                 --mask ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff --rsource -m tcp -j DNAT --to-destination [fd00::8]:80",
            ),
            (
                "-m statistic --mode random --probability 0.3333333333 -j KUBE-SEP-A",
                "-m statistic --mode random --probability 0.33333333349 -j KUBE-SEP-A",
            ),
            (
                "-m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT",
                "-m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT",
            ),
            (
                "-p tcp --dport 80 -j REJECT",
                "-p tcp -m tcp --dport 80 -j REJECT --reject-with icmp-port-unreachable",
            ),
            ("-m addrtype --dst-type LOCAL ! -d ::1/128", "! -d ::1 -m addrtype --dst-type LOCAL"),
        ];
        for (written, saved) in cases {
            let (one, other) = (FoundRule::parse(written), FoundRule::parse(saved));
            assert!(one.known().is_some() && other.known().is_some(), "{one:?} {other:?}");
            assert_eq!(one, other);
        }
    }

    #[test]
    fn what_types_cannot_say_stays_text() {
        let cases = [
            "-p tcp -m multiport --dports 80,81 -j ACCEPT",
            "-p tcp -m tcp --dport 80:90 -j ACCEPT",
            "-p tcp -m tcp --sport 80 -j ACCEPT",
            "-p tcp -m tcp --dport 80 -j REJECT --reject-with tcp-reset",
            "! -p tcp -j ACCEPT",
            "-s 10.0.0.0/255.0.255.0 -j ACCEPT",
            "-m statistic --mode nth --every 2 --packet 0 -j ACCEPT",
            "-m statistic --mode random ! --probability 0.5 -j ACCEPT",
            "-m recent --update --seconds 60 --name a --mask 255.255.255.255 --rsource",
            "-m recent --set --name a --mask 255.255.255.0 --rsource",
            "-m recent --set --name a --mask 255.255.255.255 --rdest",
            "-m addrtype --dst-type BROADCAST -j ACCEPT",
            "-j LOG --log-prefix \"a b\"",
            "-j LOG",
            "-g KUBE-A",
            "-j DNAT --to-destination 10.0.0.1-10.0.0.9",
            "-j DNAT --to-destination 10.0.0.1:80 --random",
            "-j MASQUERADE --to-ports 1024-2048",
            "-j ACCEPT -j DROP",
            "-m tcp --dport 80",
            "--dport 80 -j ACCEPT",
            "-s",
            "!",
            "-m recent --rcheck --name a",
            "-m conntrack --ctstate ASLEEP",
        ];
        for text in cases {
            assert_eq!(FoundRule::parse(text), FoundRule::Unknown(text.to_owned()));
        }
    }

    #[test]
    fn a_table_keeps_its_chains_and_its_order() {
        let text = "*nat\n:PREROUTING ACCEPT [1:2]\n:KUBE-A - [0:0]\n[5:6] -A PREROUTING -j KUBE-A\n\
                    -A PREROUTING -m weird -j KUBE-A\n-A KUBE-A -m comment --comment only\nCOMMIT\n";
        let table = FoundTable::parse(text);
        let first = table.chain("PREROUTING").unwrap();
        assert_eq!(first.policy.as_deref(), Some("ACCEPT"));
        assert!(first.rules[0].known().is_some());
        assert_eq!(first.rules[1], FoundRule::Unknown("-m weird -j KUBE-A".to_owned()));
        let rule = table.chain("KUBE-A").unwrap().rules[0].known().unwrap();
        assert_eq!((rule.comment(), rule.target.is_none()), (Some("only"), true));
    }
}
