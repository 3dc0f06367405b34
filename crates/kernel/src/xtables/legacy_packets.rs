//! How many packets the rules of one chain of a legacy table have counted, as the kernel itself tells it.
//!
//! In: the entries of a table. Out: one number for each rule of the chain, in order. The kernel gives a legacy table as a whole or not at
//! all, as it does to `iptables-legacy -L CHAIN`, so the cost grows with the table.

use std::io;

use super::Family;
use super::legacy::{TARGET_HEAD, again, entries, odd};
use super::legacy_rules::{Entry, Layout, is_head, split};
use crate::nft::iptables_text::text;
use crate::rule_packets::RulePackets;

/// The counts of the rules of a chain that somebody made; nothing where there is no such chain. The table must be there.
pub(super) fn read(family: Family, table: &str, chain: &str) -> io::Result<Vec<RulePackets>> {
    again(|| counts(family, &entries(family, table)?.1, chain))
}

fn counts(family: Family, block: &[u8], chain: &str) -> io::Result<Vec<RulePackets>> {
    let layout = Layout::of(family);
    let entries = split(&layout, block)?;
    let is_it = |entry: &Entry<'_>| is_head(entry) && text(&entry.target[TARGET_HEAD..]) == chain.as_bytes();
    let behind = entries.iter().skip_while(|entry| !is_it(entry)).skip(1);
    let rules = behind.take_while(|entry| !is_head(entry));
    let packets = |entry: &Entry<'_>| long(entry.bytes, layout.counters());
    let mut found = rules
        .map(|entry| Ok(RulePackets { handle: 0, packets: packets(entry)? }))
        .collect::<io::Result<Vec<_>>>()?;
    // The last entry of a chain is what sends a packet back that met none of its rules.
    found.pop();
    Ok(found)
}

fn long(bytes: &[u8], at: usize) -> io::Result<u64> {
    bytes.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map(u64::from_ne_bytes).ok_or_else(odd)
}

#[cfg(test)]
mod tests {
    use super::super::legacy::TARGET_NAME;
    use super::*;

    /// Where in an entry the offset of its target stands, and its counters.
    const fn places(family: Family) -> (usize, usize) {
        match family {
            Family::V4 => (88, 96),
            Family::V6 => (140, 152),
        }
    }

    /// An entry with this target, data behind it, and this count.
    fn entry(family: Family, target: &str, data: &str, packets: u64) -> Vec<u8> {
        let ((offsets, counters), head) = (places(family), places(family).1 + 16);
        let mut bytes = vec![0; head + TARGET_HEAD + 32];
        let (start, size) = (u16::try_from(head).unwrap_or(0), u16::try_from(bytes.len()).unwrap_or(0));
        bytes[offsets..offsets + 2].copy_from_slice(&start.to_ne_bytes());
        bytes[offsets + 2..offsets + 4].copy_from_slice(&size.to_ne_bytes());
        bytes[counters..counters + 8].copy_from_slice(&packets.to_ne_bytes());
        bytes[head + TARGET_NAME..][..target.len()].copy_from_slice(target.as_bytes());
        bytes[head + TARGET_HEAD..][..data.len()].copy_from_slice(data.as_bytes());
        bytes
    }

    /// A table with two chains of two rules and of one.
    fn table(family: Family) -> Vec<u8> {
        let entry = |target, data, packets| entry(family, target, data, packets);
        let first = [entry("ERROR", "FIRST", 0), entry("", "", 7), entry("DNAT", "x", 8), entry("", "", 9)];
        let second = [entry("ERROR", "SECOND", 0), entry("", "", 10), entry("", "", 11)];
        let around = [entry("", "", 1), entry("ERROR", "ERROR", 0)];
        [&around[..1], &first, &second, &around[1..]].concat().concat()
    }

    #[test]
    fn the_rules_of_a_chain_are_counted_without_its_end() {
        for family in Family::ALL {
            let of = |chain: &str| -> Vec<u64> {
                let found = counts(family, &table(family), chain).expect("it is right");
                found.iter().map(|rule| rule.packets).collect()
            };
            assert_eq!((of("FIRST"), of("SECOND"), of("THIRD")), (vec![7, 8], vec![10], vec![]));
        }
    }

    #[test]
    fn no_length_is_trusted() {
        let whole = table(Family::V4);
        for cut in 1..whole.len() {
            // Either is fine, as long as it ends.
            let _ = counts(Family::V4, &whole[..cut], "SECOND");
        }
        for value in [0, 1, 88, 112, u16::MAX] {
            for at in [88, 90] {
                let mut bytes = whole.clone();
                bytes[at..at + 2].copy_from_slice(&value.to_ne_bytes());
                let _ = counts(Family::V4, &bytes, "FIRST");
                let _ = counts(Family::V6, &bytes, "FIRST");
            }
        }
    }
}
