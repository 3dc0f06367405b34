//! A kind of rule: what a rule looks like when whose it is does not count. Its table, the shape of its chain's name (`KUBE-SVC-…`),
//! which things it asks for, the words of its comment, and where it leads.

use std::collections::BTreeSet;

use kernel::xtables::{FoundRule, Is, Match, Recent, Rule, Target};

/// Names of chains of service ports end in so many letters.
const HASH_LENGTH: usize = 16;

/// The kind of the rule that a line of a restore text adds or deletes.
pub(super) fn kind_of(table: &str, line: &str) -> Option<String> {
    let rest = ["-A ", "-I ", "-D "].iter().find_map(|verb| line.strip_prefix(verb))?;
    let (chain, rule) = rest.split_once(' ').unwrap_or((rest, ""));
    let FoundRule::Known(rule) = FoundRule::parse(rule) else { return None };
    let asks: BTreeSet<String> = rule.canonical().parts.iter().filter_map(asked).collect();
    let asks = asks.into_iter().collect::<Vec<_>>().join(", ");
    let target = rule.target.as_ref().map_or_else(|| "nothing".to_owned(), target);
    Some(format!("{table} {} [{asks}] \"{}\" -> {target}", shape(chain), words(&rule)))
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
        other => other.to_string().replace("-6-", "-"),
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
    let is_hash = |end: &str| {
        end.len() == HASH_LENGTH && end.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit())
    };
    match name.rsplit_once('-') {
        Some((prefix, end)) if is_hash(end) => format!("{prefix}-…"),
        _ => name.to_owned(),
    }
}
