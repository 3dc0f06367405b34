//! Leaves all rules of one kind out of what is written.
//!
//! A kind is what a rule looks like when whose it is does not count: its table, the shape of its chain's name (`KUBE-SVC-…`),
//! which things it asks for, the words of its comment, and where it leads.

use std::collections::BTreeSet;
use std::fmt;

use kernel::xtables::{FoundRule, Is, Match, Recent, Rule, Target};

/// Chains whose names end in a hash.
const HASHED: [&str; 8] = [
    "KUBE-SVC-",
    "KUBE-SVL-",
    "KUBE-EXT-",
    "KUBE-FW-",
    "KUBE-SEP-",
    "KUBE-FROM-C-",
    "KUBE-FROM-H-",
    "KUBE-POLICY-",
];

/// What is left out.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Kind {
    pub(crate) table: String,
    pub(crate) chain: String,
    /// What it asks for, sorted.
    asks: Vec<String>,
    pub(crate) words: String,
    pub(crate) target: String,
}

impl Kind {
    /// What goes through a door that is not that of iptables.
    pub(crate) fn of_door(door: &str, what: &str) -> Self {
        let (table, chain) = (door.to_owned(), what.to_owned());
        Self { table, chain, asks: Vec::new(), words: String::new(), target: "nothing".to_owned() }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { table, chain, asks, words, target } = self;
        write!(f, "{table} {chain} [{}] \"{words}\" -> {target}", asks.join(", "))
    }
}

/// Leaves out, and takes note of what could be left out.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mutation {
    pub(crate) left_out: Option<Kind>,
    pub(crate) seen: BTreeSet<Kind>,
}

impl Mutation {
    /// Leaves this out.
    pub(crate) fn without(kind: Kind) -> Self {
        Self { left_out: Some(kind), seen: BTreeSet::new() }
    }

    /// Whether something of this kind is written, which is noted.
    pub(crate) fn keeps(&mut self, kind: Kind) -> bool {
        let is_kept = self.left_out.as_ref() != Some(&kind);
        self.seen.insert(kind);
        is_kept
    }

    /// What is left of a restore text. What was never there cannot be deleted, so that line goes too.
    pub(crate) fn apply(&mut self, text: &str) -> String {
        let (mut table, mut rest) = ("", String::new());
        for line in text.lines() {
            table = line.strip_prefix('*').unwrap_or(table);
            let kind = kind_of(table, line);
            if kind.is_none() || kind != self.left_out {
                rest.push_str(line);
                rest.push('\n');
            }
            self.seen.extend(kind);
        }
        rest
    }
}

fn kind_of(table: &str, line: &str) -> Option<Kind> {
    let rest = ["-A ", "-I ", "-D "].iter().find_map(|verb| line.strip_prefix(verb))?;
    let (chain, rule) = rest.split_once(' ').unwrap_or((rest, ""));
    let FoundRule::Known(rule) = FoundRule::parse(rule) else { return None };
    let asks: BTreeSet<String> = rule.canonical().parts.iter().filter_map(asked).collect();
    Some(Kind {
        table: table.to_owned(),
        chain: shape(chain),
        asks: asks.into_iter().collect(),
        words: words(&rule),
        target: rule.target.as_ref().map_or_else(|| "nothing".to_owned(), target),
    })
}

fn asked(part: &Match) -> Option<String> {
    let not = |is: &Is, what: &str| if *is == Is::Equal { what.to_owned() } else { format!("not {what}") };
    Some(match part {
        Match::Comment(_) => return None,
        Match::Source(is, _) => not(is, "source"),
        Match::Destination(is, _) => not(is, "destination"),
        Match::InInterface(is, _) => not(is, "interface"),
        Match::DestinationPort(_) => "port".to_owned(),
        Match::Protocol(_) => "protocol".to_owned(),
        Match::Random(_) => "chance".to_owned(),
        Match::Recent(Recent::Set { .. }) => "remember".to_owned(),
        Match::Recent(Recent::Check { .. }) => "remembered".to_owned(),
        // A set is the same in both families.
        other => other.to_string().replace("PORTWAY-6-", "PORTWAY-"),
    })
}

fn target(target: &Target) -> String {
    match target {
        Target::Jump(chain) => shape(chain.as_str()),
        Target::Dnat(..) => "DNAT".to_owned(),
        Target::Redirect(_) => "REDIRECT".to_owned(),
        Target::SetMark(_) => "MARK".to_owned(),
        other => other.to_string(),
    }
}

/// The comment, without the words that say whose the rule is.
fn words(rule: &Rule) -> String {
    let is_plain = |word: &&str| !word.contains(['/', '.', '[']);
    let comment = rule.comment().unwrap_or_default();
    comment.split(' ').filter(is_plain).map(shape).collect::<Vec<_>>().join(" ")
}

/// `KUBE-SVC-XPGD46QRK7WJZT7O` is `KUBE-SVC-…`.
fn shape(name: &str) -> String {
    match HASHED.iter().find(|prefix| name.starts_with(**prefix)) {
        Some(prefix) => format!("{prefix}…"),
        None => name.to_owned(),
    }
}
