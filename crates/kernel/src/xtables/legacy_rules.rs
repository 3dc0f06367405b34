//! The rules of the legacy tables on the forward hook, as the kernel itself tells them.
//!
//! In: the entries of a table, which are one block of bytes. Out: its chains, each rule as the steps in which rules of `nf_tables` are
//! read too, so that one evaluation serves both.
//!
//! Tables that `/proc/net/ip_tables_names` does not name are not asked for: the kernel would make them. No program is started.

use std::collections::BTreeMap;
use std::io;

use super::Family;
use super::legacy::{HEAD_OF_CHAIN, NAME, TARGET_HEAD, TARGET_NAME, again, entries, number, odd, short};
use super::programs::legacy_tables;
use crate::nft::foreign::{Comparison, Origin, Step};
use crate::nft::iptables_text::text;
use crate::nft::{Name, Policy, Register, Verdict};

/// The tables that have a chain on the forward hook, in the order in which the kernel runs them.
const TABLES: [(&str, i32); 3] = [("mangle", -150), ("filter", 0), ("security", 50)];
const FORWARD: &str = "FORWARD";
/// The number of the hook.
const FORWARD_HOOK: usize = 2;
/// Behind a table's name: which hooks, where the chain of each hook begins, where its policy stands.
pub(super) const HOOK_ENTRIES: usize = NAME + 4;
pub(super) const UNDERFLOWS: usize = HOOK_ENTRIES + HOOKS * 4;
/// How many hooks there are.
pub(super) const HOOKS: usize = 5;
/// What a register is for: there is only one value at a time.
const REGISTER: Register = Register(0);
/// Keys of `nf_tables` that ask for the same.
const IN_NAME: u32 = 6;
const OUT_NAME: u32 = 7;
const TRANSPORT_PROTOCOL: u32 = 16;

/// The rules of each chain, by its name.
pub(crate) type Chains = BTreeMap<Name, Vec<Vec<Step>>>;

/// A legacy table with a chain on the forward hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LegacyTable {
    pub(crate) name: &'static str,
    pub(crate) priority: i32,
    pub(crate) policy: Policy,
    pub(crate) chains: Chains,
}

impl LegacyTable {
    /// The chain on the hook.
    pub(crate) const CHAIN: &str = FORWARD;
}

/// Reads the tables of a family that are there.
pub(crate) fn on_forward(family: Family) -> io::Result<Vec<LegacyTable>> {
    let there = legacy_tables(family).map_err(|error| io::Error::other(error.to_string()))?;
    let mut tables = Vec::new();
    for (name, priority) in TABLES.into_iter().filter(|(name, _)| there.iter().any(|table| table == name)) {
        let (info, entries) = again(|| entries(family, name))?;
        let (policy, chains) = read(family, &info, &entries)?;
        tables.push(LegacyTable { name, priority, policy, chains });
    }
    Ok(tables)
}

/// How the entries of a family are laid out.
#[derive(Debug)]
pub(super) struct Layout {
    /// Of an address.
    address: usize,
    /// Where in the packet's header the source is.
    source: u32,
    protocol: usize,
    flags: usize,
    not: usize,
    is_goto: u8,
    /// The flags of which we know what they ask.
    known_flags: u8,
    /// Where the offsets of the target and of the next entry stand.
    offsets: usize,
    /// Where the matches begin.
    matches: usize,
}

impl Layout {
    /// Where the counters stand: packets, then bytes, as the last of what every entry has.
    pub(super) const fn counters(&self) -> usize {
        self.matches - 16
    }

    pub(super) const fn of(family: Family) -> Self {
        match family {
            Family::V4 => Self {
                address: 4,
                source: 12,
                protocol: 80,
                flags: 82,
                not: 83,
                is_goto: 2,
                known_flags: IS_FRAGMENT | 2,
                offsets: 88,
                matches: 112,
            },
            Family::V6 => Self {
                address: 16,
                source: 8,
                protocol: 128,
                flags: 131,
                not: 132,
                is_goto: 4,
                known_flags: HAS_PROTOCOL | 4,
                offsets: 140,
                matches: 168,
            },
        }
    }
}

/// What of an entry is negated, by bit.
const NOT_IN: u8 = 1;
const NOT_OUT: u8 = 2;
const NOT_SOURCE: u8 = 8;
const NOT_DESTINATION: u8 = 0x10;
const NOT_FRAGMENT: u8 = 0x20;
const NOT_PROTOCOL: u8 = 0x40;
/// What of an entry can be negated, as far as we ask for it.
const KNOWN_NOT: u8 = NOT_IN | NOT_OUT | NOT_SOURCE | NOT_DESTINATION | NOT_FRAGMENT | NOT_PROTOCOL;
/// IPv4 only: the rule is for later fragments.
const IS_FRAGMENT: u8 = 1;
/// IPv6 only: the rule asks for a protocol.
const HAS_PROTOCOL: u8 = 1;

/// One entry, with its place in the block.
#[derive(Debug)]
pub(super) struct Entry<'a> {
    pub(super) at: usize,
    pub(super) next: usize,
    pub(super) bytes: &'a [u8],
    pub(super) target: &'a [u8],
}

/// The policy of the chain on the hook, and all chains.
fn read(family: Family, info: &[u8], block: &[u8]) -> io::Result<(Policy, Chains)> {
    let layout = Layout::of(family);
    let hook = |table: usize| number(info, table + FORWARD_HOOK * 4).and_then(size);
    let (first, underflow) = (hook(HOOK_ENTRIES)?, hook(UNDERFLOWS)?);
    let all = split(&layout, block)?;
    let mut starts: BTreeMap<usize, Name> = BTreeMap::from([(first, FORWARD.into())]);
    for entry in all.iter().filter(|entry| is_head(entry)) {
        let name = String::from_utf8_lossy(text(entry.target.get(TARGET_HEAD..).unwrap_or_default()));
        starts.insert(entry.next, name.as_ref().into());
    }
    let mut chains = Chains::new();
    let (mut chain, mut policy) = (None, None);
    for entry in &all {
        if let Some(name) = starts.get(&entry.at) {
            chain = Some(name.clone());
            chains.entry(name.clone()).or_default();
        }
        // Chains of other hooks stand in the block too; nothing on this hook leads to them.
        let Some(name) = chain.clone().filter(|_| !is_head(entry)) else {
            chain = None;
            continue;
        };
        if entry.at == underflow {
            policy = Some(if verdict(entry)? == Some(-1) { Policy::Drop } else { Policy::Accept });
            chain = None;
        } else {
            chains.entry(name).or_default().push(rule(&layout, &starts, entry)?);
        }
    }
    Ok((policy.ok_or_else(odd)?, chains))
}

pub(super) fn split<'a>(layout: &Layout, block: &'a [u8]) -> io::Result<Vec<Entry<'a>>> {
    let (mut all, mut at) = (Vec::new(), 0);
    while at < block.len() {
        let rest = &block[at..];
        let (target, length) = (short(rest, layout.offsets)?, short(rest, layout.offsets + 2)?);
        let bytes = rest.get(..length).ok_or_else(odd)?;
        if target < layout.matches || length < target + TARGET_HEAD {
            return Err(odd());
        }
        let target = bytes.get(target..).ok_or_else(odd)?;
        all.push(Entry { at, next: at + length, bytes, target });
        at += length;
    }
    Ok(all)
}

pub(super) fn is_head(entry: &Entry<'_>) -> bool {
    target_name(entry) == HEAD_OF_CHAIN
}

fn target_name<'a>(entry: &Entry<'a>) -> &'a [u8] {
    text(&entry.target[TARGET_NAME..TARGET_HEAD - 1])
}

/// The number of a standard target; `None` for a module's.
pub(super) fn verdict(entry: &Entry<'_>) -> io::Result<Option<i32>> {
    if !target_name(entry).is_empty() {
        return Ok(None);
    }
    number(entry.target, TARGET_HEAD).map(|number| Some(number.cast_signed()))
}

pub(super) fn rule(
    layout: &Layout,
    starts: &BTreeMap<usize, Name>,
    entry: &Entry<'_>,
) -> io::Result<Vec<Step>> {
    let bytes = entry.bytes;
    let part = |at: usize, length: usize| bytes.get(at..at + length).ok_or_else(odd);
    let byte = |at: usize| bytes.get(at).copied().ok_or_else(odd);
    let (size, not, flags) = (layout.address, byte(layout.not)?, byte(layout.flags)?);
    let width = u32::try_from(size).map_err(|_| odd())?;
    let names = 4 * size;
    let mut steps = Vec::new();
    let address = |offset: u32| Origin::Network { offset, size: width };
    masked(&mut steps, address(layout.source), part(0, size)?, part(2 * size, size)?, not & NOT_SOURCE != 0);
    let destination = address(layout.source + width);
    masked(&mut steps, destination, part(size, size)?, part(3 * size, size)?, not & NOT_DESTINATION != 0);
    let interface = |nth: usize| part(names + nth * 16, 16);
    masked(&mut steps, Origin::Meta(IN_NAME), interface(0)?, interface(2)?, not & NOT_IN != 0);
    masked(&mut steps, Origin::Meta(OUT_NAME), interface(1)?, interface(3)?, not & NOT_OUT != 0);
    let protocol = short(bytes, layout.protocol)?;
    if let Some(protocol) = u8::try_from(protocol).ok().filter(|protocol| *protocol != 0) {
        steps.push(Step::Load { to: REGISTER, from: Origin::Meta(TRANSPORT_PROTOCOL) });
        steps.push(compare(&[protocol], not & NOT_PROTOCOL != 0));
    } else if protocol != 0 {
        steps.push(unknown("protocol"));
    }
    // Such as the field for the type of service, which the kernel never looks at.
    if flags & !layout.known_flags != 0 || not & !KNOWN_NOT != 0 {
        steps.push(unknown("flags"));
    }
    if size == 4 && flags & IS_FRAGMENT != 0 {
        // The packet is no later fragment, so the offset in its header is 0.
        steps.push(Step::Load { to: REGISTER, from: Origin::Network { offset: 6, size: 2 } });
        let (mask, xor) = (vec![0x1f, 0xff], vec![0, 0]);
        steps.push(Step::Bitwise { from: REGISTER, to: REGISTER, mask, xor });
        steps.push(compare(&[0, 0], not & NOT_FRAGMENT == 0));
    }
    matches(&mut steps, layout, entry)?;
    target(&mut steps, starts, entry, flags & layout.is_goto != 0)?;
    Ok(steps)
}

/// A condition that no rule of a proxy has.
fn unknown(name: &str) -> Step {
    Step::Unknown { name: name.to_owned(), decides: false }
}

/// Asks for a masked value, unless the mask is empty and the question not negated.
fn masked(steps: &mut Vec<Step>, from: Origin, value: &[u8], mask: &[u8], not: bool) {
    let leading = mask.iter().take_while(|byte| **byte == 0xff).count();
    let is_beginning = mask[leading..].iter().all(|byte| *byte == 0);
    if leading == 0 && is_beginning && !not {
        return;
    }
    steps.push(Step::Load { to: REGISTER, from });
    if is_beginning {
        steps.push(compare(&value[..leading], not));
        return;
    }
    steps.push(Step::Bitwise { from: REGISTER, to: REGISTER, mask: mask.to_vec(), xor: vec![0; mask.len()] });
    let value: Vec<u8> = value.iter().zip(mask).map(|(value, mask)| value & mask).collect();
    steps.push(compare(&value, not));
}

fn compare(value: &[u8], not: bool) -> Step {
    let how = if not { Comparison::NotEqual } else { Comparison::Equal };
    Step::Compare { register: REGISTER, how, value: value.to_vec() }
}

/// The modules between the fixed part of the entry and its target.
pub(super) fn matches(steps: &mut Vec<Step>, layout: &Layout, entry: &Entry<'_>) -> io::Result<()> {
    let end = entry.bytes.len() - entry.target.len();
    let mut rest = entry.bytes.get(layout.matches..end).ok_or_else(odd)?;
    while !rest.is_empty() {
        let length = short(rest, 0)?;
        let one = rest.get(..length).filter(|one| one.len() >= TARGET_HEAD).ok_or_else(odd)?;
        let (name, revision, info) = module(one);
        steps.push(Step::XtMatch { name, revision, info });
        rest = &rest[length..];
    }
    Ok(())
}

/// Name, revision and data of a match or target, which has at least its head.
fn module(bytes: &[u8]) -> (String, u32, Vec<u8>) {
    let name = String::from_utf8_lossy(text(&bytes[TARGET_NAME..TARGET_HEAD - 1])).into_owned();
    (name, bytes[TARGET_HEAD - 1].into(), bytes[TARGET_HEAD..].to_vec())
}

fn target(
    steps: &mut Vec<Step>,
    starts: &BTreeMap<usize, Name>,
    entry: &Entry<'_>,
    is_goto: bool,
) -> io::Result<()> {
    let Some(verdict) = verdict(entry)? else {
        let (name, revision, info) = module(entry.target);
        steps.push(Step::XtTarget { name, revision, info });
        return Ok(());
    };
    let unknown = || Step::Unknown { name: format!("verdict {verdict}"), decides: true };
    steps.push(match verdict {
        -1 => Step::Verdict(Verdict::Drop),
        -2 => Step::Verdict(Verdict::Accept),
        -5 => Step::Verdict(Verdict::Return),
        to => match usize::try_from(to) {
            // A rule without a target leads to the next one.
            Ok(to) if to == entry.next && !is_goto => return Ok(()),
            Ok(to) => match starts.get(&to) {
                Some(chain) if is_goto => Step::Verdict(Verdict::Goto(chain.clone())),
                Some(chain) => Step::Verdict(Verdict::Jump(chain.clone())),
                None => unknown(),
            },
            Err(_) => unknown(),
        },
    });
    Ok(())
}

pub(super) fn size(number: u32) -> io::Result<usize> {
    usize::try_from(number).map_err(|_| odd())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An entry of IPv4 that asks nothing, with a standard target.
    fn entry(verdict: i32) -> Vec<u8> {
        let mut bytes = vec![0; 112 + TARGET_HEAD + 8];
        let length = u16::try_from(bytes.len()).unwrap_or_default();
        bytes[88..90].copy_from_slice(&112_u16.to_ne_bytes());
        bytes[90..92].copy_from_slice(&length.to_ne_bytes());
        bytes[112 + TARGET_HEAD..][..4].copy_from_slice(&verdict.to_ne_bytes());
        bytes
    }

    fn info() -> Vec<u8> {
        let mut info = vec![0; 84];
        let at = |table: usize| table + FORWARD_HOOK * 4..table + FORWARD_HOOK * 4 + 4;
        info[at(UNDERFLOWS)].copy_from_slice(&152_u32.to_ne_bytes());
        info
    }

    #[test]
    fn the_last_entry_of_the_hook_is_its_policy() {
        for (verdict, policy) in [(-1, Policy::Drop), (-2, Policy::Accept)] {
            let block = [entry(-2), entry(verdict)].concat();
            let (read, chains) = read(Family::V4, &info(), &block).expect("it is right");
            assert_eq!(read, policy);
            assert_eq!(chains[FORWARD], [vec![Step::Verdict(Verdict::Accept)]]);
        }
    }

    #[test]
    fn conditions_that_are_not_understood_are_not_left_out() {
        let of = |family: Family, at: usize, value: u8| {
            let layout = Layout::of(family);
            let mut bytes = vec![0; layout.matches + TARGET_HEAD + 8];
            let length = u16::try_from(bytes.len()).unwrap_or_default();
            let target = u16::try_from(layout.matches).unwrap_or_default();
            bytes[layout.offsets..][..2].copy_from_slice(&target.to_ne_bytes());
            bytes[layout.offsets + 2..][..2].copy_from_slice(&length.to_ne_bytes());
            bytes[layout.matches + TARGET_HEAD..][..4].copy_from_slice(&(-2_i32).to_ne_bytes());
            bytes[at] = value;
            let entries = split(&layout, &bytes).expect("it is right");
            crate::nft::iptables_text::rule(
                None,
                &rule(&layout, &BTreeMap::new(), &entries[0]).expect("it is right"),
            )
        };
        let high = |at: usize| if cfg!(target_endian = "little") { at + 1 } else { at };
        for (family, at, value, expected) in [
            (Family::V4, 82, 0, "-j ACCEPT"),
            (Family::V4, high(80), 1, "-m protocol ? -j ACCEPT"),
            (Family::V6, high(128), 1, "-m protocol ? -j ACCEPT"),
            (Family::V6, 131, HAS_PROTOCOL, "-j ACCEPT"),
            // The flags of the type of service.
            (Family::V6, 131, 2, "-m flags ? -j ACCEPT"),
            (Family::V6, 132, 4, "-m flags ? -j ACCEPT"),
            (Family::V4, 83, 4, "-m flags ? -j ACCEPT"),
        ] {
            assert_eq!(of(family, at, value), expected, "{family} {at} {value}");
        }
    }

    #[test]
    fn no_length_is_trusted() {
        let whole = [entry(-2), entry(-1)].concat();
        for cut in 0..whole.len() {
            assert!(read(Family::V4, &info(), &whole[..cut]).is_err(), "{cut}");
        }
        for value in [0, 1, 88, 112, 113, u16::MAX] {
            for at in [88, 90] {
                let mut bytes = whole.clone();
                bytes[at..at + 2].copy_from_slice(&value.to_ne_bytes());
                // Either is fine, as long as it ends.
                let _ = read(Family::V4, &info(), &bytes);
                let _ = read(Family::V6, &info(), &bytes);
            }
        }
    }
}
