//! A rule of either kind of table, as `iptables-save` prints it, from what the kernel holds.
//!
//! In: the steps in which rules of `nf_tables` and of legacy tables are read. Out: text with the same words in the same order, as far as
//! jumps of a proxy have them: addresses, interfaces, `comment`, `conntrack --ctstate NEW`, `addrtype --dst-type LOCAL`, and where the
//! rule leads. Any other part is `-m NAME ?`, so that a rule with more conditions is not taken for one with fewer.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};

use super::foreign::{Comparison, Origin, Step};
use super::{Register, Verdict};

/// Keys of `nf_tables` for the names of interfaces.
const IN_NAME: u32 = 6;
const OUT_NAME: u32 = 7;
/// In an info of `conntrack`: where its flags stand, which of them asks for states, and the state of a new connection.
const CONNTRACK_FLAGS: usize = 146;
const ASKS_STATE: u16 = 1;
const STATE_NEW: u16 = 1 << 3;
/// An address of this host, in an info of `addrtype`.
const LOCAL: u16 = 1 << 2;

/// The rule as text; `comment` is one that the kernel keeps beside the rule.
pub(crate) fn rule(comment: Option<&str>, steps: &[Step]) -> String {
    let mut origins = BTreeMap::new();
    let comment = comment.map(self::comment);
    let (mut parts, mut target) = (Vec::new(), None);
    for step in steps {
        match part(step, &mut origins) {
            Part::Nothing => {}
            Part::Match(text) => parts.push(text),
            Part::Target(text) => target = Some(text),
        }
    }
    parts.into_iter().chain(comment).chain(target).collect::<Vec<_>>().join(" ")
}

enum Part {
    Nothing,
    Match(String),
    Target(String),
}

fn part(step: &Step, origins: &mut BTreeMap<Register, Origin>) -> Part {
    match step {
        Step::Load { to, from } => {
            origins.insert(*to, *from);
            Part::Nothing
        }
        Step::Immediate { to, .. }
        | Step::Bitwise { to, .. }
        | Step::SwapBytes { to, .. }
        | Step::Forget { to } => {
            origins.insert(*to, Origin::Other);
            Part::Nothing
        }
        Step::Compare { register, how, value } => {
            let origin = origins.get(register).copied().unwrap_or(Origin::Other);
            Part::Match(compared(origin, *how, value).unwrap_or_else(|| unknown("cmp")))
        }
        Step::XtMatch { name, revision, info } => {
            Part::Match(xt_match(name, *revision, info).unwrap_or_else(|| unknown(name)))
        }
        Step::Range { .. } => Part::Match(unknown("range")),
        Step::Lookup { .. } => Part::Match(unknown("set")),
        Step::SetMark { .. } => Part::Target("-j MARK".to_owned()),
        Step::XtTarget { name, .. } => Part::Target(format!("-j {name}")),
        Step::Verdict(verdict) => Part::Target(led(verdict)),
        Step::Reject => Part::Target("-j REJECT".to_owned()),
        // The programs print neither.
        Step::Passes("counter" | "last") => Part::Nothing,
        Step::Passes(name) => Part::Match(unknown(name)),
        Step::Unknown { name, .. } => Part::Match(unknown(name)),
    }
}

fn unknown(name: &str) -> String {
    format!("-m {name} ?")
}

fn led(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Accept => "-j ACCEPT".to_owned(),
        Verdict::Drop => "-j DROP".to_owned(),
        Verdict::Return => "-j RETURN".to_owned(),
        Verdict::Jump(chain) => format!("-j {chain}"),
        Verdict::Goto(chain) => format!("-g {chain}"),
    }
}

fn comment(text: &str) -> String {
    format!("-m comment --comment \"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// A network has as many bytes as are compared; one that ends within a byte is compared by its bits, which is not understood.
fn compared(origin: Origin, how: Comparison, value: &[u8]) -> Option<String> {
    let not = match how {
        Comparison::Equal => "",
        Comparison::NotEqual => "! ",
        _ => return None,
    };
    let name = |option: &str| Some(format!("{not}{option} {}", interface(value)?));
    let v4 = |option: &str| {
        let network = Ipv4Addr::from(filled::<4>(value)?);
        Some(format!("{not}{option} {network}/{}", 8 * value.len()))
    };
    let v6 = |option: &str| {
        let network = Ipv6Addr::from(filled::<16>(value)?);
        Some(format!("{not}{option} {network}/{}", 8 * value.len()))
    };
    match origin {
        Origin::Network { offset: 12, size: 1..=4 } => v4("-s"),
        Origin::Network { offset: 16, size: 1..=4 } => v4("-d"),
        Origin::Network { offset: 8, size: 1..=16 } => v6("-s"),
        Origin::Network { offset: 24, size: 1..=16 } => v6("-d"),
        Origin::Meta(IN_NAME) => name("-i"),
        Origin::Meta(OUT_NAME) => name("-o"),
        _ => None,
    }
}

fn filled<const N: usize>(value: &[u8]) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    bytes.get_mut(..value.len())?.copy_from_slice(value);
    Some(bytes)
}

/// A name that ends without a zero is the beginning of a name.
fn interface(value: &[u8]) -> Option<String> {
    let name = std::str::from_utf8(text(value)).ok()?;
    let star = if name.len() == value.len() { "+" } else { "" };
    name.bytes().all(|letter| letter.is_ascii_graphic()).then(|| format!("{name}{star}"))
}

fn xt_match(name: &str, revision: u32, info: &[u8]) -> Option<String> {
    match (name, revision) {
        ("comment", 0) => std::str::from_utf8(text(info)).ok().map(comment),
        ("conntrack", 2 | 3) => is_new(info)?.then(|| "-m conntrack --ctstate NEW".to_owned()),
        ("addrtype", 1) => is_to_this_host(info)?.then(|| "-m addrtype --dst-type LOCAL".to_owned()),
        _ => None,
    }
}

/// `struct xt_conntrack_mtinfo3` asks for new connections, and for nothing else.
fn is_new(info: &[u8]) -> Option<bool> {
    let (asks, not) = (half(info, CONNTRACK_FLAGS)?, half(info, CONNTRACK_FLAGS + 2)?);
    Some((asks, not, half(info, CONNTRACK_FLAGS + 4)?) == (ASKS_STATE, 0, STATE_NEW))
}

/// `struct xt_addrtype_info_v1` asks for a destination that is this host, and for nothing else.
fn is_to_this_host(info: &[u8]) -> Option<bool> {
    let asks_for_interface_or_not = half(info, 4)? | half(info, 6)?;
    Some((half(info, 0)?, half(info, 2)?, asks_for_interface_or_not) == (0, LOCAL, 0))
}

fn half(info: &[u8], at: usize) -> Option<u16> {
    info.get(at..at + 2)?.try_into().ok().map(u16::from_ne_bytes)
}

/// Up to the zero that ends it.
pub(crate) fn text(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(from: Origin) -> Step {
        Step::Load { to: Register(0), from }
    }

    fn is(how: Comparison, value: &[u8]) -> Step {
        Step::Compare { register: Register(0), how, value: value.to_vec() }
    }

    fn module(name: &str, revision: u32, info: &[u8]) -> Step {
        Step::XtMatch { name: name.to_owned(), revision, info: info.to_vec() }
    }

    fn conntrack(states: u16, not: u16) -> Step {
        let mut info = vec![0; 160];
        for (at, value) in [(0, ASKS_STATE), (2, not), (4, states)] {
            info[CONNTRACK_FLAGS + at..][..2].copy_from_slice(&value.to_ne_bytes());
        }
        module("conntrack", 3, &info)
    }

    #[test]
    fn jumps_of_a_proxy_are_printed_as_the_programs_do_and_the_rest_is_left_open() {
        let jump = || Step::Verdict(Verdict::Jump("X".into()));
        let not = Comparison::NotEqual;
        let loopback = [load(Origin::Network { offset: 16, size: 1 }), is(not, &[127]), jump()];
        let one = [&[0; 15][..], &[1]].concat();
        let itself = [load(Origin::Network { offset: 24, size: 16 }), is(not, &one), jump()];
        let from = [load(Origin::Meta(IN_NAME)), is(not, b"lo\0"), jump()];
        let masked = Step::Bitwise { from: Register(0), to: Register(0), mask: vec![240], xor: vec![0] };
        let odd = [load(Origin::Network { offset: 16, size: 1 }), masked, is(not, &[96]), jump()];
        let local = [0_u16, LOCAL, 0, 0].map(u16::to_ne_bytes).concat();
        let elsewhere = [0_u16, LOCAL, 2, 0].map(u16::to_ne_bytes).concat();
        let cases: &[(&[Step], &str)] = &[
            (&loopback, "! -d 127.0.0.0/8 -j X"),
            (&itself, "! -d ::1/128 -j X"),
            (&from, "! -i lo -j X"),
            (&odd, "-m cmp ? -j X"),
            (&[module("comment", 0, b"say \"hi\"\0\0"), jump()], r#"-m comment --comment "say \"hi\"" -j X"#),
            (&[module("comment", 0, b"\xff\0"), jump()], "-m comment ? -j X"),
            (&[conntrack(STATE_NEW, 0), jump()], "-m conntrack --ctstate NEW -j X"),
            (&[conntrack(STATE_NEW, ASKS_STATE), jump()], "-m conntrack ? -j X"),
            (&[conntrack(2, 0), jump()], "-m conntrack ? -j X"),
            (&[module("conntrack", 3, &[]), jump()], "-m conntrack ? -j X"),
            (&[module("addrtype", 1, &local), jump()], "-m addrtype --dst-type LOCAL -j X"),
            (&[module("addrtype", 1, &elsewhere), jump()], "-m addrtype ? -j X"),
            (&[module("set", 4, &[]), Step::Passes("counter"), jump()], "-m set ? -j X"),
            (&[Step::Passes("counter"), Step::Passes("last"), jump()], "-j X"),
            (&[Step::Passes("log"), jump()], "-m log ? -j X"),
            (&[Step::Verdict(Verdict::Goto("Y".into()))], "-g Y"),
            (&[Step::Reject], "-j REJECT"),
        ];
        for (steps, expected) in cases {
            assert_eq!(rule(None, steps), *expected);
        }
    }
}
