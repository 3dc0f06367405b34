//! The decoders trust no length: arbitrary and mutated messages give values or errors, never a panic.
//!
//! The cases come from a small generator with a fixed seed, so that a failure repeats. Set
//! `PORTWAY_FUZZ_CASES` for more.

#[path = "../tests/common/layout.rs"]
#[allow(dead_code, unreachable_pub, reason = "shared with the tests outside, which use all of it")]
mod layout;

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::netlink::{Header, Message, MessageWriter, Messages, flags};
use crate::nft::Family;
use crate::{conntrack, host, ipset, ipvs, nft};

const CASES: u64 = 300_000;
/// Messages at the end of the seeds that are of other kinds than those of `nf_tables`.
const RARE: usize = 4 + 6 + 6 + 2;

/// xorshift64*: enough to shake lengths.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() >> 33).unwrap() % limit.max(1)
    }

    fn byte(&mut self) -> u8 {
        self.next().to_le_bytes()[5]
    }
}

fn cases() -> u64 {
    std::env::var("PORTWAY_FUZZ_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(CASES)
}

/// Well-formed messages of every kind, one by one.
fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for family in Family::ALL {
        let bytes = nft::encoded(&layout::full(family));
        let mut rest = &bytes[..];
        while let Some(head) = rest.first_chunk::<4>() {
            let length = usize::try_from(u32::from_ne_bytes(*head)).unwrap().next_multiple_of(4);
            let (message, behind) = rest.split_at(length);
            seeds.push(message.to_vec());
            rest = behind;
        }
    }
    seeds.extend([error_message(), done_message(), address_message(), route_message()]);
    seeds.extend(ipvs::fuzzed::messages());
    seeds.extend(ipset::fuzzed::messages());
    seeds.extend(conntrack::fuzzed::messages());
    seeds
}

fn message(kind: u16, flags: u16, body: impl FnOnce(&mut MessageWriter)) -> Vec<u8> {
    let mut writer = MessageWriter::default();
    writer.message(Header { kind, flags, sequence: 1, port: 0 }, body);
    writer.bytes().to_vec()
}

/// A refusal with the kernel's reasons.
fn error_message() -> Vec<u8> {
    message(2, flags::CAPPED | flags::ACK_ATTRIBUTES, |m| {
        m.raw(&(-libc::ENOENT).to_ne_bytes());
        m.raw(&[0; 16]);
        m.text(1, "no such thing");
        m.attribute(2, &20u32.to_ne_bytes());
    })
}

/// The end of a listing.
fn done_message() -> Vec<u8> {
    message(3, 0, |m| m.raw(&0i32.to_ne_bytes()))
}

fn address_message() -> Vec<u8> {
    message(20, 0, |m| {
        m.raw(&[2, 24, 0, 0, 1, 0, 0, 0]);
        m.attribute(1, &[192, 168, 0, 1]);
        m.attribute(2, &[192, 168, 0, 1]);
        m.text(3, "eth0");
    })
}

fn route_message() -> Vec<u8> {
    message(24, 0, |m| {
        m.raw(&[10, 64, 0, 0, 254, 3, 0, 1, 0, 0, 0, 0]);
        m.attribute(1, &[0xfd; 16]);
        m.attribute(4, &1u32.to_ne_bytes());
        m.attribute(15, &254u32.to_ne_bytes());
    })
}

fn arbitrary(random: &mut Random) -> Vec<u8> {
    let length = random.below(200);
    (0..length).map(|_| if random.below(3) == 0 { random.byte() } else { random.byte() & 0x1f }).collect()
}

fn mutated(random: &mut Random, seeds: &[Vec<u8>]) -> Vec<u8> {
    // One case in four is of the rare kinds at the end.
    let first = if random.below(4) == 0 { seeds.len() - RARE } else { 0 };
    let mut bytes = seeds[first + random.below(seeds.len() - first)].clone();
    for _ in 0..=random.below(6) {
        let at = random.below(bytes.len());
        if bytes.is_empty() {
            break;
        }
        match random.below(5) {
            0 => bytes[at] = random.byte(),
            1 => bytes[at] ^= 1 << random.below(8),
            2 => bytes.truncate(at.max(1)),
            3 => bytes.insert(at, random.byte()),
            // A length field: attributes begin at multiples of four.
            _ => bytes[at & !3] = random.byte() & 0x3f,
        }
    }
    bytes
}

/// Reads everything that can be read out of the bytes; returns how many messages made sense.
fn decode(bytes: &[u8]) -> usize {
    let mut good = 0;
    for message in Messages::new(bytes) {
        if let Ok(Message::Data(header, body)) = message {
            good += usize::from(nft::decodes(header, body));
            good += usize::from(conntrack::fuzzed::decodes(header, body));
            good += usize::from(ipvs::fuzzed::decodes(header, body));
            good += usize::from(ipset::fuzzed::decodes(header, body));
            host::decode_all(body);
        }
    }
    nft::hear(bytes);
    good
}

#[test]
fn broken_messages_never_panic() {
    let (mut random, seeds) = (Random(0x9E37_79B9_7F4A_7C15), seeds());
    let (mut decoded, total) = (0, cases());
    for case in 0..total {
        let bytes = if case % 4 == 0 { arbitrary(&mut random) } else { mutated(&mut random, &seeds) };
        let good = catch_unwind(AssertUnwindSafe(|| decode(&bytes))).ok();
        decoded += good.unwrap_or_else(|| panic!("case {case} panicked on {bytes:?}"));
    }
    eprintln!("fuzzed {total} messages, {decoded} of them still made sense, 0 panics");
    assert!(decoded > 1000, "the mutations leave something to decode");
}

#[test]
fn intact_messages_are_all_understood() {
    let understood = seeds().iter().filter(|bytes| decode(bytes) > 0).count();
    assert!(understood > 100, "{understood}");
    let rare = seeds().split_off(seeds().len() - RARE + 4);
    assert!(rare.iter().all(|bytes| decode(bytes) > 0), "{rare:?}");
}
