//! The words in which both programs print a rule, whatever the words in which it was written.

use std::fmt::Write;

use kernel::nft::Policy;
use kernel::xtables::{Family, FoundRule, Is, Match, Recent, Rule, Table, Target};

use super::table::{SimChain, SimTable};

/// As `iptables-save -t TABLE` prints it, without the lines for people.
pub(super) fn table(table_name: Table, table: &SimTable, family: Family) -> String {
    let own = table_name.own_chains().iter().filter_map(|name| Some((*name, table.chain(name)?)));
    let chains: Vec<(&str, &SimChain)> = own.chain(table.other_chains()).collect();
    let mut text = format!("*{table_name}\n");
    for (name, chain) in &chains {
        let policy = match chain.policy {
            Some(Policy::Accept) => "ACCEPT",
            Some(Policy::Drop) => "DROP",
            None => "-",
        };
        let _ = writeln!(text, ":{name} {policy} [0:0]");
    }
    for (name, chain) in &chains {
        for found in &chain.rules {
            let _ = match found {
                FoundRule::Known(known) => writeln!(text, "{}", rule(name, known, family)),
                FoundRule::Unknown(said) => writeln!(text, "-A {name} {said}"),
            };
        }
    }
    text + "COMMIT\n"
}

fn rule(chain: &str, rule: &Rule, family: Family) -> String {
    let mut first: Vec<&Match> = rule.parts.iter().filter(|part| place(part).is_some()).collect();
    first.sort_by_key(|part| place(part));
    let mut words = vec![format!("-A {chain}")];
    words.extend(first.into_iter().map(head));
    words.extend(modules(rule, family));
    words.extend(rule.target.as_ref().map(|to| target(to, family)));
    words.join(" ")
}

/// Where a part stands before all modules.
fn place(part: &Match) -> Option<u8> {
    match part {
        Match::Source(..) => Some(0),
        Match::Destination(..) => Some(1),
        Match::InInterface(..) => Some(2),
        Match::OutInterface(..) => Some(3),
        Match::PlainProtocol(_) => Some(4),
        // It stands in two places: `-p` here, and its module where it was loaded.
        Match::Protocol(_) => Some(5),
        _ => None,
    }
}

fn head(part: &Match) -> String {
    match part {
        Match::Source(is, net) => format!("{}-s {}", not(*is), net.trunc()),
        Match::Destination(is, net) => format!("{}-d {}", not(*is), net.trunc()),
        Match::Protocol(protocol) => format!("-p {protocol}"),
        other => other.to_string(),
    }
}

/// The modules, in the order in which they were loaded.
fn modules(rule: &Rule, family: Family) -> Vec<String> {
    let mut asked = rule.parts.iter().find_map(|part| match part {
        Match::DestinationPort(port) => Some(format!(" --dport {port}")),
        _ => None,
    });
    let mut words = Vec::new();
    for part in &rule.parts {
        match part {
            Match::Protocol(protocol) if protocol.has_ports() => {
                words.push(format!("-m {protocol}{}", asked.take().unwrap_or_default()));
            }
            Match::DestinationPort(_) => {}
            _ if place(part).is_some() => {}
            _ => words.push(module(part, family)),
        }
    }
    words
}

fn module(part: &Match, family: Family) -> String {
    let mask = match family {
        Family::V4 => "255.255.255.255",
        Family::V6 => "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
    };
    match part {
        Match::Comment(text) => format!("-m comment --comment {}", quoted(text)),
        Match::Mark { is, value, mask: u32::MAX } => format!("-m mark {}--mark {value:#x}", not(*is)),
        Match::Mark { is, value, mask } => format!("-m mark {}--mark {value:#x}/{mask:#x}", not(*is)),
        Match::Random(probability) => {
            let kept = f64::from(probability.parts()) / f64::from(1u32 << 31);
            format!("-m statistic --mode random --probability {kept:.11}")
        }
        Match::Recent(Recent::Set { list }) => {
            format!("-m recent --set --name {list} --mask {mask} --rsource")
        }
        Match::Recent(Recent::Check { list, seconds, reap }) => {
            let reap = if *reap { " --reap" } else { "" };
            format!("-m recent --rcheck --seconds {seconds}{reap} --name {list} --mask {mask} --rsource")
        }
        other => other.to_string(),
    }
}

fn target(target: &Target, family: Family) -> String {
    let xmark = |value: u32, mask: u32| format!("-j MARK --set-xmark {value:#x}/{mask:#x}");
    match *target {
        Target::OrMark(bits) => xmark(bits, bits),
        Target::XorMark(bits) => xmark(bits, 0),
        Target::SetMark(mark) => xmark(mark, u32::MAX),
        Target::Xmark { value, mask } => xmark(value, mask),
        Target::Reject if family == Family::V4 => "-j REJECT --reject-with icmp-port-unreachable".to_owned(),
        Target::Reject => "-j REJECT --reject-with icmp6-port-unreachable".to_owned(),
        ref other => other.to_string(),
    }
}

fn not(is: Is) -> &'static str {
    if is == Is::Not { "! " } else { "" }
}

/// Quotes stand only where they are needed.
fn quoted(text: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '-' || letter == '_';
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        if ['"', '\\', '\''].contains(&letter) {
            quoted.push('\\');
        }
        quoted.push(letter);
    }
    quoted + "\""
}
