//! Matches and targets of iptables, as their modules lay them out in the kernel.
//!
//! Both programs use them: the legacy one in its tables, the newer one inside rules of `nf_tables`. In: a name, a revision and
//! bytes. Out: whether the match holds for the packet, or what the target does.
//!
//! Absent on purpose: matches that look at more than the first packet of a connection shows (limits, sets, owners). They may hold or not.

use super::bits::{Bits, Truth, compare};
use super::facts::{Facts, STATE_NEW, TCP_SYN};
use crate::nft::foreign::Comparison;

/// `XT_CONNTRACK_STATE_DNAT`.
const STATE_DNAT: u32 = 1 << 7;
/// Which questions an info of `conntrack` asks.
const ASKS_STATE: u16 = 1;
const ASKS_PROTOCOL: u16 = 1 << 1;
const ASKS_STATUS: u16 = 1 << 6;
const ASKS_DIRECTION: u16 = 1 << 12;
/// Changes how the program prints it, and nothing else.
const IS_STATE_ALIAS: u16 = 1 << 13;
/// Where the flags stand in an info of `conntrack`, behind eight addresses, two times, a protocol and four ports.
const CONNTRACK_FLAGS: usize = 146;
const CONNTRACK_PROTOCOL: usize = 136;

/// What a target does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Target {
    /// The next rule is tried.
    Continue,
    Reject,
    /// The mark loses the bits of `mask`, then those of `value` are flipped.
    Mark {
        value: u32,
        mask: u32,
    },
    /// Not understood: may do anything with the packet.
    Unknown,
}

/// Whether a match holds.
pub(super) fn holds(facts: &Facts<'_>, mark: [Bits; 4], name: &str, revision: u32, info: &[u8]) -> Truth {
    let answer = match (name, revision) {
        ("comment", _) => Some(Truth::Yes),
        ("tcp", 0) => tcp(facts, info),
        ("udp", 0) => udp(facts, info),
        ("multiport", 1) => multiport(facts, info),
        ("mark", 1) => mark_is(mark, info),
        ("state", 0) => word(info, 0).map(|mask| (state(facts) & mask != 0).into()),
        ("conntrack", 1..=3) => conntrack(facts, revision, info),
        _ => None,
    };
    answer.unwrap_or(Truth::Maybe)
}

/// What a target does.
pub(super) fn target(name: &str, revision: u32, info: &[u8]) -> Target {
    /// Targets after which the next rule is tried, whatever they do.
    const CONTINUE: [&str; 22] = [
        "LOG",
        "NFLOG",
        "ULOG",
        "CONNMARK",
        "CLASSIFY",
        "TCPMSS",
        "TCPOPTSTRIP",
        "DSCP",
        "TOS",
        "TTL",
        "HL",
        "ECN",
        "CHECKSUM",
        "SECMARK",
        "CONNSECMARK",
        "SET",
        "TEE",
        "TRACE",
        "AUDIT",
        "RATEEST",
        "IDLETIMER",
        "LED",
    ];
    match (name, revision) {
        ("REJECT", _) => Target::Reject,
        ("MARK", 2) => match word(info, 0).zip(word(info, 4)) {
            Some((value, mask)) => Target::Mark { value, mask },
            None => Target::Unknown,
        },
        (name, _) if CONTINUE.contains(&name) => Target::Continue,
        _ => Target::Unknown,
    }
}

/// `struct xt_tcp`: ranges of source and destination ports, an option, flags, and what of it is negated.
fn tcp(facts: &Facts<'_>, info: &[u8]) -> Option<Truth> {
    let not = byte(info, 11)?;
    let ports = ports(facts, info, not & 1 != 0, not & 2 != 0)?;
    let (option, mask, flags) = (byte(info, 8)?, byte(info, 9)?, byte(info, 10)?);
    let has_flags = Truth::from(TCP_SYN & mask == flags).negated_if(not & 4 != 0);
    let has_option = if option == 0 { Truth::Yes } else { Truth::Maybe };
    Some(ports.and(has_flags).and(has_option))
}

/// `struct xt_udp`: ranges of source and destination ports, and what of it is negated.
fn udp(facts: &Facts<'_>, info: &[u8]) -> Option<Truth> {
    let not = byte(info, 8)?;
    ports(facts, info, not & 1 != 0, not & 2 != 0)
}

fn ports(facts: &Facts<'_>, info: &[u8], not_source: bool, not_destination: bool) -> Option<Truth> {
    let in_range = |port: Option<u16>, at: usize, not: bool| -> Option<Truth> {
        let (low, high) = (half(info, at)?, half(info, at + 2)?);
        let holds = match port {
            // All ports are in it.
            None if (low, high) == (0, u16::MAX) => Truth::Yes,
            None => Truth::Maybe,
            Some(port) => (low..=high).contains(&port).into(),
        };
        Some(holds.negated_if(not))
    };
    let source = in_range(facts.packet.source_port, 0, not_source)?;
    Some(source.and(in_range(facts.packet.destination_port, 4, not_destination)?))
}

/// `struct xt_multiport_v1`: which ends, how many ports, ports, which of them begin a range, and whether it is negated.
fn multiport(facts: &Facts<'_>, info: &[u8]) -> Option<Truth> {
    const MAX: usize = 15;
    let (ends, count) = (byte(info, 0)?, usize::from(byte(info, 1)?).min(MAX));
    let ports: Vec<u16> = (0..count).map(|n| half(info, 2 + 2 * n)).collect::<Option<_>>()?;
    let begins: Vec<bool> =
        (0..count).map(|n| byte(info, 2 + 2 * MAX + n).map(|flag| flag != 0)).collect::<Option<_>>()?;
    let is_listed = |port: Option<u16>| {
        let Some(port) = port else { return Truth::Maybe };
        let single = |n: usize| !begins[n] && ports[n] == port;
        let range =
            |n: usize| begins[n] && ports.get(n + 1).is_some_and(|high| (ports[n]..=*high).contains(&port));
        (0..count).any(|n| single(n) || range(n)).into()
    };
    let (source, destination) =
        (is_listed(facts.packet.source_port), is_listed(facts.packet.destination_port));
    let holds = match ends {
        0 => source,
        1 => destination,
        _ => source.or(destination),
    };
    Some(holds.negated_if(byte(info, 2 + 3 * MAX)? != 0))
}

/// `struct xt_mark_mtinfo1`: a mark, a mask, and whether it is negated.
fn mark_is(mark: [Bits; 4], info: &[u8]) -> Option<Truth> {
    let (value, looked_at) = (word(info, 0)?.to_ne_bytes(), word(info, 4)?.to_ne_bytes());
    let masked: Vec<_> = mark.iter().zip(looked_at).map(|(bits, mask)| bits.masked(mask, 0)).collect();
    Some(compare(&masked, Comparison::Equal, &value).negated_if(byte(info, 8)? != 0))
}

fn state(facts: &Facts<'_>) -> u32 {
    STATE_NEW | if facts.packet.is_destination_translated { STATE_DNAT } else { 0 }
}

/// `struct xt_conntrack_mtinfo1` to `3`, which differ behind the flags.
fn conntrack(facts: &Facts<'_>, revision: u32, info: &[u8]) -> Option<Truth> {
    let (asks, not) = (half(info, CONNTRACK_FLAGS)?, half(info, CONNTRACK_FLAGS + 2)?);
    let masks = CONNTRACK_FLAGS + 4;
    let (states, wanted) = match revision {
        1 => (byte(info, masks)?.into(), byte(info, masks + 1)?.into()),
        _ => (half(info, masks)?, half(info, masks + 2)?),
    };
    let known = ASKS_STATE | ASKS_PROTOCOL | ASKS_STATUS | ASKS_DIRECTION | IS_STATE_ALIAS;
    let bits = facts.status().into_iter().zip(u32::from(wanted).to_ne_bytes());
    let has_status: Vec<_> = bits.map(|(bits, mask)| bits.masked(mask, 0)).collect();
    let questions = [
        (ASKS_STATE, Truth::from(state(facts) & u32::from(states) != 0)),
        (ASKS_PROTOCOL, (half(info, CONNTRACK_PROTOCOL)? == u16::from(facts.packet.protocol.0)).into()),
        (ASKS_STATUS, compare(&has_status, Comparison::NotEqual, &[0; 4])),
        // The packet goes in the direction in which the connection began.
        (ASKS_DIRECTION, Truth::Yes),
    ];
    let asked = questions.into_iter().filter(|(flag, _)| asks & flag != 0);
    let answers = asked.map(|(flag, truth)| truth.negated_if(not & flag != 0));
    let rest = if asks & !known == 0 { Truth::Yes } else { Truth::Maybe };
    Some(answers.fold(rest, Truth::and))
}

fn byte(info: &[u8], at: usize) -> Option<u8> {
    info.get(at).copied()
}

fn half(info: &[u8], at: usize) -> Option<u16> {
    info.get(at..at + 2)?.try_into().ok().map(u16::from_ne_bytes)
}

fn word(info: &[u8], at: usize) -> Option<u32> {
    info.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes)
}
