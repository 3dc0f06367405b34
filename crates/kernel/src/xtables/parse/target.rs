//! Reads a target with its options. `None` means that the types cannot say it.

use std::net::{IpAddr, SocketAddr};

use crate::xtables::rule::{ChainName, Target};

/// The answers that are "port unreachable", by both names of both families.
const PORT_UNREACHABLE: [&str; 4] =
    ["icmp-port-unreachable", "icmp6-port-unreachable", "port-unreach", "icmp-port-unreach"];

pub(super) fn read(name: &str, options: &[&str]) -> Option<Target> {
    Some(match (name, options) {
        ("ACCEPT", []) => Target::Accept,
        ("DROP", []) => Target::Drop,
        ("RETURN", []) => Target::Return,
        ("REJECT", []) => Target::Reject,
        ("REJECT", ["--reject-with", answer]) if PORT_UNREACHABLE.contains(answer) => Target::Reject,
        ("MARK", [how, number]) => new_mark(how, number)?,
        ("MASQUERADE", []) => Target::Masquerade { random_fully: false },
        ("MASQUERADE", ["--random-fully"]) => Target::Masquerade { random_fully: true },
        ("DNAT", ["--to-destination", to]) => dnat(to)?,
        ("REDIRECT", ["--to-ports" | "--to-port", port]) => Target::Redirect(port.parse().ok()?),
        (chain, []) => Target::Jump(ChainName::new(chain)?),
        _ => return None,
    })
}

/// `VALUE` or `VALUE/MASK`, in any base that the programs read.
pub(super) fn mark(text: &str) -> Option<(u32, Option<u32>)> {
    match text.split_once('/') {
        Some((value, mask)) => Some((number(value)?, Some(number(mask)?))),
        None => Some((number(text)?, None)),
    }
}

fn number(text: &str) -> Option<u32> {
    match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        // A zero in front makes it octal to the programs.
        None if text.len() > 1 && text.starts_with('0') => u32::from_str_radix(text, 8).ok(),
        None => text.parse().ok(),
    }
}

/// In the plainest word that says it, so that what we wrote comes back in our own words.
fn new_mark(how: &str, text: &str) -> Option<Target> {
    let (value, mask) = mark(text)?;
    let (value, mask) = match (how, mask) {
        ("--set-xmark", mask) => (value, mask.unwrap_or(u32::MAX)),
        ("--set-mark", mask) => (value, mask.map_or(u32::MAX, |mask| mask | value)),
        ("--or-mark", None) => (value, value),
        ("--xor-mark", None) => (value, 0),
        ("--and-mark", None) => (0, !value),
        _ => return None,
    };
    Some(match (value, mask) {
        (value, u32::MAX) => Target::SetMark(value),
        (value, 0) => Target::XorMark(value),
        (value, mask) if value == mask => Target::OrMark(value),
        (value, mask) => Target::Xmark { value, mask },
    })
}

fn dnat(to: &str) -> Option<Target> {
    if let Ok(socket) = to.parse::<SocketAddr>() {
        return Some(Target::Dnat(socket.ip(), Some(socket.port())));
    }
    to.parse::<IpAddr>().ok().map(|ip| Target::Dnat(ip, None))
}
