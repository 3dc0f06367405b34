//! A rule as text for people, close to what `nft` prints. Matches and targets of iptables show by their names.
//!
//! It is for messages, not for reading it back.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};

use super::facts::{ct, meta};
use crate::IpProtocol;
use crate::nft::foreign::{Comparison, Origin, Step};
use crate::nft::{Found, Register, Verdict};

/// The text of one rule.
pub(super) fn rule(steps: &[Step]) -> String {
    let mut words = Words::default();
    let parts: Vec<String> = steps.iter().filter_map(|step| words.step(step)).collect();
    parts.join(" ")
}

/// What the registers hold, in words.
#[derive(Default)]
struct Words {
    registers: BTreeMap<Register, Held>,
}

#[derive(Clone)]
struct Held {
    name: String,
    origin: Origin,
}

impl Words {
    fn step(&mut self, step: &Step) -> Option<String> {
        match step {
            Step::Load { to, from } => self.hold(*to, name(*from), *from),
            Step::Immediate { to, value } => self.hold(*to, hexadecimal(value), Origin::Other),
            Step::Bitwise { from, to, mask, xor } => {
                let held = self.held(*from);
                let xor = if xor.iter().all(|byte| *byte == 0) {
                    String::new()
                } else {
                    format!(" ^ {}", shown(held.origin, xor))
                };
                let text = format!("{} & {}{xor}", held.name, shown(held.origin, mask));
                self.hold(*to, text, held.origin)
            }
            Step::SwapBytes { from, to, .. } => {
                let held = self.held(*from);
                self.hold(*to, held.name, Origin::Other)
            }
            Step::Forget { to } => self.hold(*to, "?".to_owned(), Origin::Other),
            Step::Compare { register, how, value } => Some(self.compared(*register, *how, value)),
            Step::Range { register, is_inside, low, high } => {
                let held = self.held(*register);
                let not = if *is_inside { "" } else { "!= " };
                let (low, high) = (shown(held.origin, low), shown(held.origin, high));
                Some(format!("{} {not}{low}-{high}", held.name))
            }
            Step::Lookup { key, set, found } => {
                // Fields of a longer key stand in the registers behind the first.
                let fields: Vec<_> =
                    self.registers.range(*key..).map(|(_, held)| held.name.as_str()).collect();
                let key = fields.join(" . ");
                Some(match found {
                    Found::Pass => format!("{key} @{set}"),
                    Found::Break => format!("{key} != @{set}"),
                    Found::Decide => format!("{key} vmap @{set}"),
                    Found::Load(_) => format!("{key} map @{set}"),
                })
            }
            Step::SetMark { from } => Some(format!("meta mark set {}", self.held(*from).name)),
            Step::XtMatch { name, .. } => Some(format!("-m {name}")),
            Step::XtTarget { name, .. } => Some(format!("-j {name}")),
            Step::Verdict(verdict) => Some(self::verdict(verdict)),
            Step::Reject => Some("reject".to_owned()),
            Step::Passes(_) => None,
            Step::Unknown { name, .. } => Some(name.clone()),
        }
    }

    fn hold(&mut self, register: Register, name: String, origin: Origin) -> Option<String> {
        self.registers.insert(register, Held { name, origin });
        None
    }

    fn held(&self, register: Register) -> Held {
        let unknown = || Held { name: "?".to_owned(), origin: Origin::Other };
        self.registers.get(&register).cloned().unwrap_or_else(unknown)
    }

    fn compared(&self, register: Register, how: Comparison, value: &[u8]) -> String {
        let held = self.held(register);
        let is_masked = held.name.contains(" & ");
        let operator = match how {
            Comparison::Equal if is_masked => "== ",
            Comparison::Equal => "",
            Comparison::NotEqual => "!= ",
            Comparison::Less => "< ",
            Comparison::LessOrEqual => "<= ",
            Comparison::Greater => "> ",
            Comparison::GreaterOrEqual => ">= ",
        };
        format!("{} {operator}{}", held.name, shown(held.origin, value))
    }
}

fn verdict(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Accept => "accept".to_owned(),
        Verdict::Drop => "drop".to_owned(),
        Verdict::Return => "return".to_owned(),
        Verdict::Jump(chain) => format!("jump {chain}"),
        Verdict::Goto(chain) => format!("goto {chain}"),
    }
}

fn name(origin: Origin) -> String {
    let fixed = match origin {
        Origin::Network { offset: 12, size: 1..=4 } => "ip saddr",
        Origin::Network { offset: 16, size: 1..=4 } => "ip daddr",
        Origin::Network { offset: 8, size: 5..=16 } => "ip6 saddr",
        Origin::Network { offset: 24, size: 1..=16 } => "ip6 daddr",
        Origin::Network { offset: 9, size: 1 } => "ip protocol",
        Origin::Network { offset: 6, size: 1 } => "ip6 nexthdr",
        Origin::Transport { offset: 0, size: 2 } => "th sport",
        Origin::Transport { offset: 2, size: 2 } => "th dport",
        Origin::Transport { offset: 13, size: 1 } => "tcp flags",
        Origin::Meta(meta::PROTOCOL) => "meta protocol",
        Origin::Meta(meta::MARK) => "meta mark",
        Origin::Meta(meta::IN_INDEX) => "iif",
        Origin::Meta(meta::OUT_INDEX) => "oif",
        Origin::Meta(meta::IN_NAME) => "iifname",
        Origin::Meta(meta::OUT_NAME) => "oifname",
        Origin::Meta(meta::NETWORK_PROTOCOL) => "meta nfproto",
        Origin::Meta(meta::TRANSPORT_PROTOCOL) => "meta l4proto",
        Origin::Ct(ct::STATE) => "ct state",
        Origin::Ct(ct::DIRECTION) => "ct direction",
        Origin::Ct(ct::STATUS) => "ct status",
        Origin::Network { offset, size } => return format!("@nh,{offset},{size}"),
        Origin::Transport { offset, size } => return format!("@th,{offset},{size}"),
        Origin::Meta(key) => return format!("meta key {key}"),
        Origin::Ct(key) => return format!("ct key {key}"),
        Origin::Other => "?",
    };
    fixed.to_owned()
}

/// A value in the words of what it is compared with.
fn shown(origin: Origin, value: &[u8]) -> String {
    let number = |bytes: &[u8]| bytes.try_into().map(u32::from_ne_bytes);
    match origin {
        Origin::Network { offset: 12 | 16, size: 1..=4 } => {
            address::<4>(value, |bytes| Ipv4Addr::from(bytes).to_string())
        }
        Origin::Network { offset: 8 | 24, size: 1..=16 } => {
            address::<16>(value, |bytes| Ipv6Addr::from(bytes).to_string())
        }
        Origin::Transport { offset: 0 | 2, size: 2 } => value
            .try_into()
            .map_or_else(|_| hexadecimal(value), |bytes| u16::from_be_bytes(bytes).to_string()),
        Origin::Meta(meta::IN_NAME | meta::OUT_NAME) => interface(value),
        Origin::Meta(meta::TRANSPORT_PROTOCOL) | Origin::Network { offset: 6 | 9, size: 1 } => match value {
            [protocol] => IpProtocol(*protocol).to_string(),
            _ => hexadecimal(value),
        },
        Origin::Meta(meta::IN_INDEX | meta::OUT_INDEX) => {
            number(value).map_or_else(|_| hexadecimal(value), |number| number.to_string())
        }
        Origin::Meta(meta::MARK) | Origin::Ct(ct::STATUS) => {
            number(value).map_or_else(|_| hexadecimal(value), |number| format!("{number:#x}"))
        }
        Origin::Ct(ct::STATE) => number(value).map_or_else(|_| hexadecimal(value), states),
        _ => hexadecimal(value),
    }
}

/// A short value is the beginning of an address.
fn address<const N: usize>(value: &[u8], text: fn([u8; N]) -> String) -> String {
    let mut bytes = [0; N];
    let Some(room) = bytes.get_mut(..value.len()) else { return hexadecimal(value) };
    room.copy_from_slice(value);
    if value.len() == N { text(bytes) } else { format!("{}/{}", text(bytes), 8 * value.len()) }
}

/// A name that ends without a zero is the beginning of a name. A mask is shown as bytes.
fn interface(value: &[u8]) -> String {
    let end = value.iter().position(|byte| *byte == 0).unwrap_or(value.len());
    let name = &value[..end];
    if name.iter().any(|byte| !byte.is_ascii_graphic()) {
        return hexadecimal(value);
    }
    let star = if end == value.len() && end < 16 { "*" } else { "" };
    format!("\"{}{star}\"", String::from_utf8_lossy(name))
}

fn states(bits: u32) -> String {
    let names = [(1, "invalid"), (2, "established"), (4, "related"), (8, "new"), (64, "untracked")];
    let known: Vec<_> = names.into_iter().filter(|(bit, _)| bits & bit != 0).map(|(_, name)| name).collect();
    if known.is_empty() { format!("{bits:#x}") } else { known.join(",") }
}

fn hexadecimal(value: &[u8]) -> String {
    value.iter().fold("0x".to_owned(), |text, byte| text + &format!("{byte:02x}"))
}
